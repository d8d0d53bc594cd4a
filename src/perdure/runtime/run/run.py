"""One run of one session: the program from the top, until it ends or can only wait.

A wait holds its caller. The program is unwound, with `Suspended`, and the session parked, only when no act is running
and nothing else can progress. The answer may come in between: parking checks once more, under the session's row lock,
and then the program runs again immediately.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar
from weakref import WeakSet

from perdure.clock import SECOND
from perdure.domain.effect import Effect
from perdure.domain.lease import Holder
from perdure.domain.restore import Restore
from perdure.domain.wait import Wait
from perdure.errors import IllegalMove, LeaseLost, StoreError, Suspended
from perdure.runtime.ledger import leases
from perdure.runtime.run.interruption import Interruption
from perdure.runtime.run.lineage import wake_branches_of_all
from perdure.runtime.run.position import ExecutionLane
from perdure.runtime.run.records import Records
from perdure.store.move import Move, StoreTransaction
from perdure.store.moves import restore, wait

if TYPE_CHECKING:
    from perdure.runtime.runtime import Runtime

P = ParamSpec("P")
T = TypeVar("T")
LINGER = 0.01
WAKE_AFTER = 0.1
HOLD_SHORT = SECOND  # a timer that is due this soon is waited for in place


class Run:
    """What the program, the ledger and the waits of one run share."""

    def __init__(self, runtime: Runtime, holder: Holder, records: Records, *, is_agent: bool = False) -> None:
        self.runtime = runtime
        self.store = runtime.store
        self.clock = runtime.store.clock
        self.holder = holder
        self.records = records
        self.session = runtime.values.of_session(records.session)
        self.interruption = Interruption(self, ends_turn=is_agent)
        self.unwinding = False
        self.pausing = False  # it is unwound because of a request to pause
        self.over = False
        self.stopped: Exception | None = None
        self.restart: dict[str, Any] | None = None
        self.undos: set[str] = set()  # the requests to take something back that it knows of
        self.restore: Restore | None = None  # an unreleased restore that the session existed at
        self.needs_leases = any(effect.leases for effect in records.effects.values())
        self.blocked_on: list[str] = []  # the waits that held the program when it was unwound
        self.lanes: list[ExecutionLane] = []
        self._active = 0
        self.closing: list[Callable[[], Coroutine[Any, Any, None]]] = []  # what is done when the run is over
        self._idle = asyncio.Event()
        self._waiting: dict[str, list[asyncio.Future[Wait]]] = {}
        self._due: dict[str, int] = {}
        self._watcher: asyncio.Task[None] | None = None
        self._check_planned = False
        self._main_awaits: Any = None
        self._hushed: WeakSet[asyncio.Task[Any]] = WeakSet()
        self._hushed_last: asyncio.Task[Any] | None = None
        self._settled: list[Effect] = []
        self._waking: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()

    async def write(self, move: Move[T]) -> T:
        """Commit a move. Without the lease or the store the program cannot continue, whatever it catches."""
        try:
            return await self.store.write(move)
        except (LeaseLost, StoreError) as error:
            raise self.give_up(error) from error

    async def read(self, query: Callable[Concatenate[StoreTransaction, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Read; without the store the program cannot continue either."""
        try:
            return await self.store.read(query, *args, **kwargs)
        except StoreError as error:
            raise self.give_up(error) from error

    async def unreleased_restore(self) -> Restore | None:
        """The unreleased restore that the session existed at. It may be released while the session runs."""
        if self.restore is not None:
            self.restore = await self.read(restore.unreleased_for, self.session.uid)
        return self.restore

    async def see_through(self, work: Coroutine[Any, Any, T], *, unwinds: bool = False) -> T:
        """Finish the work even if the caller is cancelled meanwhile; the cancellation is raised afterwards.

        Work that `unwinds` finishes what has begun, and no further act begins.
        """
        ended: asyncio.Future[T] = self._loop.create_future()
        task = self._loop.create_task(_carry(work, ended))
        try:
            return await ended
        except asyncio.CancelledError as error:
            if unwinds:
                self.unwind()
            while not task.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.wait({task})
            _ = ended.cancelled() or ended.exception()
            raise error from None

    def wake_branches(self, effect: Effect, *, at_once: bool) -> None:
        """Wake branches that wait for this effect: for several effects together, before the run ends."""
        self._settled.append(effect)
        if at_once:
            self._wake_soon()
        elif len(self._settled) == 1:
            self._loop.call_later(WAKE_AFTER, self._wake_soon)

    def _wake_soon(self) -> None:
        if self._settled:
            task = self._loop.create_task(self._wake())
            self._waking.add(task)
            task.add_done_callback(self._waking.discard)

    async def _wake(self) -> None:
        settled, self._settled = self._settled, []
        if settled:
            await wake_branches_of_all(self.store, settled, self.holder.name)
        if any(effect.leases for effect in settled):
            await leases.wake_waiting(self.store, self.holder.name)

    def give_up(self, error: Exception) -> Suspended:
        """End the run, whatever its program catches; returns the exception that unwinds it."""
        self.stopped = self.stopped or error
        self.unwind()
        return Suspended()

    def stop(self, error: Exception) -> None:
        """Give the run up, from any thread."""
        with suppress(RuntimeError):  # the loop is closed, and the run with it
            self._loop.call_soon_threadsafe(self.give_up, error)

    def check(self) -> None:
        """Refuse to begin anything in a run that is being unwound or is over, or in a forked child."""
        self.store.check_process()
        if self.unwinding or self.over:
            raise Suspended

    def active(self) -> Self:
        """`with run.active()`: work of this run is under way; meanwhile the program is not unwound."""
        return self

    def __enter__(self) -> None:
        self.check()
        self.hush()
        self._active += 1

    def __exit__(self, *_: object) -> None:
        self._active -= 1
        self._idle.set()
        self._check_soon()

    def hush(self) -> None:
        """Keep asyncio from reporting a task that is no longer awaited and ends with `Suspended`; that is no error."""
        task = asyncio.current_task()
        if task is None or task is self._hushed_last:
            return
        if task not in self._hushed:
            self._hushed.add(task)
            task.add_done_callback(_retrieve)
        self._hushed_last = task

    def honour_requests(self) -> None:
        """Between acts: stop or pause if that was requested. An agent ends an interrupted turn itself."""
        if self.holder.cancel_requested or self.holder.pause_requested or self.interruption.pauses:
            self.unwind_to_pause()
            raise Suspended

    def unwind_to_pause(self) -> None:
        """Unwind the program because of a request; unless the request is to cancel, the session is paused."""
        self.pausing = self.pausing or not (self.unwinding or self.holder.cancel_requested)
        self.unwind()

    async def wait_for(self, id: str, lane: ExecutionLane | None = None) -> Wait:
        """Hold the caller until a wait of this session is resolved."""
        found = await self.read(wait.get, self.session.uid, id)
        if found.resolved_at is not None:
            return found
        self.check()
        await self.interruption.check()
        future: asyncio.Future[Wait] = self._loop.create_future()
        self._waiting.setdefault(id, []).append(future)
        if found.due_at is not None:
            self._due[id] = found.due_at
        if self._watcher is not None:
            self._watcher.cancel()  # it may sleep longer than this wait can
        self._watcher = self._loop.create_task(self._watch())
        self._active -= 1
        if lane is not None:
            lane.waiting += 1
        self._check_soon()
        try:
            return await future
        finally:
            self._active += 1
            if lane is not None:
                lane.waiting -= 1
            self._forget(id, future)

    def _forget(self, id: str, future: asyncio.Future[Wait]) -> None:
        """The task no longer waits: the wait was resolved, or the task was cancelled."""
        left = [other for other in self._waiting.get(id, ()) if other is not future]
        if left:
            self._waiting[id] = left
        else:
            self._waiting.pop(id, None)
            self._due.pop(id, None)

    async def _watch(self) -> None:
        """Look for answers while a task waits for one."""
        while self._waiting and not self.unwinding:
            seen = self.store.wakeups.version
            try:
                await self._look()
            except Exception as error:  # the run must end with any error: otherwise it would wait for ever
                self.stop(error)
                break
            soonest = min(self._due.values(), default=None)
            pause = 5.0 if soonest is None else min(5.0, max(0.0, (soonest - self.clock.now()) / SECOND))
            await self.store.wakeups.wait(seen, self.session.uid, pause)

    async def _look(self) -> None:
        now = self.clock.now()
        for id, due in list(self._due.items()):
            if due <= now and id in self._waiting:
                with suppress(IllegalMove):  # the clock was set back in between: it is fired when it is due again
                    await self.runtime.driver.fire(await self.store.read(wait.get, self.session.uid, id))
        for found in await self.store.read(wait.get_many, self.session.uid, list(self._waiting)):
            if found.resolved_at is not None:
                for future in self._waiting.get(found.id, ()):
                    if not future.done():
                        future.set_result(found)

    def _check_soon(self) -> None:
        if self._waiting and not self._check_planned and not self.unwinding:
            self._check_planned = True
            self._loop.call_soon(self._note_main)
            self._loop.call_later(LINGER, self._check)

    def _check(self) -> None:
        """Unwind when nothing can progress: no act, and every side-by-side task waits."""
        self._check_planned = False
        if self.unwinding or self._active or not self._waiting:
            return
        given = any(future.done() for futures in self._waiting.values() for future in futures)
        if given or self._main_moved() or not all(lane.is_blocked() for lane in self.lanes):
            self._check_soon()
            return
        soonest = min(self._due.values(), default=None)
        if soonest is not None and soonest - self.clock.now() <= HOLD_SHORT:
            self._check_soon()
            return
        self.unwind()

    def _note_main(self) -> None:
        """Remember what the program's own task awaits; if it awaits something else later, it is not idle."""
        self._main_awaits = getattr(self.lanes[0].owner, "_fut_waiter", None) if self.lanes else None

    def _main_moved(self) -> bool:
        before = self._main_awaits
        self._note_main()
        return self._main_awaits is not before

    def unwind(self) -> None:
        """Unwind the program: every waiting task gets `Suspended`, and nothing new begins."""
        if not self.unwinding:
            self.blocked_on = list(self._waiting)
        self.unwinding = True
        self.dismiss(Suspended())

    def dismiss(self, error: BaseException) -> None:
        """End every wait that holds a task of the program: the task gets the error."""
        for futures in self._waiting.values():
            for future in futures:
                if not future.done():
                    future.set_exception(error)

    async def settle_down(self) -> None:
        """The program has ended. Acts that have begun are finished; nothing else begins."""
        self.over = True
        self.dismiss(Suspended())
        while self._active:
            self._idle.clear()
            await self._idle.wait()
        await asyncio.gather(self._wake(), *self._waking, return_exceptions=True)
        if self._watcher is not None:
            self._watcher.cancel()
        self.interruption.close()


async def _carry(work: Coroutine[Any, Any, T], ended: asyncio.Future[T]) -> None:
    """Do the work in a task of its own, and report its end to the caller, if it still waits."""
    try:
        result = await work
    except (KeyboardInterrupt, SystemExit):
        raise
    except asyncio.CancelledError:
        ended.cancel()
    except BaseException as error:
        if not ended.done():
            ended.set_exception(error)
    else:
        if not ended.done():
            ended.set_result(result)


def _retrieve(task: asyncio.Task[Any]) -> None:
    if isinstance(getattr(task, "_exception", None), Suspended):
        task.exception()
