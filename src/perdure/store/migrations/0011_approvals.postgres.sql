-- What the database itself demands of decisions.

create function perdure_is_unsettled(of_session text, of_effect text) returns boolean language sql stable as $$
    select exists (
        select 1 from effect
        where session_uid = of_session and id = of_effect and state in ('planned', 'dispatched')
    )
$$;

-- A settled effect is never dispatched again, so its approval may come from another store, where other people voted.
create function perdure_check_quorum() returns trigger language plpgsql as $$
begin
    if not perdure_is_unsettled(new.session_uid, new.effect_id) then
        return new;
    end if;
    if tg_op = 'INSERT' or not exists (
        select 1 from vote
        where session_uid = new.session_uid and approval_id = new.id and decision = 'approved'
    ) or (new.quorum > 1 and new.quorum > (
        select count(distinct principal.uid)
        from vote
        join principal_login on principal_login.login = vote.identity and principal_login.removed_at is null
        join principal on principal.uid = principal_login.principal_uid and principal.removed_at is null
        where vote.session_uid = new.session_uid and vote.approval_id = new.id and vote.decision = 'approved'
    )) then
        raise exception 'perdure: an approval needs the votes of its quorum' using errcode = 'check_violation';
    end if;
    return new;
end
$$;

create trigger approval_needs_votes before update of decision on approval for each row
when (new.decision = 'approved' and old.decision is distinct from 'approved')
execute function perdure_check_quorum();

create trigger approval_begins_undecided before insert on approval for each row
when (new.decision = 'approved')
execute function perdure_check_quorum();

create trigger approval_keeps_its_conditions before update on approval for each row
when (new.quorum <> old.quorum or new.gate <> old.gate or new.effect_id <> old.effect_id
    or new.conditions is distinct from old.conditions or new.requested_by is distinct from old.requested_by
    or new.requester <> old.requester or new.requester_may_decide <> old.requester_may_decide)
execute function perdure_refuse('an approval keeps its conditions');

create trigger approval_withdrawn_before_use before update on approval for each row
when ((old.withdrawn_at is not null and (new.withdrawn_at is distinct from old.withdrawn_at
        or new.consumed_by is not null))
    or (old.withdrawn_at is null and new.withdrawn_at is not null and old.consumed_by is not null))
execute function perdure_refuse('an approval is withdrawn before it is used');

-- A role votes only as itself; the service votes for those whom it has authenticated: tokens, sign-ins, local users.
create function perdure_check_voter() returns trigger language plpgsql as $$
begin
    if new.identity like 'db:%' and new.identity <> 'db:' || session_user
        and exists (
            select 1 from approval
            where session_uid = new.session_uid and id = new.approval_id
                and perdure_is_unsettled(new.session_uid, effect_id)
        )
    then
        raise exception 'perdure: a role votes only as itself' using errcode = 'check_violation';
    end if;
    return new;
end
$$;

create trigger vote_is_cast_by_its_role before insert on vote for each row
when (new.identity is not null)
execute function perdure_check_voter();
