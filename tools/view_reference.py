"""The page of the views: what each is, and what each column means."""

from __future__ import annotations

from perdure.store.migrate import view_names
from perdure.store.store import open_store

VIEWS = {
    "perdure_sessions": "Sessions, one row each, also those that were archived or removed.",
    "perdure_effects": "The effect ledger: actions, with the outcome of each.",
    "perdure_attempts": "Attempts at effects, with the worker and how long each took.",
    "perdure_approvals": "Approvals that were requested, with the decision and how long it took.",
    "perdure_votes": "Votes of people on approvals.",
    "perdure_waits": "What sessions wait or waited for.",
    "perdure_decisions": "Decisions that programs and agents recorded, with their outcome.",
    "perdure_targets": "What effects touched, such as `branch:main`: a row for each target.",
    "perdure_costs_by_day": "What models cost, by day, owner, model and repository.",
    "perdure_control_events": "Changes of policy, exemptions, principals, tokens, queues and schedules.",
    "perdure_exemptions": "Exemptions from rules of the policy, with how often each was used.",
    "perdure_exemption_uses": "The effects that used an exemption.",
}

COLUMNS = {
    "session_uid": "the session; never used again anywhere",
    "session_id": "the name of the session in this store",
    "program": "the program or agent that it runs",
    "title": "its title",
    "owner": "the person who started it, or for whom",
    "repository": "the repository that it works on",
    "repository_id": "the repository by its remote, or by its first commit",
    "reach": "how far the tool acts: none, model, workspace, machine or outside",
    "target": "what the effect touched",
    "day": "the day, in UTC",
    "reason": "the reason that was given",
    "granted_by": "who granted it, as shown",
    "grantor": "who granted it, as authenticated",
    "uses": "how many effects may use it; null: any number",
    "used": "how many effects have used it",
    "revoked_by": "who revoked it",
    "granted_at": "when it was granted",
    "revoked_at": "when it was revoked",
    "sessions": "how many sessions",
    "calls": "how many model calls",
    "actor": "who made the change",
    "body": "the change, as JSON",
    "branch": "the branch of the session",
    "queue": "its queue",
    "priority": "its priority in the queue; higher runs first",
    "status": "ready, running, waiting, done, failed or cancelled",
    "model": "the model that a person chose, instead of the one that the agent names; of costs: the one that was used",
    "parent_uid": "the session that started it as a child",
    "forked_from": "the session that it is a branch of",
    "events": "how many events its log has",
    "tokens_in": "tokens that models read",
    "tokens_out": "tokens that models wrote",
    "cost_micros": "the price of model calls, in millionths of a dollar",
    "crash_count": "how many workers it lost in a row without progress",
    "retries": "how often it was retried after a failure",
    "created_at": "when it began",
    "updated_at": "when it last changed",
    "waiting_since": "since when it waits",
    "archived_at": "when it was archived",
    "removed_at": "when its content was removed",
    "effect_id": "the effect",
    "tool": "the tool",
    "replay": "what may be done if its outcome is unknown",
    "state": "planned, dispatched, acknowledged, failed, refused, compensated or superseded",
    "reference": "how the outside world names it",
    "targets": "what it touched, as a JSON list",
    "task_id": "the task that it belongs to",
    "approval_id": "the approval",
    "policy_version": "the version of the policy that it was judged under",
    "rule": "the rule of the policy that decided",
    "exemption_id": "the exemption that it used",
    "verdict": "what a person said of an unknown outcome: happened, absent or abandon",
    "verdict_by": "who gave the verdict",
    "verdict_because": "the reason of the verdict",
    "planned_at": "when it was planned",
    "settled_at": "when its outcome was recorded",
    "doubted_at": "since when its outcome is in doubt",
    "number": "1 for the first attempt; of a change: its place in the log",
    "worker": "the worker that made it",
    "sandbox": "the sandbox of a command",
    "outcome": "acknowledged, failed, absent or unknown; of a decision: its outcome",
    "dispatched_at": "when it was dispatched",
    "ended_at": "when it is known to have ended",
    "took_micros": "microseconds from dispatch until its outcome was recorded",
    "gate": "the gate or rule that asked",
    "requester": "who asked for it",
    "quorum": "how many people must approve",
    "decision": "approved, denied or expired; waiting if it is not decided; of a decision: what was chosen",
    "asked_at": "when it was requested",
    "decided_at": "when it was decided",
    "expires_at": "when it expires, or expired",
    "waited_micros": "microseconds from the request until the decision; of a wait: until it was resolved",
    "voter": "who voted",
    "rationale": "the reason that was given",
    "at": "when it happened",
    "wait_id": "the wait",
    "kind": "what it waits for: approval, input, timer, doubt, ...",
    "ref": "what exactly it waits for",
    "resolved_by": "who or what resolved it",
    "since": "since when it waits",
    "due_at": "when it ends by itself",
    "resolved_at": "when it was resolved",
    "decision_id": "the decision",
    "planned_action": "what was to be done next",
}

INTRO = """
Every store has these views, on SQLite and on PostgreSQL, for reports and BI tools. Their names and columns do not
change; columns may be added. On PostgreSQL, the role `perdure_auditor` reads them
([rights](../how-to/database-roles.md)).

Times are timestamps; on SQLite they are texts in UTC with milliseconds. Days are texts such as `2026-01-31`, in UTC.
Costs are in millionths of a dollar. A column that is null has no value yet.

A view is not a copy: it reads the tables when it is asked. Ask a replica for large reports.
"""


def columns() -> dict[str, list[str]]:
    """The columns of each view, in order."""
    with open_store("memory:") as store:
        return store.read_now(
            lambda tx: {name: [one for (one,) in tx.execute(PRAGMA, [name])] for name in view_names()}
        )


PRAGMA = "select name from pragma_table_info(?) order by cid"


def views_page() -> list[str]:
    """The parts of the page."""
    parts = [INTRO]
    for name, names in columns().items():
        rows = [f"| `{column}` | {COLUMNS[column]} |" for column in names]
        parts += [f"## {name}", VIEWS[name], "\n".join(["| column | meaning |", "|---|---|", *rows])]
    return parts
