-- name: model_usage.add
-- Add what a model call cost to the day, the session and the model.
insert into model_usage (day, session_uid, model, owner, calls, tokens_in, tokens_out, cost_micros)
select cast(:day as bigint), uid, cast(:model as text), owner, 1, :tokens_in, :tokens_out, :cost_micros
from session where uid = :uid
on conflict (day, session_uid, model) do update set calls = model_usage.calls + 1, owner = excluded.owner,
    tokens_in = model_usage.tokens_in + excluded.tokens_in, tokens_out = model_usage.tokens_out + excluded.tokens_out,
    cost_micros = model_usage.cost_micros + excluded.cost_micros;
