"""The reads that a worker may ask the service for, by name. A name that is not here does not exist."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from perdure.agent import ledger as agent_ledger
from perdure.agent import loop, permissions, tool_calls
from perdure.agent.history import compaction, inbox, state_reader
from perdure.runtime import queries, record_edits, requests
from perdure.runtime.deploy import missing_code
from perdure.runtime.deploy import workspace as deploy_workspace
from perdure.runtime.ledger import leases
from perdure.runtime.policy import active_policy, budgets, repository_policy
from perdure.runtime.run import driver, lineage, records
from perdure.runtime.workers import family, session_tasks
from perdure.store.moves import (
    approval,
    attempt,
    claim_limits,
    doubt,
    effect,
    exemption,
    interrupt,
    lease,
    message,
    meta,
    rate_limit,
    restore,
    session,
    session_retry,
    task,
    wait,
    worker,
)
from perdure.store.moves import inbox as inbox_rows

OF_SESSIONS: dict[str, Callable[..., Any]] = {  # of the sessions that their arguments name
    "agent.child_of": tool_calls._child_of,
    "agent.depth": tool_calls._depth,
    "agent.doubts": agent_ledger.doubts,
    "agent.kept_facts": compaction.kept_facts,
    "agent.line_of_effects": agent_ledger.line_of_effects,
    "agent.line_of_waits": tool_calls._line_of_waits,
    "agent.permit": permissions._asked,
    "agent.placed": agent_ledger.placed,
    "agent.read_inbox": inbox.read_inbox,
    "agent.records": state_reader.read,
    "agent.settled": loop._settled,
    "approval.gate_finding": approval.gate_finding,
    "approval.get": approval.get,
    "attempt.of_effect": attempt.attempts_of,
    "budget.is_within": budgets.is_within,
    "budget.reached": budgets.reached,
    "doubt.early_undos": doubt.early_undos,
    "doubt.undos": doubt.undos,
    "doubt.unfinished": doubt.unfinished,
    "effect.get": effect.get,
    "effect.get_or_none": effect.get_or_none,
    "exemption.lifting": exemption.lifting,
    "inbox.unread": inbox_rows.unread,
    "interrupt.pending": interrupt.pending,
    "interrupt.requester": interrupt.requester,
    "lease.has_progress": lease.has_progress,
    "lease.is_free": leases.is_free,
    "lease.next_look": leases.next_look,
    "lineage.newest": lineage.newest,
    "lineage.of_forked": lineage._of_forked,
    "lineage.waiting_for_any": lineage._waiting_for_any,
    "message.lines_between": message.lines_between,
    "message.total_usage": message.total_usage,
    "policy.of_repository": repository_policy.recorded_texts,
    "program.records": records.load,
    "record.is_agent": record_edits.is_agent,
    "restore.unreleased_for": restore.unreleased_for,
    "session.children": session.children,
    "session.claims": requests._claims,
    "session.ended": requests._ended,
    "session.entry": family.entry,
    "session.get": session.get,
    "session.left": session_tasks._left,
    "session.place": deploy_workspace.describe_place,
    "session.recall": records.recall,
    "session.state": records.read_state,
    "session_retry.check": session_retry.check,
    "session_retry.to_repeat": session_retry.to_repeat,
    "task.active": task.active,
    "wait.get": wait.get,
    "wait.get_many": wait.get_many,
    "wait.newest_due": wait.newest_due,
    "wait.of_session": wait.of_session,
}

OTHERS: dict[str, Callable[..., Any]] = {  # each with a rule of its own
    "claim.is_possible": claim_limits.is_possible,
    "driver.newest": driver._newest,
    "lease.first_ends": lease.first_ends,
    "lease.of_holder": lease.of_holder,
    "lease.waits_for_free_resources": lease.waits_for_free_resources,
    "meta.get": meta.get,
    "policy.look": active_policy.look,
    "rate_limit.in_force": rate_limit.in_force,
    "session.with_waits": queries._with_waits,
    "wait.ended_children": wait.ended_children,
    "wait.met": missing_code.waits_met,
    "worker.listing": worker.listing,
}

READS: dict[str, Callable[..., Any]] = OF_SESSIONS | OTHERS
NAMES: dict[Callable[..., Any], str] = {query: name for name, query in READS.items()}
RUN_STATES = ("agent.records", "program.records")  # reads that are an argument of `session.state`
