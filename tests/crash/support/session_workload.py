"""The workload of the kill sweeps: one session with every kind of move, one after another.

With a manual clock, fixed nonces and fixed texts it leaves the same rows every time, apart from uids and salts. So all
runs are compared with one undisturbed run: `session_rows` shows everything a store holds of the session after each
move, and a run that was killed must leave exactly what was there after its last acknowledged move, or after the one
that was under way.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import msgspec

from perdure.artifacts.directory import Directory, directory_of
from perdure.domain.artifact import Retention
from perdure.domain.fact import private_scope
from perdure.domain.inbox import InboxMode
from perdure.domain.lease import Holder, Lease
from perdure.domain.record import Record
from perdure.domain.session import SessionRecord, Status
from perdure.domain.task import TaskState
from perdure.domain.wait import WaitKind
from perdure.domain.worker import WorkerRecord
from perdure.errors import NotFound
from perdure.ids import encode
from perdure.store import statements
from perdure.store.databases.sqlite.database import SQLiteMigrator
from perdure.store.databases.sqlite.engine import SQLiteEngine, connect
from perdure.store.migrate import load, migrate
from perdure.store.move import Move, StoreTransaction
from perdure.store.moves import (
    artifact,
    checkpoint,
    decision,
    event,
    fact,
    inbox,
    lease,
    message,
    session,
    session_end,
    step,
    task,
    wait,
    worker,
)
from perdure.store.store import Store
from perdure.testing import ManualClock

TTL = 30_000_000
START = ManualClock().now()
PAGES = "several pages of text " * 800  # a move that needs more than one page of the database
BYTES = b"bytes of an artifact " * 400
INBOX = ("m-1", "m-2")


class WorkloadSession:
    """The session of the workload: the store, and what its worker knows."""

    def __init__(self, store: Store, id: str, directory: Directory) -> None:
        self.store = store
        self.id = id
        self.directory = directory
        self.uid = ""
        self._holder: Holder | None = None
        self._lease: Lease | None = None

    @property
    def holder(self) -> Holder:
        assert self._holder is not None
        return self._holder

    @property
    def scope(self) -> str:
        return private_scope(self.uid)

    def create(self) -> Move[SessionRecord]:
        owner = f"owner-{self.id}"  # each its own: the turn of a session depends on others of its owner
        new = session.NewSession(id=self.id, program="workload", arguments={"n": 1}, owner=owner)
        return session.create(new, by="ada")

    def acquire(self, nonce: str) -> Move[Holder]:
        return lease.acquire(self.uid, "worker-1", nonce=nonce, ttl=TTL)

    def save(self) -> Move[None]:
        digest, size = self.directory.put(BYTES)
        location = f"{digest[:2]}/{digest}"
        return artifact.index(
            self.uid, "worker-1", digest, kind="log", size=size, location=location, retention=Retention.KEEP
        )

    def record(self, name: str) -> Move[int]:
        recorded = step.NewStep(
            restart_number=0, scope="", name=name, argument_digest="d" * 64, occurrence=0, result=encode([name])
        )
        return step.record(self.holder, recorded)

    def take(self) -> Move[Lease]:
        return lease.acquire_named(f"lock-{self.id}", holder="worker-1", nonce="l-1", ttl=TTL)

    @property
    def lock(self) -> Lease:
        assert self._lease is not None
        return self._lease

    def enlist(self) -> Move[None]:
        return worker.register(WorkerRecord(f"worker-{self.id}", "host", "boot", 1, "token", 1, 1, ["workload"], 0, 0))

    def apply(self, move: Callable[[WorkloadSession], Move[Any]]) -> Any:
        """Make one move, and remember its answer."""
        answer = self.store.write_now(move(self))
        match answer:
            case SessionRecord():
                self.uid = answer.uid
            case Holder():
                self._holder = answer
            case Lease():
                self._lease = answer
        return describe_answer(answer, self)


MOVES: dict[str, Callable[[WorkloadSession], Move[Any]]] = {
    "enlist": WorkloadSession.enlist,
    "create": WorkloadSession.create,
    "acquire": lambda work: work.acquire("n-1"),
    "append": lambda work: event.append(work.holder, "message", {"role": "user", "content": "begin"}),
    "step": lambda work: work.record("read"),
    "decide": lambda work: decision.decide(work.holder, "d-1", "comment", because="only style", then="post"),
    "plan": lambda work: task.add(work.holder, "t-1", "review"),
    "plan below": lambda work: task.add(work.holder, "t-2", "tests", parent_id="t-1", priority=2),
    "task": lambda work: task.change(work.holder, "t-2", state=TaskState.ACTIVE, note="half-way"),
    "remember": lambda work: fact.remember(work.uid, "worker-1", work.scope, "api", {"v": 1}, expected=0),
    "verify": lambda work: fact.record_verification(work.uid, "worker-1", work.scope, "api", 1),
    "receive": lambda work: inbox.receive(work.uid, "grace", "m-1", {"text": "also the docs"}, InboxMode.STEER),
    "promote": lambda work: inbox.promote(work.holder),
    "checkpoint": lambda work: checkpoint.put(work.holder, number=4, codec="json", fingerprint="f", body="{}"),
    "renew": lambda work: lease.renew(work.holder, TTL * 2),
    "lock": WorkloadSession.take,
    "keep the lock": lambda work: lease.renew_named(work.lock, ttl=TTL * 2),
    "be seen": lambda work: worker.heartbeat(f"worker-{work.id}"),
    "set a timer": lambda work: wait.open_(work.holder, "w-0", WaitKind.TIMER, due_at=START),
    "fire": lambda work: wait.fire(work.uid, "timer", "w-0"),
    "ask": lambda work: wait.open_(work.holder, "w-1", WaitKind.APPROVAL, ref="a-1", detail={"merge": True}),
    "ask for input": lambda work: wait.open_(work.holder, "w-2", WaitKind.INPUT),
    "park": lambda work: wait.park(work.holder, ["w-1", "w-2"]),
    "answer": lambda work: wait.resolve(work.uid, "grace", "w-1", "yes"),
    "send": lambda work: inbox.receive(work.uid, "grace", "m-2", ["go", "on"]),
    "acquire again": lambda work: work.acquire("n-2"),
    "settle": lambda work: decision.settle(work.holder, "d-1", "commented"),
    "save": WorkloadSession.save,
    "pages": lambda work: event.append(work.holder, "message", {"content": PAGES}),
    "use": lambda work: message.add_usage(work.holder, tokens_in=10, tokens_out=5, cost_micros=7),
    "describe": lambda work: session.describe(work.uid, "ada", expected=1, title="a review", priority=3),
    "remember again": lambda work: fact.remember(work.uid, "worker-1", work.scope, "api", {"v": 2}, expected=1),
    "forget": lambda work: fact.forget(work.uid, "worker-1", work.scope, "api", 2),
    "pause": lambda work: session.request_pause(work.uid, "ada"),
    "unlock": lambda work: lease.release_named(work.lock),
    "release": lambda work: session.release(work.holder),
    "acquire at last": lambda work: work.acquire("n-3"),
    "take over": lambda work: lease.take_over(work.uid, "worker-2", nonce="n-4", ttl=TTL, because="it is dead"),
    "step at last": lambda work: work.record("write"),
    "cancel": lambda work: session_end.cancel(work.uid, "ada"),
    "restart": lambda work: session.restart(work.holder, {"n": 2}),
    "finish": lambda work: session.finish(work.holder, Status.DONE, result={"ok": True}),
}


def folder_of(store: Store, folder: Path) -> Directory:
    return directory_of(store) if store.folder is not None else Directory(folder / "artifacts")


def describe_answer(answer: Any, work: WorkloadSession) -> Any:
    """An answer as JSON that is the same in every run."""
    match answer:
        case SessionRecord():
            return [answer.status, answer.cursor]
        case Holder():
            return [answer.epoch, answer.cursor]
        case Record():
            return plain(answer.to_dict(), work.uid, work.id)
        case list():
            return [describe_answer(one, work) for one in answer]
    return answer


def session_rows(tx: StoreTransaction, id: str) -> dict[str, Any]:
    """Everything a store holds of one session, without what differs between two runs."""
    found: dict[str, Any] = {
        "worker": [row.to_dict() for row in worker.listing(tx, limit=100_000) if row.id == f"worker-{id}"],
        "lease": [row.to_dict() for row in lease.named_leases(tx, limit=100_000) if row.resource == f"lock-{id}"],
    }
    try:
        row = session.get_by_id(tx, id)
    except NotFound:
        return plain(found, "", id)
    uid = row.uid
    kept = checkpoint.latest(tx, uid, "f")
    found |= {
        "session": {k: v for k, v in row.to_dict().items() if k != "chain"},
        "event": [[line.number, line.kind, line.actor, line.at, _nameless(line.body)] for line in event.after(tx, uid)],
        "wait": _all(wait.of_session(tx, uid)),
        "inbox": _all(one for name in INBOX if (one := inbox.get(tx, uid, name))),
        "step": _all(row for number in (0, 1) for row in step.of_session(tx, uid, number)),
        "task": _all(task.of_session(tx, uid)),
        "decision": _all(decision.recent(tx, uid)),
        "fact": _all(fact.listing(tx, private_scope(uid))),
        "artifact": _all(artifact.of_session(tx, uid)),
        "checkpoint": _all([kept] if kept else []),
    }
    return plain(found, uid, id)


def _nameless(body: Any) -> Any:
    """The body of an event without the identity: it is a user here, and a role there."""
    return {name: value for name, value in body.items() if name != "identity"} if isinstance(body, dict) else body


def _all(rows: Any) -> list[dict[str, Any]]:
    return [row.to_dict() for row in rows]


def plain(value: dict[str, Any], uid: str, id: str) -> dict[str, Any]:
    text = msgspec.json.encode(value).decode().replace(f'{id}"', 'ID"')
    return msgspec.json.decode(text.replace(uid, "UID") if uid else text, type=dict[str, Any])


def rehearse() -> None:
    """Run the workload on a connection in memory, in this thread, leaving nothing open: it warms the code."""
    statements.load("postgres")
    for _ in range(3):
        _rehearse()


def _rehearse() -> None:
    clock = ManualClock()
    engine = SQLiteEngine(connect(":memory:"), clock)
    migrate(SQLiteMigrator(engine, None), load("sqlite"))
    with tempfile.TemporaryDirectory() as folder:
        work = WorkloadSession(cast(Store, _DirectStore(engine)), "rehearsal", Directory(Path(folder)))
        for move in MOVES.values():
            work.apply(move)
        session_rows(engine.transaction("look"), work.id)
    engine.close()


class _DirectStore:
    """The part of a store that the workload uses, without the threads of the store."""

    def __init__(self, engine: SQLiteEngine) -> None:
        self._engine = engine

    def write_now(self, move: Move[Any]) -> Any:
        self._engine.begin()
        self._engine.savepoint()
        tx = self._engine.transaction(move.id)
        answer = move.run(tx)
        self._engine.release()
        self._engine.commit()
        for callback in tx.after_commit:
            callback()
        return answer
