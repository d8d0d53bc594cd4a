"""The sessions that a worker runs at a time: one task each.

Crash containment. A session whose last worker died may end this one too. It is taken by a worker that runs nothing, and
runs alone until it has made progress, or for `ALONE` seconds, so that it cannot take other sessions down with it. If it
waits longer than `PATIENCE` for such a worker, a busy one takes it, and nothing more until it has made progress. It
is the first to blame then. Otherwise the long sessions of a dead worker would run one after another, each to its end.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Literal

import msgspec

from perdure.domain.lease import Holder
from perdure.domain.session import TERMINAL, SessionRecord, Status
from perdure.domain.wait import Wait, WaitKind
from perdure.domain.worker import Liveness
from perdure.errors import LeaseHeld, LeaseLost, ProgramChanged, StoreFull, StoreUnavailable
from perdure.ids import new_uid, random_fraction
from perdure.runtime.definitions.program import PROGRAMS
from perdure.runtime.ledger.attempt_registry import ACTING
from perdure.runtime.run.session_lease import claim
from perdure.runtime.runtime import Runtime
from perdure.runtime.workers.family import Entry, entry, runnable_family
from perdure.store.move import StoreTransaction
from perdure.store.moves import lease, wait
from perdure.store.moves import session as sessions
from perdure.store.moves import worker as worker_rows
from perdure.store.moves.claim import Claim, ClaimRequest
from perdure.store.moves.claim_limits import is_possible
from perdure.store.topics import queue_topics
from perdure.store.writer.wakeup import IDLE_POLL

logger = logging.getLogger(__name__)
POLL = 1.0  # seconds between two claims while a session that runs here, or could, depends on the time
ALONE = 60.0  # seconds that a session whose worker died runs alone, unless it makes progress earlier
PATIENCE = 10.0  # seconds that such a session waits for a worker that runs nothing
FAILED_FOR = 60.0  # seconds before a session that could not be run here is tried again, if it has changed


class WorkerNotice(msgspec.Struct, frozen=True):
    """What a worker reports while it runs. Fields that do not belong to its type are None."""

    type: Literal["worker.waiting", "worker.idle", "worker.left", "worker.failed"]
    session: str | None = None
    status: str | None = None
    error: Exception | None = None
    next_due: int | None = None  # when the next timer is due, in microseconds


class SessionTasks:
    """Starts sessions up to a limit. `only` is the uid of the one session that it is for, with its descendants."""

    def __init__(
        self,
        runtime: Runtime,
        only: str | None,
        concurrency: int,
        notify: Callable[[WorkerNotice], None],
        queues: frozenset[str] | None = None,
    ) -> None:
        self.failed = False  # whether a session could not be run here
        self.given_back = 0  # how many sessions were stopped before they had finished or waited
        self.running: dict[str, asyncio.Task[None]] = {}
        self.failed_at_cursor: dict[str, int] = {}  # where a session stood when it could not be run here
        self.wake_at: int | None = None  # when another claim may take more, although nothing becomes ready
        self._runtime = runtime
        self._only = only
        self._concurrency = concurrency
        self._notify = notify
        self._queues = queues
        self._failed_since: dict[str, int] = {}
        self._may_have_work = True  # since the last claim something ended here, or that claim found something
        self._seen = -1  # the version of the wake-ups before the last claim
        self._nonce: str | None = None  # of a claim whose answer has not arrived
        self._rotation = 0
        self._suspect: Holder | None = None  # the session that runs alone, because its last worker died
        self._suspect_from = (0, 0)  # the event with which it was taken, and when
        self._suspected_since: int | None = None  # since when such a session waits for a worker that runs nothing
        self._patience = int(PATIENCE * (1 + random_fraction()) * 1_000_000)  # not all workers stop for one session
        self._store_failed_at: int | None = None  # when the store last failed a session that ran here

    @property
    def suspect(self) -> str | None:
        """The uid of the session that runs alone: its progress lets others begin."""
        return None if self._suspect is None else self._suspect.uid

    @property
    def poll(self) -> float:
        """How many seconds the worker may wait before it claims again, if no wake-up reports new work."""
        is_timed = self._only is not None or self._suspect is not None or self._suspected_since is not None
        return POLL if is_timed or self.is_recovering() else IDLE_POLL

    def is_recovering(self) -> bool:
        """Whether a session that the store failed may still be leased to this process."""
        longest = max(self._runtime.heartbeat.ttl / 1_000_000, 2 * POLL)
        return self._store_failed_at is not None and not self.is_past(self._store_failed_at, longest)

    def is_past(self, since: int, seconds: float) -> bool:
        """Whether so many seconds have passed since a time of the boot clock."""
        return self._runtime.store.clock.boot() - since >= seconds * 1_000_000

    def forget_ended(self) -> None:
        self._may_have_work |= any(task.done() for task in self.running.values())
        self.running = {uid: task for uid, task in self.running.items() if not task.done()}

    async def stop(self) -> None:
        """Give the sessions back; an attempt that was dispatched is awaited."""
        for task in self.running.values():
            self.given_back += task.cancel()
        await asyncio.gather(*self.running.values(), return_exceptions=True)

    async def start(self) -> None:
        """Start the next sessions, up to the concurrency limit."""
        self.forget_ended()
        self.wake_at = None
        if self._only is not None:
            await self._start_family(self._only)
            return
        places = self._concurrency - len(self.running)
        if places <= 0 or await self._runs_alone() or not await self._may_claim():
            return
        await self._start_claimed(places)

    async def _may_claim(self) -> bool:
        """Whether a claim may take anything: after a wake-up, and when a session has ended here; else the store is
        asked, with one statement."""
        store, topics = self._runtime.store, queue_topics(self._queues)
        version = store.wakeups.version
        if any(store.wakeups.has_changed(self._seen, one) for one in topics):
            self._may_have_work = True  # until a claim has succeeded
        self._seen = version
        return self._may_have_work or await store.read(is_possible)

    async def _start_claimed(self, places: int) -> None:
        is_first, self._nonce = self._nonce is None, self._nonce or new_uid()
        claimed = await claim(self._runtime, self._request(self._nonce, places, is_first=is_first))
        self._nonce, self.wake_at = None, claimed.wake_at
        self._rotation += 1
        self._note(claimed)
        self._may_have_work = bool(claimed.holders) or claimed.wake_at is not None
        for holder in claimed.holders:
            self._begin(holder.uid, self._run_claimed(holder))

    def _request(self, nonce: str, places: int, *, is_first: bool) -> ClaimRequest:
        held = self._runtime.heartbeat.held
        suspect = None if self._suspect is None else self._suspect.uid
        return ClaimRequest(
            worker=self._runtime.worker.name,
            nonce=nonce,
            is_first=is_first,
            programs=frozenset(PROGRAMS),
            limit=places,
            ttl=self._runtime.heartbeat.ttl,
            queues=self._queues,
            code_version=self._runtime.worker.code_version,
            is_idle=not self.running,
            takes_suspect=self._takes_suspect(),
            skip=self._skipped(),
            alone=[holder.uid for holder in held if holder.alone and holder.uid != suspect],
            rotation=self._rotation,
        )

    def _skipped(self) -> dict[str, int | None]:
        """Sessions that are not run here: those that failed and have not changed, and those of acts under way."""
        skipped: dict[str, int | None] = dict(self.failed_at_cursor)
        skipped |= {uid: None for uid, at in self._failed_since.items() if not self.is_past(at, FAILED_FOR)}
        return skipped | {attempt[0]: None for attempt in list(ACTING)}

    def _takes_suspect(self) -> bool:
        """Whether a session that must run alone has waited so long that it begins beside those that run here."""
        since, now = self._suspected_since, self._runtime.store.clock.now()
        return bool(self.running) and since is not None and now - since > self._patience

    def _note(self, claimed: Claim) -> None:
        self._suspected_since = claimed.suspected_since
        for holder in self._runtime.heartbeat.held:
            if holder.uid in claimed.shared:
                holder.alone = False
        if claimed.is_alone:
            (holder,) = claimed.holders
            logger.info("Session %s: its last worker died, so it runs alone at first.", holder.uid)
            self._suspect, self._suspect_from = holder, (holder.cursor, self._runtime.store.clock.boot())

    async def _runs_alone(self) -> bool:
        """Whether a session that may end this worker was started and has made no progress yet."""
        one, (after, since) = self._suspect, self._suspect_from
        if one is None or one.uid not in self.running:
            self._suspect = None
            return False
        if self.is_past(since, ALONE):  # it stays marked as alone: it is the first to blame
            return False
        if one.cursor > after and await self._runtime.store.read(lease.has_progress, one.uid, after, one.name):
            self._suspect = None
        return self._suspect is not None

    async def _start_family(self, uid: str) -> None:
        """Start the one session and its descendants, each if no other process runs it."""
        store = self._runtime.store
        rows = await store.read(worker_rows.listing)
        dead = {one.id for one in rows if self._runtime.worker.life(one) is Liveness.DEAD}
        for one in await store.read(
            runnable_family, uid, dead, self._runtime.policy.is_given, self._runtime.worker.code_version
        ):
            if len(self.running) >= self._concurrency:
                return
            if one.uid not in self.running and self._may_try(one):
                self._begin(one.uid, self._run_member(one))

    def _may_try(self, one: Entry) -> bool:
        failed = self._failed_since.get(one.uid)
        return self.failed_at_cursor.get(one.uid) != one.cursor and (failed is None or self.is_past(failed, POLL))

    def _begin(self, uid: str, run: Coroutine[Any, Any, None]) -> None:
        self.running[uid] = asyncio.ensure_future(run)

    async def _run_claimed(self, holder: Holder) -> None:
        try:
            await self._runtime.driver.run_claimed(holder)
            left = await self._runtime.store.read(_left, holder.uid)
        except Exception as error:
            await self._note_failure(holder.uid, error)
            return
        self._note_left(*left)

    async def _run_member(self, one: Entry) -> None:
        try:
            view = await self._runtime.run(one.uid)
        except Exception as error:
            await self._note_failure(one.uid, error)
            return
        self._note_left(view, view.waits)

    def _note_left(self, session: SessionRecord, waits: Sequence[Wait]) -> None:
        """A session has ended or waits. One that waits for another worker is left to that one for some time."""
        if any(one.versions_tried or one.kind == WaitKind.WORKSPACE for one in waits):
            self._failed_since[session.uid] = self._runtime.store.clock.boot()
        self._notify(WorkerNotice("worker.left", session=session.id, status=session.status))

    async def _note_failure(self, uid: str, error: Exception) -> None:
        """A session that cannot be run must not block the others."""
        if isinstance(error, LeaseHeld | LeaseLost):
            logger.info("Session %s: it is not run here [%s].", uid, error.code)
            if self._only is not None:
                self._failed_since[uid] = self._runtime.store.clock.boot()
            return
        if isinstance(error, StoreUnavailable | StoreFull):
            self._store_failed_at = self._runtime.store.clock.boot()  # late outcomes are written when the store is back
            return
        if isinstance(error, ProgramChanged) and (view := await self._runtime.get(uid)).status == Status.WAITING:
            self._note_left(view, view.waits)  # it was handed back
            return
        self._failed_since[uid] = self._runtime.store.clock.boot()
        now = await self._runtime.store.read(entry, uid)
        if now is not None:
            self.failed_at_cursor[uid] = now.cursor
        self.failed = True
        logger.info("Session %s: it cannot be run here (%s).", uid, type(error).__name__)
        name = uid if now is None else now.id
        self._notify(WorkerNotice("worker.failed", session=name, error=error))


def _left(tx: StoreTransaction, uid: str) -> tuple[SessionRecord, list[Wait]]:
    """A session after a run, and what it waits for."""
    found = sessions.get(tx, uid)
    return found, [] if found.status in TERMINAL else wait.open_of_session(tx, uid)
