"""Principals: the people and programs that a store knows, with their roles and logins."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import ClassVar

import msgspec

from perdure.domain.approval import Approval
from perdure.domain.record import Record
from perdure.errors import ConfigError

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,99}")


class PrincipalKind(StrEnum):
    PERSON = "person"
    PROGRAM = "program"


class Role(StrEnum):
    """What a principal may do. An owner may do everything, and alone changes principals."""

    OWNER = "owner"
    OPERATOR = "operator"
    APPROVER = "approver"
    AUDITOR = "auditor"
    WORKER = "worker"


DECIDING = frozenset({Role.OWNER, Role.APPROVER})  # who may decide approvals, unless the gate names others


class Principal(Record, frozen=True):
    """A row of `principal`."""

    json_columns: ClassVar[frozenset[str]] = frozenset({"roles"})

    uid: str
    name: str
    kind: str
    roles: list[str]
    added_by: str
    added_at: int
    removed_at: int | None
    version: int


class PrincipalLogin(Record, frozen=True):
    """A row of `principal_login`: one way in which a principal is authenticated."""

    principal_uid: str
    login: str
    added_by: str
    added_at: int
    removed_at: int | None


class PrincipalView(msgspec.Struct, frozen=True):
    """A principal with its roles and logins."""

    name: str
    kind: str
    roles: list[str]
    logins: list[str]
    added_by: str
    added_at: int
    uid: str
    version: int = 1  # counts the changes of its name, kind and roles


class Conditions(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a gate demands of those who decide, besides their number.

    `owner_may_decide`: whether the owner of the session may; None: as the requester may. `also` are the demands of
    other gates that the same vote must meet.
    """

    roles: tuple[str, ...] = ()
    people: tuple[str, ...] = ()
    owner_may_decide: bool | None = None
    escalate_after: int | None = None
    escalate_to: tuple[str, ...] = ()
    also: tuple[Conditions, ...] = ()

    @property
    def is_named(self) -> bool:
        """Whether the gate says who may decide."""
        return bool(self.roles or self.people)

    @property
    def every(self) -> tuple[Conditions, ...]:
        """The demands of each gate."""
        return (self, *self.also)


class Voter(msgspec.Struct, frozen=True):
    """Who votes: the name that is shown, the authenticated identity, and the principal that it belongs to."""

    name: str
    identity: str | None
    principal: Principal | None = None
    logins: Collection[str] = ()


def check_name_of_principal(name: str) -> str:
    if NAME.fullmatch(name) is None:
        raise ConfigError(
            f"{name!r:.80} cannot be the name of a principal.",
            hint="Use A-Z a-z 0-9 . _ @ + -, and begin with one of A-Z a-z 0-9.",
        )
    return name


def check_roles(roles: Collection[str]) -> list[str]:
    if unknown := sorted(set(roles) - set(Role)):
        raise ConfigError(f"{unknown[0]!r:.80} is not a role.", hint=f"The roles are {', '.join(Role)}.")
    return sorted(set(roles))


def why_not(
    voter: Voter, approval: Approval, conditions: Conditions, *, governed: bool, owner_uid: str | None = None
) -> str | None:
    """Why this voter may not decide an approval; None: the voter may.

    `governed`: the store has principals. Without them only names can be compared. `owner_uid` is the principal that
    the session's owner is, if any.
    """
    if not governed:
        if any(one.is_named for one in conditions.every):
            return f"The gate {approval.gate} names who may decide, and this store has no principals"
        is_barred = not approval.requester_may_decide or any(one.owner_may_decide is False for one in conditions.every)
        if is_barred and voter.name == approval.requester:
            return f"{voter.name} requested approval {approval.id} and may not decide it"
        return None
    if voter.principal is None:
        return f"{voter.identity or voter.name} is not registered as a principal and may not decide"
    for one in conditions.every:
        refused = _barred(voter, voter.principal, approval, one, owner_uid) or _unnamed(voter.principal, approval, one)
        if refused is not None:
            return refused
    return None


def _barred(
    voter: Voter, principal: Principal, approval: Approval, conditions: Conditions, owner_uid: str | None
) -> str | None:
    """Separation of duties, by identities and principals."""
    requested = set(approval.requested_by or ())
    if not approval.requester_may_decide and requested & {voter.identity, *voter.logins, principal.uid}:
        return f"{principal.name} requested approval {approval.id} and may not decide it"
    owner_may = conditions.owner_may_decide
    is_owner = principal.uid == owner_uid or approval.requester in (principal.name, *voter.logins)
    if is_owner and not (approval.requester_may_decide if owner_may is None else owner_may):
        return f"{principal.name} owns the change of approval {approval.id} and may not decide it"
    return None


def _unnamed(principal: Principal, approval: Approval, conditions: Conditions) -> str | None:
    roles, people = set(conditions.roles), set(conditions.people)
    if not conditions.is_named:
        roles = set(DECIDING)
    if approval.escalated_at is not None:
        people |= set(conditions.escalate_to)
        roles |= set(conditions.escalate_to) & set(Role)
    if principal.name in people or roles & set(principal.roles):
        if principal.kind == PrincipalKind.PROGRAM and principal.name not in people:
            return f"{principal.name} is a program, and the gate {approval.gate} does not name it"
        return None
    return f"{principal.name} may not decide for the gate {approval.gate}"


def conditions_of(approval: Approval) -> Conditions:
    """What the gate demanded when the approval was requested."""
    stored = approval.conditions
    return msgspec.convert(stored, Conditions) if isinstance(stored, Mapping) else Conditions()
