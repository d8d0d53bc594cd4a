"""Late outcomes: outcomes that could not be written when they were known.

    late      the act has ended, its outcome is known in this process only, and the store could not take it
    written   the outcome is committed, fenced by its attempt; only then is it no longer late

One thread of each runtime writes them. It starts with the first late outcome, tries again until the store is back, and
needs no lease: by then another worker may hold the session, or the session may wait for a person's verdict on this very
effect. A run of the session also writes them first (`write_late_outcomes`). An outcome that the store refuses for
another reason is logged and kept, and delays nothing else: recovery then treats the outcome as unknown, as it does when
the process dies with a late outcome.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import TYPE_CHECKING

from perdure.errors import NotFound, StoreError, StoreUnavailable
from perdure.runtime.ledger import leases
from perdure.runtime.ledger.attempt_registry import LATE, REFUSED, WRITERS, AttemptKey
from perdure.runtime.run.lineage import wake_branches
from perdure.store.moves import effect as effects
from perdure.store.moves import session as sessions

if TYPE_CHECKING:
    from perdure.runtime.runtime import Runtime

logger = logging.getLogger(__name__)
SOON, LATER = 0.02, 1.0  # seconds between two tries: the first, and the longest
_writing: set[AttemptKey] = set()  # by one thread at a time
_lock = threading.Lock()


async def write_late_outcomes(runtime: Runtime, uid: str, by: str) -> bool:
    """Write the late outcomes of a session; returns whether there were any."""
    due = [attempt for attempt in list(LATE) if attempt[0] == uid and attempt not in REFUSED]
    for attempt in due:
        while not _begin(attempt):  # noqa: ASYNC110 - another thread is writing it
            await asyncio.sleep(SOON)
        try:
            await _write(runtime, attempt, by)
        except StoreError:
            raise
        except Exception:
            REFUSED.add(attempt)
            logger.exception("The outcome of effect %s, attempt %s, cannot be written.", attempt[1], attempt[2])
        finally:
            _writing.discard(attempt)
    return bool(due)


async def _write(runtime: Runtime, attempt: AttemptKey, by: str) -> None:
    uid, id, number = attempt
    if (entry := LATE.get(attempt)) is None:
        return
    known, retry = entry
    kept = await runtime.values.keep(uid, by, known)
    settled = await runtime.store.write(effects.settle(uid, by, id, number, kept, retry=retry))
    LATE.pop(attempt, None)
    logger.info("Session %s: the outcome of effect %s, attempt %s, is written now.", uid, id, number)
    await wake_branches(runtime.store, settled, by)
    if settled.leases:
        await leases.wake_waiting(runtime.store, by)


def _begin(attempt: AttemptKey) -> bool:
    with _lock:
        if attempt in _writing:
            return False
        _writing.add(attempt)
        return True


class LateOutcomeWriter:
    """Writes the late outcomes of one store's sessions, as soon as the store can take them."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._foreign: set[str] = set()  # sessions of other stores that this process has open
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        WRITERS.add(self)
        if LATE:  # since an earlier runtime of this process
            self.wake()

    def wake(self) -> None:
        """There is a new late outcome."""
        self._wake.set()
        with self._lock:
            if self._thread is None and not self._stop.is_set():
                self._thread = threading.Thread(target=self._work, name="perdure-late-outcomes", daemon=True)
                self._thread.start()

    def _work(self) -> None:
        pause = SOON
        while not self._stop.is_set():
            self._wake.clear()
            if self._try():
                if not self._stop.is_set():  # otherwise the wake-up of `close` may have been cleared just now
                    self._wake.wait()
                pause = SOON
            else:
                self._stop.wait(pause)
                pause = min(pause * 2, LATER)
        self._try()

    def _try(self) -> bool:
        try:
            return self.write_all()
        except Exception:
            logger.exception("Late outcomes of this process could not be written; the next try is soon.")
            return False

    def write_all(self) -> bool:
        """Try once to write every late outcome; False if one must be tried again."""
        written = True
        for uid in {attempt[0] for attempt in list(LATE) if attempt not in REFUSED} - self._foreign:
            try:
                self._runtime.store.read_now(sessions.get, uid)
                asyncio.run(write_late_outcomes(self._runtime, uid, self._name))
            except NotFound:
                self._foreign.add(uid)
            except StoreUnavailable:
                logger.debug("Outcomes of effects wait for the store.")
                return False
            except StoreError:  # of this session: a damaged row does not block the others
                written = False
        return written

    @property
    def _name(self) -> str:
        return self._runtime.worker.name if self._runtime.is_worker else self._runtime.by

    def close(self) -> None:
        """Stop, after one more try if there is a late outcome."""
        self._stop.set()
        self._wake.set()
        WRITERS.discard(self)
        with self._lock:  # held by the caller that starts the thread, until it has started
            thread = self._thread
        if thread is not None:
            thread.join()
