"""The active policy of the store, as this process knows it.

It is read once, and again when a dispatch was refused because another one is active. So a call that is allowed costs no
query: the dispatch itself carries the fence of the policy that it was judged by, and the database refuses any other. A
`pure` call has no dispatch; it is judged by a policy that was read at most `PURE_AGE` ago, and what it returned is
dropped if its fence does not fit any more. Before a call is refused or asked about, the policy is read again.

Before a policy was set (version 0), the policy that ships decides. A policy that this process cannot read, or one that
is frozen, allows nothing: `is_usable` is False, and `error` says why.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from perdure.clock import SECOND, Clock
from perdure.domain.policy import PolicyDocument, parse, shipped
from perdure.domain.policy_version import PolicyFence, PolicyVersion
from perdure.errors import Damaged, PerdureError
from perdure.ids import digest
from perdure.store.move import StoreTransaction
from perdure.store.moves import policy

PURE_AGE = SECOND // 2  # how old the policy may be that a call without a dispatch is judged by
FROZEN = "The policy of the store is frozen"  # how the reason of such a wait begins
STORE = "store"  # what a wait for `policy` names if the policy of the store is frozen or cannot be read
KEPT = 20  # documents

Read = Callable[..., Awaitable[Any]]
_documents: dict[str, tuple[PolicyDocument | None, str | None]] = {}


class PolicyState(msgspec.Struct, frozen=True):
    """The active policy when it was read. Without a document, only what reaches nothing may run; `error` says why."""

    fence: PolicyFence
    document: PolicyDocument | None = None
    error: str | None = None
    activated_at: int | None = None

    @property
    def version(self) -> int:
        return self.fence.version

    @property
    def is_usable(self) -> bool:
        return self.error is None


class ActivePolicy:
    """The active policy of one store."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._state: PolicyState | None = None
        self._read_at = 0

    async def now(self, read: Read, *, younger_than: int | None = None) -> PolicyState:
        """The active policy: as it was read before, unless that is out of date or older than this."""
        asked_at = self._clock.boot()
        state = self._state
        if state is not None and (younger_than is None or asked_at - self._read_at < younger_than):
            return state
        found = _found(state, *await read(look, _known_fence(state)))
        if asked_at >= self._read_at:  # otherwise another call has read it meanwhile
            self._state, self._read_at = found, asked_at
        return found

    def outdated(self) -> None:
        """A dispatch was refused: the policy is another one now."""
        self._state = None


def state_in(tx: StoreTransaction, known: PolicyState | None = None) -> PolicyState:
    """The active policy as a transaction sees it."""
    return _found(known, *look(tx, _known_fence(known)))


def look(tx: StoreTransaction, known: str | None) -> tuple[PolicyFence, PolicyVersion | None, str | None]:
    """The fence, the active version unless its fence is known, and why the policy cannot be read."""
    try:
        return *policy.active(tx, known), None
    except Damaged as error:
        return PolicyFence(0, None), None, f"The policy of the store cannot be read: {error.message}"


def _known_fence(known: PolicyState | None) -> str | None:
    return None if known is None or not known.is_usable else known.fence.fence


def _found(
    known: PolicyState | None, fence: PolicyFence, active: PolicyVersion | None, error: str | None
) -> PolicyState:
    if error is not None:
        return PolicyState(fence, error=error)
    if known is not None and known.is_usable and known.fence == fence:
        return known
    return _state(fence, active)


def _state(fence: PolicyFence, active: PolicyVersion | None) -> PolicyState:
    if fence.frozen_at is not None:
        said = f"{FROZEN}, by {fence.frozen_by}: {fence.frozen_because}"
        return PolicyState(fence, error=said)
    if fence.version == 0:
        return PolicyState(fence, shipped())
    if active is None or active.fence != fence.fence or active.digest != digest(active.source):
        return PolicyState(fence, error=f"Version {fence.version} of the policy is not what was set.")
    document, error = document_of(active)
    return PolicyState(fence, document, error, active.activated_at)


def document_of(version: PolicyVersion) -> tuple[PolicyDocument | None, str | None]:
    """The document of a version, or why this process cannot read it."""
    if version.digest not in _documents:
        if len(_documents) >= KEPT:
            _documents.clear()
        name = f"version {version.version} of the policy"
        try:
            _documents[version.digest] = (parse(version.source, name), None)
        except PerdureError as error:
            _documents[version.digest] = (None, f"This process cannot read {name}: {error.message}")
    return _documents[version.digest]
