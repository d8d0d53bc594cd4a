-- What the database itself demands of decisions.

-- A settled effect is never dispatched again, so its approval may come from another store, where other people voted.
create trigger approval_needs_votes before update of decision on approval
when new.decision = 'approved' and old.decision is not 'approved'
    and exists (
        select 1 from effect
        where session_uid = new.session_uid and id = new.effect_id and state in ('planned', 'dispatched')
    )
    and (
        not exists (
            select 1 from vote
            where session_uid = new.session_uid and approval_id = new.id and decision = 'approved'
        )
        or (new.quorum > 1 and new.quorum > (
            select count(distinct principal.uid)
            from vote
            join principal_login on principal_login.login = vote.identity and principal_login.removed_at is null
            join principal on principal.uid = principal_login.principal_uid and principal.removed_at is null
            where vote.session_uid = new.session_uid and vote.approval_id = new.id and vote.decision = 'approved'
        ))
    )
begin select raise(abort, 'perdure: an approval needs the votes of its quorum'); end;

create trigger approval_begins_undecided before insert on approval
when new.decision = 'approved' and exists (
    select 1 from effect
    where session_uid = new.session_uid and id = new.effect_id and state in ('planned', 'dispatched')
)
begin select raise(abort, 'perdure: an approval needs the votes of its quorum'); end;

create trigger approval_keeps_its_conditions before update on approval
when new.quorum <> old.quorum or new.gate <> old.gate or new.effect_id <> old.effect_id
    or new.conditions is not old.conditions or new.requested_by is not old.requested_by
    or new.requester <> old.requester or new.requester_may_decide <> old.requester_may_decide
begin select raise(abort, 'perdure: an approval keeps its conditions'); end;

create trigger approval_withdrawn_before_use before update on approval
when (old.withdrawn_at is not null and (new.withdrawn_at is not old.withdrawn_at or new.consumed_by is not null))
    or (old.withdrawn_at is null and new.withdrawn_at is not null and old.consumed_by is not null)
begin select raise(abort, 'perdure: an approval is withdrawn before it is used'); end;
