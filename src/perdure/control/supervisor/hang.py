"""A worker whose event loop does not turn: a session calls something that blocks, instead of awaiting it.

A thread notices it. What then happens to each session of the worker:

    blocking session   it keeps its lease and continues if it stops blocking. The log names it, with its stack
    other sessions     given back after `limit`, each as soon as no act of it is under way; other workers continue them.
                       If this loop turns again, their runs here find that their leases are gone, and stop
    acts in threads    continue. Each writes its outcome itself when it has ended, because the loop cannot
    acts on the loop   (tools that are coroutines) cannot continue or report while the loop is blocked. Their sessions
                       keep their leases until the worker ends

If the loop still does not turn after ten times the limit, the worker exits with 70 when no act in a thread is under way
and every known outcome is written. Then the sessions that it kept are freed as after any death of a worker: they are
suspects and run alone, so a session that blocks every worker is found by its crash count, and waits for a person.

Signs of life to the process manager are sent by this thread: they mean that the process is in control, also of a hang.
A process that was stopped (SIGSTOP) or a machine that slept is no hang: the thread stood still as well.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

from perdure.clock import SECOND
from perdure.control.supervisor.notification import ManagerNotifier
from perdure.runtime.ledger.attempt_registry import LATE, REFUSED, leave_threads
from perdure.runtime.run.run import Run
from perdure.runtime.runtime import Runtime
from perdure.runtime.session import Session

logger = logging.getLogger(__name__)
EXIT = 10  # how many times the limit a worker stays blocked before it exits
HUNG = 70  # its exit code then
LONGEST_PAUSE = 5.0  # seconds between two looks
STACK = 20  # innermost frames in the log


class HangWatch:
    """Watches the running event loop from a thread: `with HangWatch(...)`. A limit of 0 only sends signs of life."""

    def __init__(
        self, runtime: Runtime, notifier: ManagerNotifier, limit: float, leave: Callable[[int], object] = os._exit
    ) -> None:
        self._runtime = runtime
        self._notifier = notifier
        self._limit = limit
        self._leave = leave
        self._pause = min(
            LONGEST_PAUSE,
            limit / 4 if limit else LONGEST_PAUSE,
            notifier.watchdog / 3 if notifier.watchdog is not None else LONGEST_PAUSE,
        )
        self._turned_at = self._now()
        self._blocked = False
        self._stop = threading.Event()

    def _now(self) -> float:
        return self._runtime.store.clock.boot() / SECOND

    def __enter__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._thread = threading.Thread(target=self._watch, name="perdure-hang-watch", daemon=True)
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _turn(self) -> None:
        self._turned_at = self._now()

    def _watch(self) -> None:
        looked_at = self._now()
        while not self._stop.wait(self._pause):
            now = self._now()
            if now - looked_at > 2 * self._pause + 1.0:  # this thread stood still too
                self._turned_at = now
            looked_at = now
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._turn)
            self._notifier.send_sign()
            if self._limit:
                try:
                    self._judge(now - self._turned_at)
                except Exception:
                    logger.exception("The watch of the event loop failed; it continues.")

    def _judge(self, silent: float) -> None:
        if silent < self._limit:
            if self._blocked:
                logger.warning("The event loop turns again.")
                self._notifier.send(STATUS="running")
            self._blocked = False
            return
        is_acting = leave_threads()
        if not self._blocked:
            self._blocked = True
            self._report(silent)
        self._runtime.heartbeat.give_back_left()
        if silent >= EXIT * self._limit and not is_acting and not set(LATE) - REFUSED:
            logger.error("The event loop has not turned for %.0f s; the worker exits.", silent)
            self._leave(HUNG)

    def _report(self, silent: float) -> None:
        """Name the session that blocks, and give back the others."""
        frame = sys._current_frames().get(self._loop_thread)
        blocking = _session_of(frame)
        given_back = self._runtime.heartbeat.give_up(keeping=None if blocking is None else blocking.session.uid)
        name = "an unknown task" if blocking is None else f"session {blocking.session.id}"
        stack = "".join(traceback.format_stack(frame)[-STACK:]) if frame is not None else ""
        logger.error(
            "%s has blocked the event loop for %.0f s; other sessions are given back (%s).\n%s",
            name, silent, ", ".join(given_back) or "there are none", stack,
        )  # fmt: skip
        self._notifier.send(STATUS=f"blocked by {name}")


def _session_of(frame: FrameType | None) -> Run | None:
    """The run whose code is on a stack: its program has the session as an argument, and our code the run itself."""
    while frame is not None:
        for value in list(frame.f_locals.values()):
            if type(value) is Run:
                return value
            if type(value) is Session:
                return value._run
        frame = frame.f_back
    return None
