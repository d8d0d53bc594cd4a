"""The payer: writes down what is known and could not be written when it came.

    owed      the act has ended, its outcome is known in this process only, and the store could not take it
    paid      the outcome is committed, fenced by its attempt; only then is it no longer owed

One thread per runtime owns these debts. It begins when there is one, tries again and again until the store is back, and
needs no lease: another worker may hold the session by then, or it may wait for a person's word on this very effect.
A run of the session pays first too (`pay`). What the store refuses for another reason is logged, kept, and holds up
nothing else: recovery then treats the outcome as unknown, as it does when the process dies with a debt.
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
_writing: set[AttemptKey] = set()  # by one payer at a time
_lock = threading.Lock()


async def write_late_outcomes(runtime: Runtime, uid: str, by: str) -> bool:
    """Write down what is owed to a session; say whether there was anything."""
    due = [owed for owed in list(LATE) if owed[0] == uid and owed not in REFUSED]
    for owed in due:
        while not _begin(owed):  # noqa: ASYNC110 - another thread writes it just now
            await asyncio.sleep(SOON)
        try:
            await _write(runtime, owed, by)
        except StoreError:
            raise
        except Exception:
            REFUSED.add(owed)
            logger.exception("The outcome of effect %s, attempt %s, cannot be written.", owed[1], owed[2])
        finally:
            _writing.discard(owed)
    return bool(due)


async def _write(runtime: Runtime, owed: AttemptKey, by: str) -> None:
    uid, id, number = owed
    if (debt := LATE.get(owed)) is None:
        return
    known, retry = debt
    kept = await runtime.values.keep(uid, by, known)
    settled = await runtime.store.write(effects.settle(uid, by, id, number, kept, retry=retry))
    LATE.pop(owed, None)
    logger.info("Session %s: the outcome of effect %s, attempt %s, is written now.", uid, id, number)
    await wake_branches(runtime.store, settled, by)
    if settled.leases:
        await leases.wake_waiting(runtime.store, by)


def _begin(owed: AttemptKey) -> bool:
    with _lock:
        if owed in _writing:
            return False
        _writing.add(owed)
        return True


class LateOutcomeWriter:
    """Pays what this process owes to the sessions of one store, as soon as it can."""

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
        """There is a new debt."""
        self._wake.set()
        with self._lock:
            if self._thread is None and not self._stop.is_set():
                self._thread = threading.Thread(target=self._work, name="perdure-payer", daemon=True)
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
            logger.exception("What this process owes to its sessions could not be written; it is tried again.")
            return False

    def write_all(self) -> bool:
        """Try once to pay everything; False if something must be tried again."""
        paid = True
        for uid in {owed[0] for owed in list(LATE) if owed not in REFUSED} - self._foreign:
            try:
                self._runtime.store.read_now(sessions.get, uid)
                asyncio.run(write_late_outcomes(self._runtime, uid, self._name))
            except NotFound:
                self._foreign.add(uid)
            except StoreUnavailable:
                logger.debug("Outcomes of effects wait for the store.")
                return False
            except StoreError:  # of this session: a damaged row keeps nothing else from being paid
                paid = False
        return paid

    @property
    def _name(self) -> str:
        return self._runtime.worker.name if self._runtime.is_worker else self._runtime.by

    def close(self) -> None:
        """Stop, after one more try if something is owed."""
        self._stop.set()
        self._wake.set()
        WRITERS.discard(self)
        with self._lock:  # whoever starts the thread holds it until the thread has started
            thread = self._thread
        if thread is not None:
            thread.join()
