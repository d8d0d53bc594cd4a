"""The stream of one session: a poll of its log, of its live text and of the output of its commands.

There is no task behind it, so a reader that stops leaves nothing running. The log is read when it has changed; live
text and output are read often, from files, because no one announces them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from perdure.domain.session import TERMINAL, SessionRecord
from perdure.runtime.definitions.program import PROGRAMS
from perdure.runtime.live_text.delta import POLL_INTERVAL, Delta
from perdure.runtime.live_text.file import LiveTextReader
from perdure.runtime.stream.builder import StreamBuilder
from perdure.runtime.stream.events import StreamEvent
from perdure.store.moves import event
from perdure.store.writer.wakeup import SLOW_POLL

if TYPE_CHECKING:
    from perdure.runtime.runtime import Runtime

LINES = 20  # of the output of a running command


class SessionStream:
    """Reads a session piece by piece. Use it inside `open_stream`, which closes its files."""

    def __init__(self, runtime: Runtime, session: SessionRecord, after: int) -> None:
        self.builder = StreamBuilder(session.id, runtime.values)
        self.builder.number = after
        self._store = runtime.store
        self._uid = session.uid
        self._live = LiveTextReader(runtime.live_text, session.uid)
        self.heard: list[Delta] = []  # live text of a store in memory
        program = PROGRAMS.get(session.program)
        self._output = None if program is None else program.output_reader(runtime, session.uid)
        self._seen = -1  # the version of the store that was read
        self._read_at = 0.0

    async def poll(self) -> list[StreamEvent]:
        """What is new, if anything is."""
        found: list[StreamEvent] = []
        now = asyncio.get_running_loop().time()
        if self._seen < 0 or self._store.wakeups.has_changed(self._seen, self._uid) or now - self._read_at > SLOW_POLL:
            version, self._read_at = self._store.wakeups.version, now
            page = await self._store.read(event.after, self._uid, self.builder.number)
            for line in page:
                found += self.builder.event(line)
            if not page:
                self._seen = version
        heard, self.heard = self.heard, []
        for piece in [*self._live.poll(), *heard]:
            found += self.builder.delta(piece)
        if self._output is not None:
            for effect, (_, attempt) in list(self.builder.running.items()):
                found += self.builder.output(effect, self._output.tail(effect, attempt, LINES))
        return found

    async def wait(self) -> None:
        """Wait until the log has changed, or until live text is due to be read."""
        await self._store.wakeups.wait(self._seen, self._uid, POLL_INTERVAL)

    def hear(self, piece: Delta) -> None:
        if piece.session == self._uid:
            self.heard.append(piece)

    def close(self) -> None:
        self._live.close()


@contextmanager
def open_stream(runtime: Runtime, session: SessionRecord, after: int = 0) -> Iterator[SessionStream]:
    made = SessionStream(runtime, session, after)
    in_memory = runtime.live_text.folder is None
    if in_memory:
        runtime.live_text.listeners.append(made.hear)
    try:
        yield made
    finally:
        made.close()
        if in_memory:
            runtime.live_text.listeners.remove(made.hear)


class Streams:
    """The streams of the sessions of a store."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def stream(self, name: str, *, after: int = 0) -> AsyncGenerator[StreamEvent, None]:
        """A session as typed events, live text included, until it has ended. It only watches: it runs nothing.

        A reader may leave at any time. Events come from the record and are exact; live text may be incomplete.
        """
        runtime = self._runtime
        view = await runtime.get(name)
        await asyncio.to_thread(lambda: runtime.live_text.folder)  # on PostgreSQL, its first use reads the store
        if view.status in TERMINAL and after >= view.cursor:
            return
        await runtime.queries.access.note("transcript", view.uid)
        with open_stream(runtime, view, after) as watched:
            while not watched.builder.finished:
                found = await watched.poll()
                for one in found:
                    yield one
                if not found:
                    await watched.wait()
