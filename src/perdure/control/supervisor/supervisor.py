"""The supervisor: carries out what `decision` decides, with real processes.

    exit      SIGCHLD; the notifications that the process sent before are read first, then it is reaped. A process that
              was not started here (this is process 1 of a container, and adopts orphans) is reaped too
    worker    its lease name is known from its notification. When it has ended, its sessions are freed
    change    the tree is written down for `perdure tree` and `perdure top`, only when it has changed

If the supervisor is killed, the kernel kills its children (`process`). Nothing is lost: what runs is recovered from the
store by the next supervisor or worker.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Awaitable, Callable, Mapping

import msgspec

from perdure.clock import SECOND, Clock
from perdure.control.supervisor.decision import decide, next_wake
from perdure.control.supervisor.notification import SOCKET, WATCHDOG, WORKER, ManagerNotifier, NotificationReceiver
from perdure.control.supervisor.process import SupervisedProcess, ended_processes
from perdure.control.supervisor.specification import ChildSpec, GroupSpec, Spec, check_ids, processes
from perdure.control.supervisor.state import (
    Begin,
    Exit,
    Phase,
    Ready,
    SignOfLife,
    Standstill,
    Start,
    StopRequest,
    SupervisorEvent,
    Terminate,
    Tick,
    TreeState,
    begin,
)

logger = logging.getLogger(__name__)
NOT_STARTED = 127
STANDSTILL = 1 * SECOND  # if an event is decided so late, this process or the machine stood still
LAST_REPORTS = 5.0  # seconds to report the ends of workers after everything has stopped


class ChildReport(msgspec.Struct, frozen=True):
    """One child of a tree as `perdure tree` shows it: a process, or a group with its children."""

    id: str
    state: str
    pid: int | None = None
    worker: str | None = None
    restarts: int = 0
    last_exit: str | None = None
    strategy: str | None = None
    children: list[ChildReport] | None = None


class Supervisor:
    """Runs a tree of processes in this one; `run` returns when all of them have ended."""

    def __init__(
        self,
        tree: GroupSpec,
        clock: Clock,
        *,
        environment: Mapping[str, str] | None = None,
        notifier: ManagerNotifier | None = None,
        changed: Callable[[ChildReport], Awaitable[None]] | None = None,
        worker_ended: Callable[[str, str], Awaitable[None]] | None = None,
        all_ended: Callable[[], None] = lambda: None,
    ) -> None:
        check_ids(tree)
        self._specs = {one.id: one for one in processes(tree)}
        self._clock = clock
        self._environment = dict(os.environ if environment is None else environment)
        self._notifier = notifier or ManagerNotifier(None)
        self._changed = changed
        self._worker_ended = worker_ended
        self._all_ended = all_ended
        self.state = begin(tree, seed=os.getpid())
        self._processes: dict[str, SupervisedProcess] = {}
        self._workers: dict[str, str] = {}  # the lease name of each worker that runs
        self._events: asyncio.Queue[SupervisorEvent] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()
        self._shown: ChildReport | None = None
        self._dirty = asyncio.Event()
        self._sign_sent_at = 0  # the last sign of life to the manager of this process

    def stop(self) -> None:
        """Stop the tree; a second call asks every process again."""
        self._notifier.send(STOPPING=1)
        self._events.put_nowait(StopRequest())

    async def run(self) -> TreeState:
        """Start the tree, and return when every process has ended. Only in the main thread."""
        loop = asyncio.get_running_loop()
        self._receiver = NotificationReceiver()
        self._environment |= {SOCKET: self._receiver.address}
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        loop.add_signal_handler(signal.SIGCHLD, self._reap)
        loop.add_reader(self._receiver.fileno(), self._read_notifications)
        recorder = asyncio.ensure_future(self._record_changes())
        try:
            self._handle(Begin())
            while not self.state.is_over:
                self._handle(await self._next_event())
            self._all_ended()
            if self._tasks:  # an unavailable store must not keep a supervisor that was stopped
                await asyncio.wait(self._tasks, timeout=LAST_REPORTS)
        finally:
            for process in self._processes.values():  # an error of the supervisor itself: leave nothing behind
                process.kill()
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
                loop.remove_signal_handler(number)
            loop.remove_reader(self._receiver.fileno())
            recorder.cancel()
            await asyncio.gather(recorder, return_exceptions=True)
            for process in self._processes.values():
                await asyncio.to_thread(process.reap)
            self._receiver.close()
        return self.state

    async def _next_event(self) -> SupervisorEvent:
        event: SupervisorEvent
        wake = next_wake(self.state)
        left = None if wake is None else max(0.0, (wake - self._clock.boot()) / SECOND)
        silence = None if self._notifier.watchdog is None else self._notifier.watchdog / 3
        if silence is not None and self._clock.boot() - self._sign_sent_at >= silence * SECOND / 2:
            self._notifier.send(WATCHDOG=1)
            self._sign_sent_at = self._clock.boot()
        try:
            async with asyncio.timeout(min((one for one in (left, silence) if one is not None), default=None)):
                event = await self._events.get()
        except TimeoutError:
            event = Tick()
        if wake is not None and self._clock.boot() - wake > STANDSTILL:
            logger.info("The supervisor or the machine stood still; its processes are not judged by that time.")
            self._handle(Standstill())
        return event

    def _handle(self, event: SupervisorEvent) -> None:
        self.state, actions = decide(self.state, event, self._clock.boot())
        for action in actions:
            if isinstance(action, Start):
                self._start(self._specs[action.id])
            elif action.id in self._processes:
                process = self._processes[action.id]
                process.terminate() if isinstance(action, Terminate) else process.kill()
        self._dirty.set()

    def _start(self, spec: ChildSpec) -> None:
        silence = {} if spec.watchdog is None else {WATCHDOG: str(spec.watchdog)}
        try:
            self._processes[spec.id] = SupervisedProcess(spec.command, self._environment | silence, spec.descriptors)
        except OSError as error:
            logger.error("%s cannot be started: %s.", spec.id, error.strerror)
            self._events.put_nowait(Exit(spec.id, NOT_STARTED))
        else:
            logger.info("%s: process %s has started.", spec.id, self._processes[spec.id].pid)

    def _reap(self) -> None:
        self._read_notifications()
        ids = {process.pid: id for id, process in self._processes.items()}
        while found := ended_processes():
            for pid in found:
                if (id := ids.get(pid)) is None:
                    os.waitpid(pid, 0)
                    continue
                status = self._processes.pop(id).reap()
                logger.info("%s: process %s has ended with status %s.", id, pid, status)
                self._events.put_nowait(Exit(id, status))
                if (worker := self._workers.pop(id, None)) is not None and self._worker_ended is not None:
                    self._spawn(self._worker_ended(worker, f"process {pid} has ended"))

    def _spawn(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _read_notifications(self) -> None:
        ids = {process.pid: id for id, process in self._processes.items()}
        while (found := self._receiver.receive()) is not None:
            if (id := ids.get(found.pid)) is None:
                continue
            if WORKER in found.lines:
                self._workers[id] = found.lines[WORKER]
            if found.lines.get("READY") == "1":
                self._events.put_nowait(Ready(id))
            elif found.lines.get("WATCHDOG") == "1":
                self._events.put_nowait(SignOfLife(id))
            else:
                self._dirty.set()

    async def _record_changes(self) -> None:
        is_ready = False
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            self._notifier.send()  # what could not be sent before
            report = self.report()
            if report == self._shown:
                continue
            self._shown = report
            running = sum(one.phase is Phase.RUNNING for one in self.state.children.values())
            self._notifier.send(STATUS=f"{running} of {len(self.state.children)} processes run")
            if not is_ready and all(one.ready for one in self.state.children.values()):
                is_ready = True
                self._notifier.send(READY=1)
            if self._changed is not None:
                await self._changed(report)

    def report(self) -> ChildReport:
        """The tree as it is now."""
        return self._report(self.state.tree)

    def _report(self, spec: Spec) -> ChildReport:
        if isinstance(spec, GroupSpec):
            children = [self._report(child) for child in spec.children]
            states = {child.state for child in children}
            state = states.pop() if len(states) == 1 else "mixed"
            return ChildReport(spec.id, state, strategy=spec.strategy, children=children)
        one, process = self.state.children[spec.id], self._processes.get(spec.id)
        state = "starting" if one.phase is Phase.RUNNING and not one.ready else str(one.phase)
        return ChildReport(
            spec.id, state, process.pid if process else None, self._workers.get(spec.id),
            one.restarts, one.last_exit,
        )  # fmt: skip
