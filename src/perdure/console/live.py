"""Live pages: server-sent events that tell a page to read itself again, and the text that a model writes now.

    change    something on the page has changed; the script reads the page again and replaces what differs
    text      pieces of the model's answer that is not recorded yet: what is not seen is a mark, as in recorded text
    discard   that answer will not be recorded
    gone      the sign-in ended, or the caller may not see this any more; the stream ends

The rights are looked at again every few seconds. A page without the script is read again by its reader.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec
from starlette.responses import Response, StreamingResponse

from perdure.console.login import cookies
from perdure.console.markup import LONGEST, pieces
from perdure.console.page import ConsoleContext
from perdure.domain.identity import Identity, acting
from perdure.errors import PerdureError
from perdure.runtime.stream.events import TextDelta, TextDiscarded
from perdure.runtime.stream.stream import open_stream
from perdure.server.authorization import authorize
from perdure.server.operation import EVENT_STREAM
from perdure.store.move import StoreTransaction
from perdure.store.moves import sign_in

PAUSE = 0.5  # seconds between two changes that a list is told of
LOOK = 2.0  # seconds after which a list is looked at without a change in this process
HEARTBEAT = ": still here\n\n"
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


class Watch:
    """Whether a list has changed: `sign` reads what matters of it."""

    def __init__(self, sign: Callable[[], Awaitable[object]]) -> None:
        self._sign = sign
        self._last: object = None

    async def begin(self) -> None:
        self._last = await self._sign()

    async def has_changed(self) -> bool:
        now = await self._sign()
        changed, self._last = now != self._last, now
        return changed


class Admission:
    """Whether the caller of a stream still may read it."""

    def __init__(self, context: ConsoleContext) -> None:
        self._context = context
        self._checked = asyncio.get_running_loop().time()

    @property
    def is_stopping(self) -> bool:
        return bool(self._context.request.app.state.stopping.is_set())

    @property
    def is_due(self) -> bool:
        return asyncio.get_running_loop().time() - self._checked >= self._context.settings.recheck

    async def check(self) -> bool:
        self._checked = asyncio.get_running_loop().time()
        context = self._context
        own = f"os:{context.settings.own_uid}"

        def look(tx: StoreTransaction) -> bool:
            row = sign_in.get(tx, cookies.stored(context.secret))
            found = None if row is None else sign_in.caller_of(tx, row.identity, own=own)
            if found is None:
                return False
            context.caller = found
            authorize(tx, context)
            return True

        try:
            return await context.store.read(look)
        except PerdureError:
            return False


class LiveAnswer:
    """How much of the answer that a model writes was sent: as much as a page shows of a recorded text."""

    def __init__(self) -> None:
        self._reply = ""
        self._room = LONGEST

    def event(self, piece: TextDelta) -> str | None:
        """The event of a piece; None after the end of what is shown."""
        if piece.reply != self._reply:
            self._reply, self._room = piece.reply, LONGEST
        if not piece.text or self._room == 0:
            return None
        text, is_cut = piece.text[: self._room], len(piece.text) > self._room
        self._room -= len(text)
        return sse("text", reply=piece.reply, pieces=pieces(text), is_cut=is_cut)


def sse(kind: str, **data: object) -> str:
    return f"event: {kind}\ndata: {msgspec.json.encode(data).decode()}\n\n"


def live_list(context: ConsoleContext, watch: Watch) -> Response:
    """The stream of a list."""
    return StreamingResponse(_list_events(context, watch), media_type=EVENT_STREAM, headers=HEADERS)


async def _list_events(context: ConsoleContext, watch: Watch) -> AsyncIterator[str]:
    admission, wakeups = Admission(context), context.store.wakeups
    with acting(Identity.parse(context.caller.identity)):
        seen = wakeups.version
        await watch.begin()
        yield HEARTBEAT
        while not admission.is_stopping:
            await wakeups.wait(seen, None, LOOK)
            if admission.is_due:
                if not await admission.check():
                    yield sse("gone")
                    return
                yield HEARTBEAT
            seen = wakeups.version  # a change while the list is read is noticed next time
            if await watch.has_changed():
                yield sse("change")
            await asyncio.sleep(PAUSE)


def live_session(context: ConsoleContext, after: int) -> Response:
    """The stream of one session."""
    return StreamingResponse(_session_events(context, after), media_type=EVENT_STREAM, headers=HEADERS)


async def _session_events(context: ConsoleContext, after: int) -> AsyncIterator[str]:
    admission, answer = Admission(context), LiveAnswer()
    assert context.session is not None
    await asyncio.to_thread(lambda: context.runtime.live_text.folder)  # its first use may read the store
    with open_stream(context.runtime, context.session, after) as watched:
        yield HEARTBEAT
        while not admission.is_stopping:
            if admission.is_due:
                if not await admission.check():
                    yield sse("gone")
                    return
                yield HEARTBEAT
            number = watched.builder.number
            found = await watched.poll()
            for one in found:
                if isinstance(one, TextDelta):
                    if (sent := answer.event(one)) is not None:
                        yield sent
                elif isinstance(one, TextDiscarded):
                    yield sse("discard", reply=one.reply)
            if watched.builder.number != number:
                yield sse("change", number=watched.builder.number)
            if not found:
                await watched.wait()
