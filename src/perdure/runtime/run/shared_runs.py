"""Runs that several callers share: each session is run once in a runtime, however many wait for it.

join      the first caller starts the run in a task of its own; the others wait for the same task
leave     a caller that is cancelled leaves; the run continues for the others
last      when the last caller is cancelled, the run is cancelled: the lease is given back before the caller returns
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any


class _SharedRun:
    """One run and the number of its callers."""

    def __init__(self, task: asyncio.Task[None]) -> None:
        self.task = task
        self.callers = 0


class SharedRuns:
    """The runs of one runtime, by the uid of their session."""

    def __init__(self) -> None:
        self._runs: dict[str, _SharedRun] = {}

    async def join(self, uid: str, start: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Wait for the run of a session, and start it if there is none. Every caller gets its error."""
        loop = asyncio.get_running_loop()
        while (there := self._current(uid)) is not None and not there.callers and there.task.get_loop() is loop:
            await asyncio.wait([there.task])  # its last caller left: it is giving the session back
        if there is not None and there.task.get_loop() is not loop:  # a loop in another thread: the lease decides
            await start()
            return
        if there is None:
            there = self._runs[uid] = _SharedRun(asyncio.ensure_future(start()))
            there.task.add_done_callback(lambda _: self._current(uid))
        there.callers += 1
        try:
            await asyncio.wait([there.task])
        except asyncio.CancelledError:
            if there.callers == 1:
                await _end(there)
            raise
        finally:
            there.callers = max(0, there.callers - 1)
        there.task.result()

    def _current(self, uid: str) -> _SharedRun | None:
        """The run of a session that has not ended."""
        there = self._runs.get(uid)
        if there is not None and there.task.done():
            del self._runs[uid]
            return None
        return there


async def _end(run: _SharedRun) -> None:
    """Cancel a run and wait for its end; a caller that is cancelled once more cancels it once more."""
    run.callers = 0
    while not run.task.done():
        run.task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.wait([run.task])
    _ = run.task.cancelled() or run.task.exception()
