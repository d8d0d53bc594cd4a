"""The lines of execution of one run: the program itself, and a scope for each task that runs beside it."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Self

from perdure.errors import ConfigError
from perdure.runtime.run.position import ExecutionLane
from perdure.runtime.run.run import Run

_LANE: ContextVar[ExecutionLane | None] = ContextVar("perdure_lane", default=None)


class Lanes:
    """Finds the lane of the current task."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def begin(self) -> None:
        """Make the current task, which is the program's own, the first lane."""
        lane = ExecutionLane("", asyncio.current_task())
        self._run.lanes.append(lane)
        _LANE.set(lane)

    def enclosing(self) -> ExecutionLane:
        """The lane that the current task was created in, if it has none of its own."""
        lane = _LANE.get()
        return lane if lane in self._run.lanes else self._run.lanes[0]

    def current(self) -> ExecutionLane:
        """The lane of the current task; refused if it has none, because its order among others would be chance."""
        self._run.check()
        lane = self.enclosing()
        if lane.owner is not asyncio.current_task():
            raise ConfigError(
                "A task that runs beside others used the session without a scope of its own.",
                hint='Wrap its work in `async with s.scope("name"):`.',
            )
        return lane


class Scope:
    """A line of execution of its own, for one task."""

    def __init__(self, run: Run, outer: ExecutionLane, path: str) -> None:
        """`path` is what `outer.enter(name)` returned."""
        self._run = run
        self._outer = outer
        self._path = path
        self._lane: ExecutionLane | None = None
        self._token: Token[ExecutionLane | None] | None = None

    async def __aenter__(self) -> Self:
        self._run.check()
        self._run.hush()
        self._lane = ExecutionLane(self._path, asyncio.current_task(), self._outer)
        self._outer.inside.add(self._lane)
        self._run.lanes.append(self._lane)
        self._token = _LANE.set(self._lane)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._lane is not None
        assert self._token is not None
        self._outer.inside.discard(self._lane)
        self._run.lanes.remove(self._lane)
        _LANE.reset(self._token)
