"""Where a conversation reads its session: the store, or a service (`cli.remote.service_source`).

A source only reads, except that it can take back an interrupt. What a person decides goes through the verbs of the
runtime, which are the same for both.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from perdure.cli.display.session_info import SessionInfo, read_info
from perdure.cli.shell import Shell
from perdure.cli.store_access import describe_lease
from perdure.cli.text.waits import WaitDescription, describe_waits
from perdure.domain.approval import Approval
from perdure.domain.effect import Effect
from perdure.domain.event import Event
from perdure.domain.session import TERMINAL, SessionRecord
from perdure.domain.wait import Wait
from perdure.runtime.live_text.delta import Delta
from perdure.runtime.live_text.file import LiveTextReader
from perdure.runtime.runtime import Runtime, SessionView
from perdure.store.move import StoreTransaction
from perdure.store.moves import approval, effect, session


class ApprovalQuestion(NamedTuple):
    """An approval, the effect that it is for, what was recorded for people, and whether an answer may cover more."""

    approval: Approval
    effect: Effect
    detail: dict[str, Any]
    may_remember: bool


class WatchedState(NamedTuple):
    """A session and what it waits for, as of one moment."""

    session: SessionRecord
    waits: list[WaitDescription]


class SessionSource(Protocol):
    """One session. `folder` is where the files are that a message names, `look` after how many ticks it is read again.

    `events` never ends. `poll` returns the live text of other processes that came since the last time; `close` ends
    that. `state` is None if it cannot be read quickly. `holder` tells whether the lease holder may be alive, and
    describes it. `last` is the session when the conversation is over.
    """

    is_service: bool
    folder: Path
    look: int

    def events(self, after: int) -> AsyncIterator[Event]: ...
    def poll(self) -> list[Delta]: ...
    def close(self) -> None: ...
    async def state(self) -> WatchedState | None: ...
    async def holder(self, *, wanted: bool) -> tuple[bool, str]: ...
    async def info(self, found: SessionRecord, *, with_context: bool) -> SessionInfo: ...
    async def approval(self, asked: Wait) -> ApprovalQuestion: ...
    async def withdraw_interrupt(self) -> None: ...
    async def last(self) -> SessionView: ...


class StoreSource:
    """A session of a store that this process has open."""

    is_service = False
    look = 5

    def __init__(self, shell: Shell, runtime: Runtime, found: SessionRecord) -> None:
        self.folder = Path(found.repository or ".")
        self._shell = shell
        self._runtime = runtime
        self._uid = found.uid
        self._reader = LiveTextReader(runtime.live_text, found.uid)

    def events(self, after: int) -> AsyncIterator[Event]:
        return self._runtime.store.follow(self._uid, after)

    def poll(self) -> list[Delta]:
        return self._reader.poll()

    def close(self) -> None:
        self._reader.close()

    async def state(self) -> WatchedState:
        return await self._runtime.store.read(_state_of, self._uid)

    async def holder(self, *, wanted: bool) -> tuple[bool, str]:
        return await self._runtime.store.read(describe_lease, self._shell, self._uid, wanted=wanted)

    async def info(self, found: SessionRecord, *, with_context: bool) -> SessionInfo:
        return await self._runtime.store.read(read_info, found, with_context=with_context)

    async def approval(self, asked: Wait) -> ApprovalQuestion:
        await self._runtime.queries.access.note("approval", asked.session_uid, subject=asked.id)
        found = await self._runtime.store.read(approval_question, asked.session_uid, asked.id)
        return found._replace(effect=self._runtime.values.whole(found.effect))

    async def withdraw_interrupt(self) -> None:
        await self._runtime.requests.withdraw_interrupt(self._uid, by=self._shell.by)

    async def last(self) -> SessionView:
        return await self._runtime.get(self._uid)


def _state_of(tx: StoreTransaction, uid: str) -> WatchedState:
    found = session.get(tx, uid)
    return WatchedState(found, describe_waits(tx, found) if found.status not in TERMINAL else [])


def approval_question(tx: StoreTransaction, uid: str, id: str) -> ApprovalQuestion:
    """What a person must know to decide about a call."""
    row = approval.get(tx, uid, id)
    about = approval.detail_of(tx, row)
    return ApprovalQuestion(row, effect.get(tx, uid, row.effect_id), about, approval.may_remember(tx, row))
