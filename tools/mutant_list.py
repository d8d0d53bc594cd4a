"""The mistakes that `make mutants` plants: the text to replace, the replacement, and the tests that should catch it."""

from __future__ import annotations

from typing import NamedTuple


class Mutant(NamedTuple):
    """One mistake. `old` occurs once in the file, whose path is relative to `src/perdure`.

    With `postgres` its tests run on PostgreSQL too, because other databases do not have the mistake.
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    postgres: bool = False


RECOVERY, DOMAIN = "domain/recovery_decision.py", ("tests/domain/test_recovery_decision.py",)
EFFECT, LEDGER = (
    "store/moves/effect.py",
    ("tests/runtime/ledger/test_effect_states.py", "tests/runtime/ledger/test_replay_rules.py"),
)
SCHEDULE, TICKS = "store/moves/schedule.py", ("tests/runtime/test_schedules.py",)
TIMES = ("tests/domain/test_schedule_times.py",)

CLAIMS = ("tests/store/moves/test_claim_side_by_side.py",)

MUTANTS: tuple[Mutant, ...] = (
    Mutant("key_ttl counts from the last attempt", RECOVERY, "attempts[0].dispatched_at", "attempts[-1].dispatched_at", DOMAIN),
    Mutant("key_ttl is forgotten", RECOVERY, "young = rule.key_ttl is None or", "young = True or", DOMAIN),
    Mutant("retry allows one more", RECOVERY, "if young and attempts_made(attempts) < rule.retry", "if young and attempts_made(attempts) <= rule.retry", DOMAIN),
    Mutant("an absence counts at once", RECOVERY, "return RecoveryDecision(action, why, ended_at + rule.inflight)", "return RecoveryDecision(action, why, ended_at)", DOMAIN),
    Mutant("inflight runs from the first end", RECOVERY, "ended_at = max(one.ended_at", "ended_at = min(one.ended_at", DOMAIN),
    Mutant("an act runs beside a living attempt", RECOVERY, "or evidence.life is not Liveness.ALIVE:", "or evidence.life is Liveness.ALIVE:", DOMAIN),
    Mutant("a living attempt is looked at without a pause", RECOVERY, "evidence.at + max(rule.inflight, SECOND)", "evidence.at + rule.inflight", DOMAIN),
    Mutant("a person's absent is dispatched at once", RECOVERY, "(last.settled_at or evidence.at) + rule.inflight", "(last.settled_at or evidence.at)", DOMAIN),
    Mutant("the looser rule counts", RECOVERY, "strict = max(said,", "strict = min(said,", DOMAIN),
    Mutant("the smaller inflight counts", RECOVERY, "max(effect.inflight or 0, loaded.inflight)", "min(effect.inflight or 0, loaded.inflight)", DOMAIN),
    Mutant("a missing probe is no reason to ask", RECOVERY, "strict is Replay.PROBE and not loaded.can_probe", "False", DOMAIN),
    Mutant("probe and compensate do not conflict", RECOVERY, "(Replay.JOINT in said or said == {Replay.PROBE, Replay.COMPENSATE})", "(Replay.JOINT in said)", DOMAIN),
    Mutant("a stopping session dispatches", RECOVERY, "if effect.state == EffectState.PLANNED and stopping:", "if False:", DOMAIN),
    Mutant("a stopping session runs again", RECOVERY, "< rule.retry and not stopping:", "< rule.retry:", DOMAIN),
    Mutant("an undo stops with its session", RECOVERY, 'stopping = evidence.stopping and effect.position[0] != "undo"', "stopping = evidence.stopping", DOMAIN),
    Mutant("a restore presumes nothing", RECOVERY, "if evidence.restore is not None and may_have_happened(", "if evidence.restore is not None and not may_have_happened(", DOMAIN),
    Mutant("only the last attempt may be under way", RECOVERY, "if one.ended_at is None and (one is attempts[-1] or one.outcome in (None, AttemptOutcome.UNKNOWN))", "if one.ended_at is None and one is attempts[-1]", DOMAIN),
    Mutant("a spent probe dispatches again", RECOVERY, "if attempts_made(evidence.attempts) >= rule.retry:", "if attempts_made(evidence.attempts) > rule.retry:", DOMAIN),
    Mutant("a doubt with no verdict is acted on", RECOVERY, "if effect.verdict is None and effect.doubted_at is not None:", "if effect.verdict is not None and effect.doubted_at is not None:", DOMAIN),
    Mutant("a verdict is accepted without a doubt", "store/moves/doubt.py", "if effect.doubted_at is None or effect.state != EffectState.DISPATCHED:", "if effect.state != EffectState.DISPATCHED:", ("tests/runtime/ledger/test_replay_rules.py", "tests/runtime/ledger/test_recovery_evidence.py", "tests/runtime/ledger/test_effect_states.py")),
    Mutant("a doubt about what was never dispatched", "store/moves/doubt.py", "if effect.state != EffectState.DISPATCHED:\n        raise IllegalMove(f\"Effect {id} is {effect.state}; only", "if effect.state == EffectState.DISPATCHED and False:\n        raise IllegalMove(f\"Effect {id} is {effect.state}; only", LEDGER),
    Mutant("a failed undo compensates", "store/moves/doubt.py", "if get(log.tx, log.uid, by_effect).state != EffectState.ACKNOWLEDGED:", "if False:", ("tests/runtime/ledger/test_undo.py", "tests/runtime/ledger/test_effect_states.py")),
    Mutant("an absent is not written with its attempt", "store/moves/doubt.py", '            log.tx.send("attempt.rule_absent", uid=log.uid, effect_id=id, number=number, now=log.tx.now)\n            move(', "            move(", LEDGER),
    Mutant("a settle of an older attempt counts", EFFECT, "if not attempts or number != attempts[-1].number:", "if not attempts:", LEDGER),
    Mutant("any outcome moves a planned effect", EFFECT, "return outcome.outcome is AttemptOutcome.ACKNOWLEDGED and attempts[-1].outcome == AttemptOutcome.ABSENT", "return attempts[-1].outcome == AttemptOutcome.ABSENT", LEDGER),
    Mutant("a proven failure is never tried again", EFFECT, "has_attempts_left = attempts_made(attempts) <", "has_attempts_left = attempts_made(attempts) < -1 and attempts_made(attempts) <", LEDGER),
    Mutant("an approval is not consumed", EFFECT, "used = _consume(log, effect) if effect.approval_id is not None else {}", "used: dict[str, Any] = {}", ("tests/runtime/ledger/test_approvals.py",)),
    Mutant("an approval of another intent is enough", EFFECT, "if not changed:\n        raise IllegalMove(f\"Effect {effect.id} has no approval", "if False:\n        raise IllegalMove(f\"Effect {effect.id} has no approval", ("tests/runtime/ledger/test_approvals.py", "tests/store/databases/test_constraints.py", "tests/runtime/definitions/test_signature.py")),
    Mutant("a stopping session begins an act", EFFECT, 'return requested and position[:1] != ["undo"]', "return False", ("tests/runtime/ledger/test_cancel.py", "tests/store/moves/test_session_end.py")),
    Mutant("a late outcome is not kept", EFFECT, '    log.append("effect.late_outcome"', '    return\n    log.append("effect.late_outcome"', LEDGER),
    Mutant("a person's absent gives the leases back", EFFECT, "if effect.leases and (final or said[0] != Verdict.ABSENT):", "if effect.leases:", ("tests/runtime/ledger/test_leases.py", "tests/store/moves/test_named_lease.py")),
    Mutant("an act ended though it was broken off", EFFECT, "ended_at=log.tx.now if outcome.over else None, ended_boot=mark,", "ended_at=log.tx.now, ended_boot=mark,", ("tests/runtime/ledger/test_execution.py", "tests/runtime/ledger/test_recovery_evidence.py")),
    Mutant("a permission lifts the policy of the runtime", "runtime/ledger/policy.py", "gate: Gate = GATE, *, may_remember: bool = False", "gate: Gate = GATE, *, may_remember: bool = True", ("tests/agent/test_permissions.py",)),
    Mutant("a branch of a removed session is created", "store/moves/session.py", "(origin := get(tx, uid)).removed_at is not None:", "(origin := get(tx, uid)).removed_at is None and False:", ("tests/runtime/test_session_removal.py",)),
    Mutant("a removed session keeps its permissions", "store/moves/session_removal.py", "for scope in (private_scope(log.uid), permission_scope(log.uid)):", "for scope in (private_scope(log.uid),):", ("tests/agent/test_permissions.py",)),
    Mutant("a removed copy is imported again", "store/transfer/session_import.py", "if (there := session.get(tx, uid)).removed_at is not None:", "if (there := session.get(tx, uid)).removed_at is not None and False:", ("tests/interchange/test_copy.py",)),
    Mutant("a caught failure is repeated after its handler acted", "runtime/run/failure_cause.py", "ways.append((handled, True))", "ways.append((handled, False))", ("tests/runtime/run/test_retry.py",)),
    Mutant("a child is retried although its parent cannot be", "store/moves/session_retry.py", "if one.id in cause.get(\"effects\", ()) and (why := _stays(one)) is not None:", "if False:", ("tests/runtime/run/test_retry.py",)),
    Mutant("a turn ends before its sub-agent is told to stop", "runtime/run/driver.py", "                    await self._runtime.requests.cancel(uid, by=stop.by, now=True)\n", "                    pass\n", ("tests/agent/test_interrupt.py",)),
    Mutant("an interrupt does not stop a program that has a doubt", "runtime/run/execute.py", "requested = run.interruption.pauses or (not waits and run.holder.pause_requested)", "requested = not waits and (run.interruption.pauses or run.holder.pause_requested)", ("tests/runtime/run/test_interruption.py",)),
    Mutant("a retry repeats a denied effect", "store/moves/session_retry.py", 'DENIED = ("approval-denied", "policy-denied")', "DENIED = ()", ("tests/runtime/run/test_retry.py",)),
    Mutant("a message is taken twice", "store/moves/program_message.py", "    inbox.promote_one(log, found)\n", "", ("tests/runtime/calls/test_messages.py",)),
    Mutant("an interrupt ends a later turn too", "store/moves/message.py", '    log.tx.run("session.request_interrupt", uid=log.uid, at=None)\n', "", ("tests/agent/test_interrupt.py",)),
    Mutant("an interrupted effect is refused although it may have happened", RECOVERY, "return RecoveryDecision(Action.ASK, effect.doubt or why)", "return RecoveryDecision(Action.REFUSE, effect.doubt or why)", ("tests/agent/test_interrupt.py", "tests/agent/test_interrupt_sweep.py", *DOMAIN)),
    Mutant("an erasure takes a retry back", "store/sql/event.sql", " and kind <> 'session.retried'", "", ("tests/runtime/run/test_retry.py",)),
    Mutant("a pure effect that was interrupted has failed", "runtime/ledger/ledger.py", "if is_stopped and tool.replay is Replay.PURE and", "if False and", ("tests/runtime/run/test_interruption.py",)),
    Mutant("a child that waits is not interrupted", "runtime/requests.py", "        if not await self._store.read(is_agent, view):\n            for child", "        if False:\n            for child", ("tests/runtime/run/test_interruption.py",)),
    Mutant("a key counts at once", "cli/prompts/approval_prompt.py", "elif now - self._quiet_since >= QUIET:", "else:", ("tests/cli/prompts/test_approval_prompt.py",)),
    Mutant("a permission covers other calls too", "domain/permission.py", "return effect.tool if width is PermissionWidth.TOOL else call_key(effect.intent_digest)", "return effect.tool", ("tests/agent/test_permissions.py",)),
    Mutant("the requester may vote", "store/moves/approval.py", "if log.actor == approval.requester and not approval.requester_may_decide:", "if False:", ("tests/runtime/ledger/test_approvals.py",)),
    Mutant("an expired approval is decided", "store/moves/approval.py", "if approval.expires_at is not None and approval.expires_at <= log.tx.now:", "if False:", ("tests/runtime/ledger/test_approvals.py",)),
    Mutant("one yes is a quorum", "store/moves/approval.py", "yes >= approval.quorum", "yes >= 1", ("tests/runtime/ledger/test_approvals.py",)),
    Mutant("one no is not enough", "store/moves/approval.py", "if decision is ApprovalDecision.DENIED or yes >=", "if yes >=", ("tests/runtime/ledger/test_approvals.py",)),
    Mutant("a held lease is taken", "store/moves/lease.py", "if head.lease_until is not None and head.lease_until >= log.tx.now:", "if False:", ("tests/store/moves/test_lease.py",)),
    Mutant("a living holder is taken over from", "store/moves/lease.py", "if taken_from is not None and head.lease_holder not in (taken_from, None):", "if False:", ("tests/store/moves/test_lease.py", "tests/runtime/ledger/test_leases.py")),
    Mutant("an epoch does not rise", "domain/lease.py", "return max(epoch, restore_epoch << RESTORE_SHIFT) + 1", "return max(epoch, restore_epoch << RESTORE_SHIFT, 1)", ("tests/domain/test_lease.py", "tests/store/moves/test_lease.py")),
    Mutant("a lease expires early", "store/moves/lease.py", "if head.status != Status.RUNNING or (head.lease_until or 0) >= log.tx.now or _reserved(log, ttl) > 0:", "if head.status != Status.RUNNING:", ("tests/store/moves/test_lease.py",)),
    Mutant("the deadline begins with the answer", "runtime/workers/heartbeat.py", "        else:\n            self._renewed(holder, asked_at)\n", "        else:\n            self._renewed(holder, self._store.clock.boot())\n", ("tests/runtime/workers/test_heartbeat.py", "tests/runtime/ledger/test_leases.py")),
    Mutant("one lease that fails takes the others along", "runtime/workers/heartbeat.py", "        if not isinstance(error, Exception):\n            return False\n        try:", "        if error is not None:\n            return False\n        try:", ("tests/runtime/workers/test_heartbeat.py",)),
    Mutant("a debt is forgotten before it is written", "runtime/ledger/late_outcomes.py", "    kept = await runtime.values.keep(uid, by, known)\n", "    LATE.pop(attempt, None)\n    kept = await runtime.values.keep(uid, by, known)\n", ("tests/runtime/ledger/test_late_outcomes.py",)),
    Mutant("our timeout is proof", "runtime/function_call.py", "return Completion(error=stopped or RuntimeError(\"it was cancelled from within\"), broken_off=True)", "return Completion(error=stopped or RuntimeError(\"it was cancelled from within\"))", ("tests/runtime/ledger/test_execution.py",)),
    Mutant("an unended wait is parked on", "store/moves/wait.py", "    if not resolved:\n        session.park_row(", "    if True:\n        session.park_row(", ("tests/store/moves/test_wait.py",)),
    Mutant("a timer fires early", "store/moves/wait.py", "if wait.resolved_at is not None or wait.due_at > log.tx.now:", "if wait.resolved_at is not None:", ("tests/store/moves/test_wait.py",)),
    Mutant("another answer wins", "store/moves/wait.py", "if wait.resolved_by == log.actor and same_json(wait.answer, answer):", "if True:", ("tests/store/moves/test_wait.py",)),
    Mutant("a hot settle forgets an error", "store/moves/hot_effect.py", "    if outcome.error is not None:\n        return None\n", "", ("tests/runtime/ledger/test_execution.py", "tests/store/test_hot_move.py")),
    Mutant("a hot move beyond its holder's head", "store/hot_move.py", "    cursor, was = head\n", "    cursor, was = head[0] + 1, head[1]\n", ("tests/store/test_hot_move.py",)),
    Mutant("a failed commit is simply tried again", "store/writer/group_commit.py", "            if not self._resolve(engine, ran, error):", "            if True:", ("tests/store/writer/test_group_commit.py", "tests/crash/test_disk_faults.py")),
    Mutant("a move that ended its transaction counts", "store/writer/group_commit.py", "            if not engine.in_transaction():\n                raise StoreUnavailable", "            if False:\n                raise StoreUnavailable", ("tests/store/writer/test_group_commit.py", "tests/runtime/ledger/test_joint.py")),
    Mutant("the chain is not compared", "domain/event.py", "        if chain != chained:", "        if False:", ("tests/domain/test_event.py", "tests/store/moves/test_event.py")),
    Mutant("a body is not compared with its digest", "domain/event.py", "if body is not None and body_digest(salt, body) != digest_:", "if False:", ("tests/domain/test_event.py", "tests/store/moves/test_event.py")),
    Mutant("a forged end of a chain is taken in", "interchange/import_.py", "if (chain, len(kept.events)) != (member.chain, member.cursor) or not kept.events:", "if len(kept.events) != member.cursor or not kept.events:", ("tests/interchange/test_hostile.py",)),
    Mutant("an undo is presumed after a restore", "domain/restore.py", 'rule.replay in (Replay.PURE, Replay.JOINT) or effect.position[0] == "undo":', "rule.replay in (Replay.PURE, Replay.JOINT):", ("tests/domain/test_recovery_decision.py", "tests/runtime/ledger/test_restore.py")),
    Mutant("an attempt of this epoch does not count", "domain/restore.py", "attempt.epoch >> RESTORE_SHIFT < restore.epoch", "attempt.epoch >> RESTORE_SHIFT <= restore.epoch", ("tests/domain/test_recovery_decision.py", "tests/runtime/ledger/test_restore.py")),
    Mutant("the row is claimed before the bytes", "runtime/session_records.py", "            directory.put(data)\n", "            self._run.put_later = data\n", ("tests/runtime/test_runtime.py", "tests/runtime/run/test_artifacts_folder.py")),
    Mutant("origins beyond the limit are forgotten", "agent/history/transcript.py", "        elif kind not in self.origins:\n            self.origins.append(kind)", "        elif kind not in self.origins:\n            pass", ("tests/agent/history/test_transcript.py",)),
    Mutant("a summary begins at a tool's answer", "agent/history/compaction.py", 'if lines[nth].role in ("user", "assistant") and nth > 0:', "if nth > 0:", ("tests/agent/history/test_transcript.py",)),
    Mutant("a folder called .GIT is writable", "agent/files/safe_files.py", 'if any(part.lower() == ".git" for part', 'if any(part == ".git" for part', ("tests/agent/tools/test_edit.py", "tests/agent/tools/test_files.py")),
    Mutant("resume --last takes a child", "control/session_list.py", "if one.parent_uid is None and one.sealed_at is None]", "if one.sealed_at is None]", ("tests/cli/commands/test_run.py", "tests/cli/commands/test_lists.py", "tests/cli/commands/test_requests.py")),
    Mutant("untrusted settings are used", "config.py", "        if found.keys() - HARMLESS:\n", "        if False:\n", ("tests/security/test_folder_settings.py",)),
    Mutant("a changed file stays trusted", "control/trust.py", "return found is not None and found.digest == digest_of(text)", "return found is not None", ("tests/security/test_folder_settings.py",)),
    Mutant("the kernel's settings are writable", "agent/commands/bubblewrap.py", '            line += ["--ro-bind-try", door, door]', "            pass", ("tests/security/test_sandbox_doors.py",)),
    Mutant("a set-user-ID file can be made", "agent/commands/seccomp.py", "        if name in _MODE:", "        if name in ():", ("tests/security/test_rights.py",)),
    Mutant("a secret of the environment is passed on", "agent/commands/sandbox.py", "if name in added or (", "if name not in () or (", ("tests/security/test_own_code.py",)),
    Mutant("a claim does not skip what another one took", "store/sql/claim.sql", "where {claimable} and queue = :queue and program = :program and {pin} = :version\norder by priority desc, turn, uid limit :limit {skip_locked};", "where {claimable} and queue = :queue and program = :program and {pin} = :version\norder by priority desc, turn, uid limit :limit;", CLAIMS, postgres=True),
    Mutant("a claim waits for what another one took", "store/sql/claim.sql", "where {claimable} and queue = :queue and program = :program and {pin} = :version\norder by priority desc, turn, uid limit :limit {skip_locked};", "where {claimable} and queue = :queue and program = :program and {pin} = :version\norder by priority desc, turn, uid limit :limit {lock};", CLAIMS, postgres=True),
    Mutant("a limit is counted from a stale snapshot", "store/sql/claim.sql", "    or paused_at is not null\n) {lock};", "    or paused_at is not null\n);", CLAIMS, postgres=True),
    Mutant("a waiting session holds a slot of its queue", "store/sql/claim.sql", "select 1 from session where status = 'running' and queue = :queue limit :limit", "select 1 from session where status in ('running', 'waiting') and queue = :queue limit :limit", CLAIMS),
    Mutant("a waiting session holds a slot of its key", "store/sql/claim.sql", "where status = 'running' and queue = :queue and concurrency_key = :key limit :limit", "where status in ('running', 'waiting') and queue = :queue and concurrency_key = :key limit :limit", ("tests/store/moves/test_claim.py",)),
    Mutant("sessions of a crowd are blamed for a crash", "store/moves/lease.py", "is_suspect = alone == 1 and log.tx.one(", "is_suspect = log.tx.one(", ("tests/store/moves/test_claim.py",)),
    Mutant("a suspect is claimed beside others", "store/moves/claim.py", "                if self._request.is_idle or self._request.takes_suspect:\n                    self._take(one, is_suspect=True)", "                if True:\n                    self._take(one)", ("tests/store/moves/test_claim.py",)),
    Mutant("a worker is dead before that is certain", "runtime/services/leases.py", "for row in [row for row in self._workers if self.runtime.worker.life(row) is Liveness.DEAD]:", "for row in [row for row in self._workers if self.runtime.worker.life(row) is not Liveness.ALIVE]:", ("tests/runtime/services/test_leases.py",)),
    Mutant("a direct run takes over before death is certain", "runtime/run/session_lease.py", "runtime.worker.life(row) is not Liveness.DEAD", "runtime.worker.life(row) is Liveness.ALIVE", ("tests/runtime/services/test_leases.py",)),
    Mutant("a stopping worker drops its sessions", "runtime/workers/worker.py", "        finally:\n            await self._sessions.stop()", "        finally:\n            pass", ("tests/runtime/workers/test_worker.py",)),
    Mutant("a supervisor restarts for ever", "control/supervisor/decision.py", "elif len(recent) >= group.restarts:", "elif False:", ("tests/control/supervisor/test_decision.py",)),
    Mutant("children outlive their supervisor", "control/supervisor/process.py", "\nctypes.CDLL(None).prctl(1, 9, 0, 0, 0)\n", "\n", ("tests/control/supervisor/test_supervisor.py",)),
    Mutant("a supervisor kills after the machine slept", "control/supervisor/supervisor.py", "            self._handle(Standstill())", "            pass", ("tests/control/supervisor/test_supervisor.py",)),
    Mutant("a tick is doubled after a restore", SCHEDULE, "uid = uid or tick_uid(store_id(tx), found, tick)", "uid = uid or new_uid()", TICKS),
    Mutant("a tick is handled again", SCHEDULE, 'columns = {"last_tick": tick,', 'columns = {"last_tick": found.last_tick,', TICKS),
    Mutant("a session does not wait in line", SCHEDULE, "in_line = found.overlap == Overlap.QUEUE and", "in_line = False and", TICKS),
    Mutant("a line skips a session that has not ended", SCHEDULE, "return bool(still) and still[0].in_line", "return bool(still)", TICKS),
    Mutant("a tick of the lost time counts as new", "store/sql/restore.sql", "select parent_uid, coalesce(scheduled_at, created_at)", "select parent_uid, created_at", TICKS),
    Mutant("a local time that occurs twice ticks twice", "domain/schedule_times.py", "local.replace(tzinfo=zone, fold=0)", "local.replace(tzinfo=zone, fold=1)", TIMES),
    Mutant("a change of the clocks is not noticed", "domain/schedule_times.py", "if change is None:", "if change is None or True:", TIMES),
    Mutant("a tick that was skipped is handled again", "store/moves/schedule.py", "if found is None or found.paused_at is not None or tick <= (found.last_tick or 0):", "if found is None or found.paused_at is not None:", ("tests/store/moves/test_schedule.py",)),
)  # fmt: skip
