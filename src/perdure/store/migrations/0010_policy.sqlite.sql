create trigger control_event_is_kept before delete on control_event
begin select raise(abort, 'perdure: what is on record is never deleted'); end;

create trigger control_event_never_changes before update on control_event
begin select raise(abort, 'perdure: what is on record never changes'); end;

create trigger policy_is_kept before delete on policy
begin select raise(abort, 'perdure: what is on record is never deleted'); end;

create trigger policy_never_changes before update on policy
begin select raise(abort, 'perdure: what is on record never changes'); end;

create trigger policy_fence_is_kept before delete on policy_fence
begin select raise(abort, 'perdure: what is on record is never deleted'); end;

create trigger attempt_keeps_its_policy before update of policy_version, rule on attempt
when new.policy_version <> old.policy_version or new.rule is not old.rule
begin select raise(abort, 'perdure: an attempt keeps the policy it was made under'); end;
