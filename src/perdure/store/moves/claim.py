"""The claim: a worker takes several ready sessions in one transaction.

    adopt      sessions that this claim took already: its answer was lost, and the worker asks again with its nonce
    sources    the (queue, program, pinned version) that have ready sessions, in steps along the index
    limits     the rows of queues with limits are locked in the order of their names; what is in use is counted after
    promote    sessions that waited for a slot of their key are ready again, as many as there are slots
    take       the next sessions along the index: lease and event; one whose key is in use waits for a slot

A claim is the one move that changes several sessions. It never waits for a session's row: rows that another process
holds are skipped. It waits only for the rows of queues with limits, and all claims lock them in the same order.

What is in use is the number of running sessions, so a crash cannot leak a slot. It is counted by a statement that
begins after the row of the queue was locked: on PostgreSQL it sees every claim that was committed before.

Sessions that must run alone (`suspected_at`) are taken one at a time, by a worker that runs nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from heapq import heappop, heappush
from typing import Any

import msgspec

from perdure.domain.lease import Holder, next_epoch
from perdure.domain.queue import Queue
from perdure.domain.session import Status
from perdure.ids import check_name
from perdure.store.invocation import described
from perdure.store.move import Log, Move, StoreTransaction, next_event, note_requests
from perdure.store.moves.claim_limits import RETRY, Candidate, QueueLimits, Source
from perdure.store.moves.claim_slots import end_slot_wait, give_slot, wait_for_slot

SOURCES = ("claim.suspect_sources", "claim.sources")
MOVED = 4  # sessions that wait for a slot after one claim, for each that it may take


class ClaimRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker asks for."""

    worker: str  # the name of the holder
    nonce: str  # of this claim; the same again is the same claim
    is_first: bool = False  # this nonce was never used before, so there is nothing to adopt
    programs: frozenset[str]  # whose code it has
    limit: int  # sessions that it has places for
    ttl: int
    queues: frozenset[str] | None = None  # None: all
    code_version: str | None = None
    is_idle: bool = True  # it runs nothing: only then it takes a session that must run alone
    takes_suspect: bool = False  # it takes one although it runs others, because none was taken for long
    skip: Mapping[str, int | None] = {}  # sessions that it does not want, and where their logs end; None: anywhere
    alone: Sequence[str] = ()  # sessions that it runs and that are marked as alone
    rotation: int = 0  # which queue comes first among equals


class Claim(msgspec.Struct, frozen=True):
    """What a worker got."""

    holders: tuple[Holder, ...] = ()
    wake_at: int | None = None  # when it is worth asking again, although nothing becomes ready: a rate, or full queues
    is_alone: bool = False  # it got a session that must run alone
    suspected_since: int | None = None  # since when a session waits that must run alone
    shared: tuple[str, ...] = ()  # the sessions that are no longer marked as alone


@described
def claim(request: ClaimRequest) -> Move[Claim]:
    """Take ready sessions, up to the limit. Repeating it with the same nonce returns what was taken."""
    check_name("The worker", request.worker)
    check_name("The claim's nonce", request.nonce)
    return Move("claim.claim", "plain", lambda tx: _Claiming(tx, request).run())


