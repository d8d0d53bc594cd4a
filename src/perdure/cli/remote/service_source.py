"""A session of a service, read for a conversation at a terminal. Workers of the service run it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

from perdure.cli.display.session_info import SessionInfo, model_name
from perdure.cli.live.session_source import ApprovalQuestion, WatchedState, approval_question
from perdure.cli.remote.access import CommandRuntime
from perdure.cli.remote.loader import MirrorLoader
from perdure.cli.text.waits import WaitDescription, describe_waits
from perdure.client.session_stream import live_text
from perdure.domain.event import Event
from perdure.domain.session import TERMINAL, SessionRecord
from perdure.domain.wait import Wait, WaitKind
from perdure.errors import NotFound, PerdureError
from perdure.runtime.live_text.delta import Delta
from perdure.runtime.queries import SessionView
from perdure.store.databases.sqlite.mirror import Mirror
from perdure.store.move import StoreTransaction

ANSWER = 1.0  # seconds for which the terminal waits for the state; after them it accepts keys again
LOOK = 25  # ticks between two looks without an event: children have logs of their own
MOST = 1000  # pieces of live text that wait to be shown


class ServiceSource:
    """One session of a service."""

    is_service = True
    look = LOOK

    def __init__(self, runtime: CommandRuntime, found: SessionView) -> None:
        self.folder = Path()  # files that a message names are on this machine; the session's are on that of its worker
        self._view = found  # as it was read last
        self._runtime = runtime
        self._uid = found.uid
        self._known: WatchedState | None = None
        self._reading: asyncio.Task[WatchedState] | None = None
        self._pieces: deque[Delta] = deque(maxlen=MOST)
        self._tail: asyncio.Task[None] | None = None

    def events(self, after: int) -> AsyncIterator[Event]:
        return self._runtime.events(self._uid, after=after, follow=True)

    def poll(self) -> list[Delta]:
        self._tail = self._tail or asyncio.create_task(self._collect())
        found = list(self._pieces)
        self._pieces.clear()
        return found

    async def _collect(self) -> None:
        async for piece in live_text(self._runtime, self._uid):
            self._pieces.append(piece)

    def close(self) -> None:
        for task in (self._tail, self._reading):
            if task is not None and not task.cancel() and not task.cancelled():
                task.exception()  # it is of no interest any more
        self._tail = self._reading = None

    @property
    def waits(self) -> list[WaitDescription]:
        """What the session waits for, as it was read last."""
        return [] if self._known is None or self._view.status in TERMINAL else self._known.waits

    async def state(self) -> WatchedState | None:
        self._reading = self._reading or asyncio.create_task(self._read())
        await asyncio.wait([self._reading], timeout=ANSWER)
        if not self._reading.done():
            return None
        read, self._reading = self._reading, None
        return read.result()

    async def _read(self) -> WatchedState:
        self._view = view = await self._runtime.get(self._uid)
        if not self._is_known(view):
            waits = describe_waits(await self._mirror(view), view) if view.waits else []
            self._known = WatchedState(view, waits)
        assert self._known is not None
        return self._known._replace(session=view)

    def _is_known(self, view: SessionView) -> bool:
        """Whether its waits are those that were read last. Those of children change without an event of the session."""
        is_same = self._known is not None and self._known.session.cursor == view.cursor
        return is_same and not any(one.kind == WaitKind.CHILD for one in view.waits)

    async def _mirror(self, view: SessionView) -> StoreTransaction:
        mirror = Mirror(self._runtime.store.clock)
        await MirrorLoader(self._runtime, mirror).waits(view)
        return mirror.read()

    async def holder(self, *, wanted: bool) -> tuple[bool, str]:  # noqa: ARG002 - only the service knows its workers
        return True, ""

    async def info(self, found: SessionRecord, *, with_context: bool) -> SessionInfo:  # noqa: ARG002 - it is not known
        return SessionInfo(found.id, model_name(found), found.tokens_in + found.tokens_out, found.cost_micros)

    async def approval(self, asked: Wait) -> ApprovalQuestion:
        tx = await self._mirror(await self._runtime.get(asked.session_uid))
        return approval_question(tx, asked.session_uid, asked.id)

    async def withdraw_interrupt(self) -> None:
        """A service does not take an interrupt back: the session stops, and waits for the next message."""

    async def last(self) -> SessionView:
        with suppress(PerdureError):  # then it is as it was read last
            await self.state()
        self.close()
        return self._view


class EffectNames:
    """The tools of the effects of a session, each read once."""

    def __init__(self, runtime: CommandRuntime, uid: str) -> None:
        self._runtime = runtime
        self._uid = uid
        self._known: dict[str, str] = {}

    async def of(self, event: Event) -> dict[str, str]:
        id = event.effect_id
        if id is not None and id not in self._known:
            try:
                self._known[id] = (await self._runtime.effect(id, session=self._uid)).effect.tool
            except NotFound:
                self._known[id] = ""
        return {known: tool for known, tool in self._known.items() if tool}


class ServiceDriver:
    """Workers of the service run the session: nothing is done here."""

    is_here = False
    is_running = False

    def start(self) -> None:
        """A worker claims it by itself."""

    def saw(self, kind: str) -> None:
        """Events are not needed here."""

    def check(self) -> PerdureError | None:
        return None

    async def rest(self, seconds: float) -> None:
        """It continues by itself."""

    async def leave(self, seconds: float) -> bool:  # noqa: ARG002 - nothing is held here
        return True
