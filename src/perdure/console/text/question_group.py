"""The questions of an audit in groups, and the names of their parameters. A question without a group comes last."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.store.audit.question import AuditQuestion

GROUPS: dict[str, tuple[str, ...]] = {
    "What agents did": ("outside", "targets", "reach", "costs"),
    "Who allowed it": ("approvals", "who-approved", "refused", "controls", "exemptions"),
    "What is open": ("waiting", "doubts"),
    "What went wrong": ("failed-runs", "failed-sessions", "incidents", "verdicts", "repeated", "retries", "inherited"),
    "Who changed or saw what": ("changes", "access", "removals"),
}
OTHERS = "Other questions"
LABELS = {
    "tool": "Tool", "owner": "Owner", "kind": "Kind", "rule": "Rule", "person": "Person", "target": "Target",
    "session": "Session", "effect": "Effect", "commit": "Commit", "model": "Model", "action": "Action",
}  # fmt: skip


def grouped(questions: Sequence[AuditQuestion]) -> dict[str, list[AuditQuestion]]:
    """The questions by group, in the order of the groups."""
    by_name = {one.name: one for one in questions}
    found = {group: [by_name.pop(name) for name in names if name in by_name] for group, names in GROUPS.items()}
    return {group: some for group, some in (found | {OTHERS: list(by_name.values())}).items() if some}