class _Claiming:
    """One claim in one transaction."""

    def __init__(self, tx: StoreTransaction, request: ClaimRequest) -> None:
        self._tx = tx
        self._request = request
        self._holders: list[Holder] = []
        self._taken: Counter[str] = Counter()
        self._moved = 0
        self._shared: list[str] = []
        self._has_suspect = False
        self._suspected_since: int | None = None
        self._limits: dict[str, QueueLimits] = {}
        self._promoted: dict[str, str] = {}  # the queues of sessions that got a slot and are not taken yet

    def run(self) -> Claim:
        if not self._request.is_first and (adopted := self._adopt()) is not None:
            return adopted
        _, *found, queues = self._tx.all_of("claim.use_indexes", *SOURCES, "claim.slot_queues")
        suspects, sources = map(self._sources, found)
        slots = [name for (name,) in queues if self._is_announced(name)]
        for name in sorted({*slots, *(queue for queue, _, _ in suspects + sources)}):
            self._limits[name] = self._lock(name)
        if sum(self._promote(name) for name in slots):
            suspects, sources = map(self._sources, self._tx.all_of(*SOURCES))
        self._take_suspect(suspects)
        if not self._holders:
            self._take_regular(sources)
        for name, limits in self._limits.items():
            limits.close(self._taken[name])
        for name in sorted(set(self._promoted.values())):
            self._tx.wake(name)  # this worker has no place for them, or not their code
        wakes = [one.wake_at for one in self._limits.values() if one.wake_at is not None and one.free <= 0]
        if self._moved >= MOVED * self._request.limit:
            wakes.append(self._tx.now)
        if slots:
            wakes.append(self._tx.now + RETRY)
        since, shared = self._suspected_since, tuple(self._shared)
        return Claim(tuple(self._holders), min(wakes, default=None), self._has_suspect, since, shared)

    def _adopt(self) -> Claim | None:
        """What this claim took before its answer was lost. Its leases begin again."""
        rows = [Candidate(*row) for row in self._tx.all("claim.adopt", nonce=self._request.nonce)]
        for one in rows:
            until = self._tx.now + self._request.ttl
            self._tx.send("session.renew", uid=one.uid, epoch=one.lease_epoch, nonce=self._request.nonce, until=until)
            holder = self._holder(one, one.lease_epoch, one.cursor, one.chain)
            holder.alone = one.lease_alone == 1
            row = self._tx.one("queue.get", name=one.queue)  # not locked: claims lock queues before sessions
            holder.is_limited = row is not None and Queue.from_row(row).limits_claims
        if not rows:
            return None
        is_alone = len(rows) == 1 and rows[0].suspected_at is not None
        return Claim(tuple(self._holders), self._tx.now, is_alone)

    def _is_announced(self, queue: str) -> bool:
        return self._request.queues is None or queue in self._request.queues

    def _sources(self, rows: Sequence[Sequence[Any]]) -> list[tuple[str, str, str]]:
        """The sources that this worker may take from: its queues and programs, and sessions pinned to its code."""
        versions = ("", self._request.code_version)
        return [
            (queue, program, version)
            for queue, program, version in rows
            if self._is_announced(queue)
            and program in self._request.programs
            and version in versions
            and (not self._limits or queue in self._limits)  # it is not locked if it appeared meanwhile
        ]

    def _lock(self, name: str) -> QueueLimits:
        row = self._tx.one("claim.lock_limits", name=name)
        limits = Queue.from_row(row) if row else None
        return QueueLimits(self._tx, name, limits, self._request.limit, self._request.worker)

    def _promote(self, queue: str) -> int:
        """Make sessions ready that waited for a slot, as many of each key as there are slots; returns how many."""
        limits, promoted = self._limits[queue], 0
        keys = self._tx.all("claim.slot_keys", queue=queue) if limits.free > 0 else []
        for (key,) in keys:
            free = limits.free_of_key(key)
            rows = self._tx.all("claim.slot_waiters", queue=queue, key=key, limit=free) if free > 0 else []
            for row in rows:
                one = Candidate(*row)
                give_slot(self._tx, one, self._request.worker)
                self._promoted[one.uid] = queue
                promoted += 1
        return promoted

    def _take_suspect(self, sources: list[tuple[str, str, str]]) -> None:
        """Take one session that must run alone, if this worker runs nothing; else note since when one waits."""
        size = 1 + len(self._request.skip)
        for queue, program, version in sources:
            if self._limits[queue].free <= 0:
                continue
            for row in self._tx.all("claim.suspects", queue=queue, program=program, version=version, limit=size):
                one = Candidate(*row)
                if self._is_skipped(one) or self._must_wait(one):
                    continue
                if self._request.is_idle or self._request.takes_suspect:
                    self._take(one, is_suspect=True)
                    self._has_suspect = True
                    return
                self._suspected_since = min(self._suspected_since or 2**62, one.suspected_at or 0)
                break

    def _take_regular(self, sources: list[tuple[str, str, str]]) -> None:
        """Take sessions in order: by priority, then the queues in turn, and in each queue by turn."""
        if not sources:
            return
        names = sorted({queue for queue, _, _ in sources})
        rank = {name: (place - self._request.rotation) % len(names) for place, name in enumerate(names)}
        size = -(-self._request.limit // len(sources))
        heap: list[tuple[tuple[int, int, int, int, str], int, Candidate]] = []
        free = {name: limits.free for name, limits in self._limits.items()}
        open_ = [Source(self._tx, *one, min(size, free[one[0]])) for one in sources if free[one[0]] > 0]

        def push(place: int) -> None:
            source = open_[place]
            if self._limits[source.queue].free > 0 and (one := source.next(self._is_skipped)) is not None:
                order = (-one.priority, self._taken[one.queue], rank[one.queue], one.turn, one.uid)
                heappush(heap, (order, place, one))

        for place in range(len(open_)):
            push(place)
        while heap and len(self._holders) < self._request.limit and self._moved < MOVED * self._request.limit:
            order, place, one = heappop(heap)
            if self._limits[one.queue].free <= 0:
                continue
            if order[1] != self._taken[one.queue]:  # its queue has had a turn meanwhile
                heappush(heap, ((order[0], self._taken[one.queue], *order[2:]), place, one))
                continue
            if not self._must_wait(one):
                self._take(one)
            push(place)
        left = {one.queue for _, _, one in heap} | {source.queue for source in open_ if source.has_more}
        for queue in sorted(left):
            self._tx.wake(queue)  # other workers skipped these sessions while this transaction held their rows

    def _is_skipped(self, one: Candidate) -> bool:
        return one.uid in self._request.skip and self._request.skip[one.uid] in (None, one.cursor)

    def _must_wait(self, one: Candidate) -> bool:
        """Whether other sessions of its key use all slots; then it waits for one."""
        limits = self._limits[one.queue]
        if one.concurrency_key is None or limits.row is None or limits.row.per_key is None:
            return False
        if limits.free_of_key(one.concurrency_key) > 0:
            return False
        wait_for_slot(self._tx, one, self._request.worker)
        self._moved += 1
        self._promoted.pop(one.uid, None)
        return True

    def _take(self, one: Candidate, *, is_suspect: bool = False) -> None:
        """Lease a session to the worker."""
        tx, request = self._tx, self._request
        epoch = next_epoch(one.lease_epoch, tx.restore_epoch)
        log = Log(tx, one, request.worker)
        if one.concurrency_key is not None:  # an answer to another wait may have made it ready before it got a slot
            end_slot_wait(log)
        columns: dict[str, Any] = {"status": Status.RUNNING, "waiting_since": None}
        version = request.code_version if one.lease_epoch == 0 else None  # it begins only once
        columns |= {"code_version": version} if one.code_version is None and version is not None else {}
        body = {"epoch": epoch, "from": None, "because": None, "rows": {"session": columns}}
        line = next_event(one.uid, log.cursor, log.chain, "lease.acquired", request.worker, tx.now, tx.move_id, body)
        tx.send("event.insert", **line)
        is_alone = is_suspect or (request.is_idle and not self._holders)
        tx.send(
            "claim.take",
            uid=one.uid, holder=request.worker, nonce=request.nonce, epoch=epoch, until=tx.now + request.ttl,
            alone=int(is_alone), code_version=version, cursor=line["number"], chain=line["chain"],
            now=tx.now,
        )  # fmt: skip
        tx.appended.append((one.uid, line["number"]))
        tx.touched.add(one.uid)
        if not self._holders:
            self._share(request.alone)
        elif self._holders[0].alone:
            self._share([self._holders[0].uid])
        holder = self._holder(one, epoch, line["number"], line["chain"])
        holder.alone = is_alone
        limits = self._limits[one.queue]
        holder.is_limited = limits.row is not None
        limits.take(one)
        self._taken[one.queue] += 1
        self._promoted.pop(one.uid, None)

    def _share(self, uids: Collection[str]) -> None:
        """The worker no longer runs only one session. A row that another move holds is left for the next claim."""
        for uid in uids:
            if any(holder.uid == uid for holder in self._holders) or self._tx.one("session.lock_free", uid=uid):
                self._tx.send("claim.share", uid=uid, holder=self._request.worker)
                self._shared.append(uid)
        for holder in self._holders:
            holder.alone = False

    def _holder(self, one: Candidate, epoch: int, cursor: int, chain: str) -> Holder:
        holder = Holder(one.uid, self._request.worker, self._request.nonce, epoch, cursor, chain)
        holder.ttl = self._request.ttl
        holder.program = one.program
        holder.is_claimed = True
        note_requests(holder, one)
        self._holders.append(holder)
        return holder
