"""The SQL, by name. One text serves both databases; the few differences are tokens.

A file under `sql/` holds the statements of one noun. Each begins with `-- name: noun.verb` and one line of purpose;
`-- name: noun.verb@postgres` overrides for one database. Parameters are `:named`. Tokens: `{lock}` locks the selected
row, `{skip_locked}` skips rows that others hold, `{greatest}` is the larger of two values, `{bytewise}` (in
migrations) compares texts by their bytes, `{columns:table}` lists the columns of that table's record, `{index:name}`
demands an index of SQLite; those in `CLAIM` and `AUDIT` are parts that several statements share. Only PostgreSQL has
`{same_server}`, whether it is the server of the earlier queries, and `{durability}`, which standbys a commit waits
for.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources

from perdure.domain.approval import Approval, Vote
from perdure.domain.artifact import Artifact
from perdure.domain.checkpoint import Checkpoint
from perdure.domain.control_event import ControlEvent
from perdure.domain.decision import Decision
from perdure.domain.effect import Attempt, Effect
from perdure.domain.event import Event
from perdure.domain.exemption import Exemption, ExemptionUse
from perdure.domain.fact import Fact
from perdure.domain.inbox import InboxMessage
from perdure.domain.lease import Lease
from perdure.domain.notification import Notification, NotificationChannel
from perdure.domain.policy_version import PolicyFence, PolicyVersion
from perdure.domain.principal import Principal, PrincipalLogin
from perdure.domain.queue import Queue
from perdure.domain.rate_limit import RateLimit
from perdure.domain.record import Record
from perdure.domain.request import CarriedOut
from perdure.domain.restore import Restore
from perdure.domain.schedule import Schedule
from perdure.domain.session import SessionRecord
from perdure.domain.sign_in import SignIn
from perdure.domain.step import Step
from perdure.domain.task import Task
from perdure.domain.token import Token
from perdure.domain.wait import FOR_A_PERSON, Wait
from perdure.domain.worker import WorkerRecord
from perdure.domain.writer import Writer

RECORDS: dict[str, type[Record]] = {
    "approval": Approval,
    "artifact": Artifact,
    "attempt": Attempt,
    "checkpoint": Checkpoint,
    "control_event": ControlEvent,
    "decision": Decision,
    "effect": Effect,
    "event": Event,
    "exemption": Exemption,
    "exemption_use": ExemptionUse,
    "fact": Fact,
    "inbox": InboxMessage,
    "lease": Lease,
    "notification": Notification,
    "notification_channel": NotificationChannel,
    "policy": PolicyVersion,
    "policy_fence": PolicyFence,
    "principal": Principal,
    "principal_login": PrincipalLogin,
    "queue": Queue,
    "rate_limit": RateLimit,
    "restore": Restore,
    "schedule": Schedule,
    "session": SessionRecord,
    "sign_in": SignIn,
    "step": Step,
    "task": Task,
    "request": CarriedOut,
    "token": Token,
    "vote": Vote,
    "wait": Wait,
    "worker": WorkerRecord,
    "writer": Writer,
}

TOKENS: dict[str, dict[str, str]] = {
    "sqlite": {"lock": "", "skip_locked": "", "greatest": "max", "int": "integer", "strict": "strict",
               "bytewise": "",
               "references_kind": "references event_kind (kind)"},
    "postgres": {"lock": "for update", "skip_locked": "for update skip locked", "greatest": "greatest",
                 "int": "bigint", "strict": "", "bytewise": 'collate "C"', "references_kind": "", "same_server":
                 "cast(extract(epoch from pg_postmaster_start_time()) * 1000000 as bigint) = :server", "durability":
                 "current_setting('synchronous_commit') || ' ' || current_setting('synchronous_standby_names')"},
}  # fmt: skip

CLAIM = {
    "claimable": "status = 'ready' and sealed_at is null and suspected_at is null",
    "suspect": "status = 'ready' and sealed_at is null and suspected_at is not null",
    "pin": "(case when pinned_at is null then '' else coalesce(code_version, '') end)",  # as the indexes have it
    "candidate": "uid, id, status, cursor, chain, lease_holder, lease_nonce, lease_epoch, lease_until, restart_number, "
    "cancel_requested_at, pause_requested_at, interrupt_requested_at, sealed_at, version, removed_at, queue, program, "
    "priority, turn, concurrency_key, code_version, suspected_at, lease_alone",
}  # parts that several statements of a claim share

INCIDENTS = (
    "effect.doubted", "effect.settled", "effect.compensated", "effect.undo_requested", "effect.undo_failed",
    "effect.presumed", "lease.taken_over", "lease.expired", "session.retried", "session.removed", "event.erased",
)  # fmt: skip
AUDIT = {
    "incident": f"event.kind in ({', '.join(map(repr, INCIDENTS))})",  # as its index has it
    "for_a_person": ", ".join(repr(str(kind)) for kind in sorted(FOR_A_PERSON)),
}  # parts that several questions of an audit share

_NAME = re.compile(r"^-- name: ([a-z_]+\.[a-z_]+)(?:@(sqlite|postgres))?\n", re.MULTILINE)
_PARAMETER = re.compile(r"(?<![:\w]):([a-z_]+)")
_TOKEN = re.compile(r"\{(?:columns:([a-z_]+)|index:([a-z_]+)|([a-z_]+))\}")


@cache
def load(dialect: str) -> dict[str, str]:
    """Every statement in the dialect of the given database."""
    statements: dict[str, str] = {}
    overrides: dict[str, str] = {}
    for file in sorted(resources.files("perdure.store").joinpath("sql").iterdir(), key=lambda file: file.name):
        if not file.name.endswith(".sql"):
            continue
        parts = _NAME.split(file.read_text(encoding="utf-8"))
        for name, only, text in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
            if only is None:
                statements[name] = text
            elif only == dialect:
                overrides[name] = text
    return {name: for_dialect(text, dialect) for name, text in (statements | overrides).items()}


def for_dialect(text: str, dialect: str) -> str:
    """Fill in the tokens, drop the comments, and write the parameters in the style of the driver."""
    text = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("--")).strip().rstrip(";")
    text = expand(text, dialect)
    return _PARAMETER.sub(r"%(\1)s", text) if dialect == "postgres" else text


def expand(text: str, dialect: str) -> str:
    """Fill in the tokens only."""

    def token(match: re.Match[str]) -> str:
        if match[1]:
            return ", ".join(RECORDS[match[1]].columns())
        if match[2]:
            return f"indexed by {match[2]}" if dialect == "sqlite" else ""
        return (CLAIM | AUDIT | TOKENS[dialect])[match[3]]

    return _TOKEN.sub(token, text)
