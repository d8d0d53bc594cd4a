-- name: transfer.kinds
-- The kinds of event that this store knows.
select kind from event_kind order by kind limit :limit;

-- name: transfer.chain
-- The chain after one event.
select chain from event where session_uid = :uid and number = :number;

-- name: transfer.read_wait
-- Every wait of a session.
select {columns:wait} from wait where session_uid = :uid limit :limit;

-- name: transfer.read_inbox
-- Every message a session was sent.
select {columns:inbox} from inbox where session_uid = :uid limit :limit;

-- name: transfer.read_step
-- Every recorded step of a session.
select {columns:step} from step where session_uid = :uid limit :limit;

-- name: transfer.read_task
-- A session's whole plan.
select {columns:task} from task where session_uid = :uid limit :limit;

-- name: transfer.read_decision
-- Every decision of a session.
select {columns:decision} from decision where session_uid = :uid limit :limit;

-- name: transfer.read_fact
-- The private facts of a session.
select {columns:fact} from fact where scope = :scope limit :limit;

-- name: transfer.read_effect
-- Every effect of a session.
select {columns:effect} from effect where session_uid = :uid limit :limit;

-- name: transfer.read_attempt
-- Every attempt of a session's effects.
select {columns:attempt} from attempt where session_uid = :uid limit :limit;

-- name: transfer.read_approval
-- Every approval of a session's effects.
select {columns:approval} from approval where session_uid = :uid limit :limit;

-- name: transfer.read_vote
-- Every vote on them.
select {columns:vote} from vote where session_uid = :uid limit :limit;

-- name: transfer.read_artifact
-- Every artifact that a session claims.
select {columns:artifact} from artifact where session_uid = :uid limit :limit;

-- name: transfer.insert_session
-- Insert an imported session; a uid or id that exists already changes nothing.
insert into session ({columns:session})
values (
    :uid, :id, :program, :arguments, :result, :error, :title, :repository, :owner, :queue, :priority, :concurrency_key,
    :status, :waiting_since, :cursor, :chain, :parent_uid, :parent_wait, :forked_from, :forked_at, :branch,
    :lease_holder, :lease_nonce, :lease_epoch, :lease_until, :restart_number, :restart_arguments, :crash_count,
    :cancel_requested_at, :pause_requested_at, :sealed_at, :tokens_in, :tokens_out, :cost_micros, :created_at,
    :updated_at, :version, :policy_at, :interrupt_requested_at, :model, :archived_at, :retries,
    :removed_at, :turn, :max_retries, :deadline_at, :code_version, :pinned_at, :workspace, :suspected_at, :lease_alone,
    :slot_since, :schedule_uid, :scheduled_at, :repository_id
) on conflict do nothing;

-- name: transfer.update_session
-- Update a session whose log was continued in another store.
update session set arguments = :arguments, result = :result, error = :error, title = :title,
    repository = :repository, owner = :owner,
    queue = :queue, priority = :priority, concurrency_key = :concurrency_key, status = :status,
    waiting_since = :waiting_since, cursor = :cursor, chain = :chain, lease_holder = null, lease_nonce = null,
    lease_epoch = :lease_epoch, lease_until = null, restart_number = :restart_number,
    restart_arguments = :restart_arguments, crash_count = :crash_count, cancel_requested_at = :cancel_requested_at,
    pause_requested_at = :pause_requested_at, sealed_at = :sealed_at, tokens_in = :tokens_in,
    tokens_out = :tokens_out, cost_micros = :cost_micros, updated_at = :updated_at, version = :version,
    interrupt_requested_at = :interrupt_requested_at, model = :model, archived_at = :archived_at,
    retries = :retries, removed_at = :removed_at, turn = :turn, max_retries = :max_retries,
    deadline_at = :deadline_at, code_version = :code_version, pinned_at = :pinned_at, workspace = :workspace,
    suspected_at = :suspected_at, lease_alone = :lease_alone, slot_since = :slot_since, schedule_uid = :schedule_uid,
    scheduled_at = :scheduled_at, repository_id = :repository_id
where uid = :uid;

-- name: transfer.set_folder
-- Give a session that was imported without a folder the folder that it works in.
update session set repository = :repository, repository_id = coalesce(cast(:repository_id as text), repository_id)
where uid = :uid and repository is null;

-- name: transfer.unseal
-- Unseal a session.
update session set sealed_at = null where uid = :uid;

-- name: transfer.write_wait
-- A wait, or its answer since.
insert into wait ({columns:wait})
values (
    :session_uid, :id, :kind, :ref, :detail, :due_at, :since, :answer, :resolved_by, :resolved_at, :number,
    :resolved_number
)
on conflict (session_uid, id) do update set answer = excluded.answer, resolved_by = excluded.resolved_by,
    resolved_at = excluded.resolved_at, resolved_number = excluded.resolved_number
where wait.resolved_at is null and excluded.resolved_at is not null;

-- name: transfer.write_inbox
-- A message, or what it became since.
insert into inbox ({columns:inbox})
values (:session_uid, :id, :sequence, :mode, :body, :sender, :received_at, :promoted_as)
on conflict (session_uid, id) do update set promoted_as = excluded.promoted_as
where inbox.promoted_as is null and excluded.promoted_as is not null;

