create trigger control_event_is_kept before delete on control_event for each row
execute function perdure_refuse('what is on record is never deleted');

create trigger control_event_never_changes before update on control_event for each row
execute function perdure_refuse('what is on record never changes');

create trigger policy_is_kept before delete on policy for each row
execute function perdure_refuse('what is on record is never deleted');

create trigger policy_never_changes before update on policy for each row
execute function perdure_refuse('what is on record never changes');

create trigger policy_fence_is_kept before delete on policy_fence for each row
execute function perdure_refuse('what is on record is never deleted');

create trigger attempt_keeps_its_policy before update of policy_version, rule on attempt for each row
when (new.policy_version <> old.policy_version or new.rule is distinct from old.rule)
execute function perdure_refuse('an attempt keeps the policy it was made under');
