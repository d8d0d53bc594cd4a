"""Live text of a session: what a model writes before it is recorded. It is lossy by design, and has its own channel.

    text      a piece of the output of one call, which follows an event
    discard   the call broke off; its text will not be recorded
    retry     the model is asked again later

A client that joins gets what the present call has written so far. Nothing here has a number: the record has it whole.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import msgspec

from perdure.runtime.live_text.delta import POLL_INTERVAL, Delta
from perdure.runtime.live_text.file import LiveTextReader
from perdure.runtime.runtime import Runtime
from perdure.server.stream.tail import EventLine, Subscriber

LONGEST = 1 << 20  # characters of the present call that a client gets when it joins


def as_event(one: Delta) -> bytes:
    kind, more = b"text", {"text": one.text}
    if one.broke_off:
        kind, more = b"discard", {}
    elif one.retry is not None:
        kind, more = b"retry", msgspec.to_builtins(one.retry)
    data = msgspec.json.encode({"call": one.call, "after": one.after, **more})
    return b"event: %s\ndata: %s\n\n" % (kind, data)


class LiveTail:
    """Reads the live text of one session, once for all subscribers."""

    def __init__(self, runtime: Runtime, uid: str) -> None:
        self._uid = uid
        self._live = runtime.live_text
        self._reader: LiveTextReader | None = None
        self._heard: list[Delta] = []
        self.subscribers: set[Subscriber] = set()
        self.now: Delta | None = None  # the present call, with its text so far
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        folder = await asyncio.to_thread(lambda: self._live.folder)  # its first use may read the store
        if folder is None:
            self._live.listeners.append(self._hear)
        else:
            self._reader = LiveTextReader(self._live, self._uid)
        while True:
            heard, self._heard = self._heard, []
            for piece in [*heard, *(self._reader.poll() if self._reader is not None else ())]:
                self._keep(piece)
                for one in list(self.subscribers):
                    one.offer([EventLine(0, as_event(piece))])
            await asyncio.sleep(POLL_INTERVAL)

    def _hear(self, piece: Delta) -> None:
        if piece.session == self._uid:
            self._heard.append(piece)

    def _keep(self, piece: Delta) -> None:
        if piece.broke_off or piece.retry is not None:
            self.now = None
        elif self.now is not None and self.now.call == piece.call:
            text = (self.now.text + piece.text)[:LONGEST]
            self.now = msgspec.structs.replace(self.now, text=text)
        else:
            self.now = piece

    def stop(self) -> None:
        self._task.cancel()
        if self._hear in self._live.listeners:
            self._live.listeners.remove(self._hear)
        if self._reader is not None:
            self._reader.close()


class LiveTails:
    """The live text of the sessions that clients watch here."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._tails: dict[str, LiveTail] = {}

    async def follow(self, uid: str, patience: float) -> AsyncGenerator[bytes, None]:
        """The live text of a session; an empty piece when there was none for a while."""
        tail = self._tails.get(uid)
        if tail is None:
            tail = self._tails[uid] = LiveTail(self._runtime, uid)
        subscriber = Subscriber()
        tail.subscribers.add(subscriber)
        try:
            yield b"" if tail.now is None else as_event(tail.now)
            while True:
                lines = await subscriber.take(patience)
                if subscriber.is_behind:
                    subscriber.clear()  # lossy: what is recorded comes with the events
                yield b"".join(one.data for one in lines)
        finally:
            tail.subscribers.discard(subscriber)
            if not tail.subscribers and self._tails.get(uid) is tail:
                del self._tails[uid]
                tail.stop()