-- name: transfer.write_step
-- A recorded step.
insert into step ({columns:step})
values (
    :session_uid, :restart_number, :scope, :name, :argument_digest, :occurrence, :result, :artifact, :error, :number,
    :at
)
on conflict (session_uid, restart_number, scope, name, argument_digest, occurrence) do nothing;

-- name: transfer.write_task
-- A node of the plan, as it is now.
insert into task ({columns:task})
values (
    :session_uid, :id, :parent_id, :title, :state, :priority, :branch, :assigned_worker, :note, :created_at, :updated_at
)
on conflict (session_uid, id) do update set parent_id = excluded.parent_id, title = excluded.title,
    state = excluded.state, priority = excluded.priority, branch = excluded.branch,
    assigned_worker = excluded.assigned_worker, note = excluded.note, updated_at = excluded.updated_at;

-- name: transfer.write_decision
-- A decision, or its outcome since.
insert into decision ({columns:decision})
values (:session_uid, :id, :decision, :rationale, :planned_action, :outcome, :decided_at, :settled_at)
on conflict (session_uid, id) do update set outcome = excluded.outcome, settled_at = excluded.settled_at
where decision.outcome is null and excluded.outcome is not null;

-- name: transfer.write_fact
-- A private fact, as it is now.
insert into fact ({columns:fact})
values (
    :scope, :key, :value, :version, :verify, :session_uid, :updated_by, :updated_at, :verified_at, :stale_after
)
on conflict (scope, key) do update set value = excluded.value, version = excluded.version, verify = excluded.verify,
    updated_by = excluded.updated_by, updated_at = excluded.updated_at, verified_at = excluded.verified_at,
    stale_after = excluded.stale_after;

-- name: transfer.insert_effect
-- An effect as it was planned; its state follows.
insert into effect (
    session_uid, id, task_id, position, generation, tool, replay, targets, intent, intent_digest, idempotency_key,
    state, supersedes, planned_at, number, leases, inflight, key_ttl, retry, reach
) values (
    :session_uid, :id, :task_id, :position, :generation, :tool, :replay, :targets, :intent, :intent_digest,
    :idempotency_key, 'planned', :supersedes, :planned_at, :number, :leases, :inflight, :key_ttl, :retry, :reach
) on conflict (session_uid, id) do nothing;

-- name: transfer.step_effect
-- One legal state change of an imported effect.
update effect set state = :state, settled_at = :settled_at where session_uid = :session_uid and id = :id;

-- name: transfer.update_effect
-- The final columns of an effect.
update effect set state = :state, reference = :reference, result = :result, artifact = :artifact, error = :error,
    approval_id = :approval_id, policy_version = :policy_version, rule = :rule, exemption_id = :exemption_id,
    verdict = :verdict, verdict_by = :verdict_by, verdict_because = :verdict_because, settled_at = :settled_at,
    doubted_at = :doubted_at, doubt = :doubt, settled_number = :settled_number,
    undo_requested_at = :undo_requested_at, undo_by = :undo_by, undo_because = :undo_because,
    restore_epoch = :restore_epoch
where session_uid = :session_uid and id = :id;

-- name: transfer.write_attempt
-- An attempt, or its outcome since.
insert into attempt ({columns:attempt})
values (
    :session_uid, :effect_id, :number, :worker, :epoch, :process, :sandbox, :dispatched_at, :deadline_at, :outcome,
    :error, :usage, :ended_at, :settled_at, :ended_boot, :heartbeat_at, :progress, :policy_version, :rule
)
on conflict (session_uid, effect_id, number) do update set outcome = excluded.outcome, error = excluded.error,
    usage = excluded.usage, ended_at = excluded.ended_at, settled_at = excluded.settled_at,
    ended_boot = excluded.ended_boot;

-- name: transfer.write_approval
-- An approval; one that was approved is written undecided, until its votes are there.
insert into approval ({columns:approval})
values (
    :session_uid, :id, :effect_id, :gate, :intent_digest, :requester, :requester_may_decide, :quorum, :expires_at,
    :decision, :asked_at, :decided_at, :consumed_by, :conditions, :requested_by, :escalate_at, :escalated_at,
    :withdrawn_at, :withdrawn_by, :withdrawn_because
)
on conflict (session_uid, id) do nothing;

-- name: transfer.update_approval
-- What was decided about it.
update approval set decision = :decision, decided_at = :decided_at, consumed_by = :consumed_by,
    escalated_at = :escalated_at, withdrawn_at = :withdrawn_at, withdrawn_by = :withdrawn_by,
    withdrawn_because = :withdrawn_because
where session_uid = :session_uid and id = :id;

-- name: transfer.write_vote
-- One vote.
insert into vote ({columns:vote})
values (:session_uid, :approval_id, :voter, :decision, :rationale, :at, :identity, :principal_uid)
on conflict do nothing;

-- name: transfer.write_artifact
-- A session's claim on bytes that are durable already.
insert into artifact ({columns:artifact})
values (:session_uid, :digest, :kind, :size, :location, :retention, :created_at)
on conflict (session_uid, digest) do nothing;
