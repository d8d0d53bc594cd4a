"""A caller of the service: who asks, and what each role may do with what.

    role     decides which verbs are allowed (`RIGHTS`)
    scope    decides on which objects. Written as `*`, `queue:NAME` or `repository:NAME`; NAME may end with `*`

A session is in a scope by its queue or by its repository. What belongs to the whole store, such as its policy, is only
in the scope `*`. A caller without scopes may do nothing.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from enum import StrEnum
from functools import lru_cache
from typing import Protocol

import msgspec

from perdure.domain.principal import Role
from perdure.errors import ConfigError

EVERYTHING = "*"
_SCOPE = re.compile(r"\*|(?:queue|repository):[^\x00-\x20*\x7f]{0,200}\*?(?<!:)")


class Verb(StrEnum):
    """What a caller asks to do."""

    READ_SELF = "self.read"
    CHANGE_SELF = "self.change"
    READ_SESSION = "session.read"
    START_SESSION = "session.start"
    SEND_MESSAGE = "session.send"
    STEER_SESSION = "session.steer"
    REMOVE_SESSION = "session.remove"
    ANSWER_WAIT = "wait.answer"
    READ_EFFECT = "effect.read"
    SETTLE_EFFECT = "effect.settle"
    READ_APPROVAL = "approval.read"
    VOTE = "approval.vote"
    WITHDRAW_APPROVAL = "approval.withdraw"
    READ_RECORD = "record.read"
    WRITE_RECORD = "record.write"
    READ_ARTIFACT = "artifact.read"
    EXPORT_SESSION = "session.export"
    IMPORT_SESSION = "session.import"
    READ_QUEUE = "queue.read"
    CHANGE_QUEUE = "queue.change"
    READ_SCHEDULE = "schedule.read"
    CHANGE_SCHEDULE = "schedule.change"
    READ_WORKER = "worker.read"
    READ_NOTIFICATION = "notification.read"
    CHANGE_NOTIFICATION = "notification.change"
    READ_POLICY = "policy.read"
    CHANGE_POLICY = "policy.change"
    READ_EXEMPTION = "exemption.read"
    GRANT_EXEMPTION = "exemption.grant"
    READ_PRINCIPAL = "principal.read"
    CHANGE_PRINCIPAL = "principal.change"
    READ_TOKEN = "token.read"
    CHANGE_TOKEN = "token.change"
    READ_AUDIT = "audit.read"
    READ_DOCTOR = "doctor.read"
    READ_METRICS = "metrics.read"
    WORK = "work"


# What belongs to the whole store: it needs the scope `*`.
STORE_WIDE = frozenset({
    Verb.READ_WORKER, Verb.READ_NOTIFICATION, Verb.CHANGE_NOTIFICATION, Verb.READ_POLICY, Verb.CHANGE_POLICY,
    Verb.READ_PRINCIPAL, Verb.CHANGE_PRINCIPAL, Verb.READ_TOKEN,
    Verb.CHANGE_TOKEN, Verb.READ_AUDIT, Verb.READ_DOCTOR, Verb.READ_METRICS,
})  # fmt: skip

_LOOK = frozenset({
    Verb.READ_SELF, Verb.CHANGE_SELF, Verb.READ_SESSION, Verb.READ_EFFECT, Verb.READ_APPROVAL, Verb.READ_RECORD,
    Verb.READ_ARTIFACT, Verb.READ_QUEUE, Verb.READ_EXEMPTION, Verb.READ_POLICY,
})  # fmt: skip

RIGHTS: dict[Role, frozenset[Verb]] = {
    Role.OWNER: frozenset(Verb),
    Role.OPERATOR: _LOOK | {
        Verb.START_SESSION, Verb.SEND_MESSAGE, Verb.STEER_SESSION, Verb.ANSWER_WAIT, Verb.SETTLE_EFFECT,
        Verb.WITHDRAW_APPROVAL, Verb.WRITE_RECORD, Verb.EXPORT_SESSION, Verb.IMPORT_SESSION, Verb.CHANGE_QUEUE,
        Verb.READ_SCHEDULE, Verb.CHANGE_SCHEDULE, Verb.READ_WORKER, Verb.READ_DOCTOR, Verb.READ_METRICS,
        Verb.READ_NOTIFICATION, Verb.CHANGE_NOTIFICATION,
    },
    Role.APPROVER: _LOOK | {Verb.VOTE, Verb.WITHDRAW_APPROVAL, Verb.ANSWER_WAIT, Verb.GRANT_EXEMPTION},
    Role.AUDITOR: _LOOK | {
        Verb.READ_SCHEDULE, Verb.READ_WORKER, Verb.READ_PRINCIPAL, Verb.READ_TOKEN, Verb.READ_AUDIT, Verb.READ_DOCTOR,
        Verb.READ_METRICS, Verb.EXPORT_SESSION, Verb.READ_NOTIFICATION,
    },
    Role.WORKER: frozenset({Verb.READ_SELF, Verb.CHANGE_SELF, Verb.WORK}),
}  # fmt: skip


class Placed(Protocol):
    """What is in a queue and perhaps in a repository, such as a session."""

    @property
    def queue(self) -> str: ...
    @property
    def repository_id(self) -> str | None: ...


class Place(msgspec.Struct, frozen=True):
    """A queue, or a repository, or both: where a session is, or will be."""

    queue: str = ""
    repository_id: str | None = None


class Caller(msgspec.Struct, frozen=True):
    """Who asks: an authenticated identity, the principal it belongs to, its roles, and what it may touch."""

    name: str
    identity: str
    roles: frozenset[str]
    scopes: tuple[str, ...]
    principal_uid: str | None = None
    token_id: str | None = None
    expires_at: int | None = None

    @property
    def key(self) -> str:
        """Under what its requests are kept: all logins of a principal are one."""
        return self.principal_uid or self.identity

    def has_role_for(self, verb: Verb) -> bool:
        """Whether a role of the caller allows the verb on some object."""
        return bool(self.scopes) and verb in _verbs_of(self.roles)

    def may(self, verb: Verb, on: Placed | None = None) -> bool:
        """Whether the caller may do this with an object, or without one with the whole store."""
        if not self.has_role_for(verb):
            return False
        if EVERYTHING in self.scopes or verb in (Verb.READ_SELF, Verb.CHANGE_SELF):
            return True
        return on is not None and verb not in STORE_WIDE and self.covers(on)

    def covers(self, on: Placed) -> bool:
        """Whether an object is in one of the scopes."""
        names = [("queue", on.queue)] if on.queue else []
        names += [("repository", on.repository_id)] if on.repository_id else []
        return any(_fits(scope, f"{kind}:{name}") for scope in self.scopes for kind, name in names)


@lru_cache(maxsize=100)
def _verbs_of(roles: frozenset[str]) -> frozenset[Verb]:
    return frozenset[Verb]().union(*(RIGHTS[Role(role)] for role in roles & set(Role)))


def _fits(scope: str, name: str) -> bool:
    if scope.endswith("*"):
        return name.startswith(scope[:-1])
    return scope == name


def check_scopes(scopes: Collection[str]) -> list[str]:
    """Scopes as they are stored; refuses what is not one."""
    for one in scopes:
        if _SCOPE.fullmatch(one) is None:
            raise ConfigError(
                f"{one!r:.80} is not a scope.", hint="Write `*`, queue:NAME or repository:NAME; NAME may end with *."
            )
    return sorted(set(scopes))


def is_within(scopes: Collection[str], of: Collection[str]) -> bool:
    """Whether every scope is covered by one of others: a token cannot hand on more than it has."""
    return all(any(_fits(wide, one) for wide in of) for one in scopes)
