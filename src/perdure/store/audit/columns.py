"""The columns of answers: one name means the same in every question."""

from __future__ import annotations

from perdure.store.audit.question import AuditColumn, ColumnKind

TEXTS = {
    "session": "the id of the session",
    "from": "the session that it comes from",
    "status": "the state of the session now",
    "program": "the program or agent that the session runs",
    "title": "the title of the session",
    "owner": "the owner of the session; of an exemption and of costs: whom it is for",
    "repository": "the repository, by its remote or its first commit",
    "tool": "the tool",
    "effect": "the id of the effect",
    "reach": "how far the tool acts: none, model, workspace, machine or outside",
    "state": "the state of the effect now",
    "was": "whether the effect was settled when the session took it over",
    "reference": "how the outside world names what was done",
    "key": "the idempotency key that the tool was given, by which the outside world may know it",
    "target": "what was touched",
    "replay": "the replay rule of the tool",
    "waits_for": "what it waits for",
    "wait": "the id of the wait, for `perdure answer`",
    "approval": "the id of the approval",
    "gate": "the gate, or the rule, that asked",
    "requester": "for whom the session asked",
    "decision": "approved, denied, expired, withdrawn or waiting",
    "vote": "what this person said",
    "voter": "the name that the voter is shown with",
    "identity": "who it was, as the system authenticated them",
    "because": "the reason that was given",
    "exemption": "the id of the exemption",
    "rule": "the rule of the policy",
    "policy": "the version of the policy",
    "control": "the rule or the gate",
    "by": "who did it",
    "verdict": "what a person said of the outcome: happened, absent or abandon",
    "worker": "the worker of the attempt",
    "outcome": "the outcome of the attempt",
    "before": "the outcome of the attempt before",
    "how": "fork, or resume",
    "what": "the kind of the event",
    "action": "what was done: export, artifact, transcript or approval",
    "subject": "of what, such as an artifact",
    "detail": "more about it",
    "change": "the kind of the change",
    "model": "the model; empty: used before this was recorded",
    "doubt": "why the outcome is unknown",
    "granted_by": "who granted it, as shown",
    "grantor": "who granted it, as authenticated",
    "revoked_by": "who revoked it",
    "verdict_by": "who gave the verdict",
}  # fmt: skip
TIMES = {
    "at": "when", "since": "since when", "decided_at": "when it was decided", "expires_at": "when it ends",
    "revoked_at": "when it was revoked", "last": "the last time",
}  # fmt: skip
COUNTS = {
    "number": "the number of the line in the control log", "attempt": "the number of the attempt",
    "retries": "how often sessions were retried", "repeats": "how often effects were dispatched again",
    "sessions": "how many sessions", "effects": "how many effects",
    "crashes": "workers that it lost in a row without progress",
    "used": "how many effects used it", "uses": "how many effects may use it; null: any number",
    "fired": "how often it decided", "refused": "calls that it refused", "approved": "questions that were approved",
    "denied": "questions that were denied", "expired": "questions that expired",
    "waiting": "questions that are open", "lifted": "effects for which an exemption lifted it",
    "calls": "model calls", "tokens_in": "tokens that were read", "tokens_out": "tokens that were written",
}  # fmt: skip

COLUMNS: dict[str, AuditColumn] = {
    **{name: AuditColumn(name, ColumnKind.TEXT, meaning) for name, meaning in TEXTS.items()},
    **{name: AuditColumn(name, ColumnKind.TIME, meaning) for name, meaning in TIMES.items()},
    **{name: AuditColumn(name, ColumnKind.COUNT, meaning) for name, meaning in COUNTS.items()},
    "day": AuditColumn("day", ColumnKind.DAY, "the day, in UTC"),
    "cost": AuditColumn("cost_micros", ColumnKind.COST, "the price, in millionths of a dollar"),
    "targets": AuditColumn("targets", ColumnKind.LIST, "what it touches"),
    "error": AuditColumn("error", ColumnKind.ERROR, "how it failed: a code and a message"),
    "body": AuditColumn("body", ColumnKind.JSON, "what it is now, with the reason if one was given"),
    "said": AuditColumn("verdict", ColumnKind.BODY, "what the person said: happened, absent or abandon", ("verdict",)),
    "reason": AuditColumn("because", ColumnKind.BODY, "the reason that was given", ("because",)),
    "who": AuditColumn("identity", ColumnKind.BODY, "who it was, as the system authenticated them", ("identity",)),
    "why": AuditColumn(
        "why", ColumnKind.BODY, "the reason on record", ("why", "because", "verdict", "message", "from")
    ),
}
