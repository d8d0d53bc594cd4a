-- name: budget.session_usage
-- What the models of a session have used since a day.
select cast(coalesce(sum(calls), 0) as bigint), cast(coalesce(sum(tokens_in + tokens_out), 0) as bigint),
    cast(coalesce(sum(cost_micros), 0) as bigint)
from model_usage where session_uid = :uid and day >= :since;

-- name: budget.owner_usage
-- What the models of an owner's sessions have used since a day.
select cast(coalesce(sum(calls), 0) as bigint), cast(coalesce(sum(tokens_in + tokens_out), 0) as bigint),
    cast(coalesce(sum(cost_micros), 0) as bigint)
from model_usage where owner = :owner and day >= :since;

-- name: budget.usage
-- What the models of all sessions have used since a day.
select cast(coalesce(sum(calls), 0) as bigint), cast(coalesce(sum(tokens_in + tokens_out), 0) as bigint),
    cast(coalesce(sum(cost_micros), 0) as bigint)
from model_usage where day >= :since;

-- name: budget.session_effects
-- How many effects of a session were begun since a time, by reach.
select reach, count(*) from effect
where session_uid = :uid and planned_at >= :since and state not in ('planned', 'refused') and tool <> 'model'
group by reach limit :limit;

-- name: budget.owner_effects
-- How many effects of an owner's sessions were begun since a time, by reach.
select effect.reach, count(*) from effect join session on session.uid = effect.session_uid
where session.owner = :owner and effect.planned_at >= :since and effect.state not in ('planned', 'refused')
    and effect.tool <> 'model'
group by effect.reach limit :limit;

-- name: budget.effects
-- How many effects of all sessions were begun since a time, by reach.
select reach, count(*) from effect
where planned_at >= :since and state not in ('planned', 'refused') and tool <> 'model'
group by reach limit :limit;
