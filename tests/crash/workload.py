"""One session's whole life, a move at a time: every kind of move there is, each acknowledged as its answer comes.

With a manual clock, fixed nonces and fixed texts the same life leaves the same rows every time, apart from uids and
salts. So one undisturbed run is the measure of all others: `picture` shows everything a store holds of the life after
each move, and a life that was cut off must look exactly as it did after its last acknowledged move, or after the one
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
from perdure.domain.inbox import Mode
from perdure.domain.lease import Holder, Lease
from perdure.domain.record import Record
from perdure.domain.session import SessionRecord, Status
from perdure.domain.task import TaskState
from perdure.domain.wait import WaitKind
from perdure.domain.worker import Worker
from perdure.errors import NotFound
from perdure.ids import encode
from perdure.store import statements
from perdure.store.databases.sqlite.database import SQLiteMigrator
from perdure.store.databases.sqlite.engine import SQLiteEngine, connect
from perdure.store.migrate import load, migrate
from perdure.store.move import Move, Transaction
from perdure.store.moves import (
    artifact,
    checkpoint,
    decision,
    event,
    fact,
    inbox,
    lease,
    session,
    session_end,
    step,
    task,
    usage,
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


class Life:
    """A session being lived: the store, and what its worker knows."""

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
        return session.create(session.NewSession(id=self.id, program="life", arguments={"n": 1}), by="ada")

    def acquire(self, nonce: str) -> Move[Holder]:
        return lease.acquire(self.uid, "worker-1", nonce=nonce, ttl=TTL)

    def save(self) -> Move[None]:
        digest, size = self.directory.put(BYTES)
        location = f"{digest[:2]}/{digest}"
        return artifact.index(
            self.uid, "worker-1", digest, kind="log", size=size, location=location, retention=Retention.KEEP
        )

    def record(self, name: str) -> Move[int]:
        recorded = step.Recorded(
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
        return worker.register(Worker(f"worker-{self.id}", "host", "boot", 1, "token", 1, 1, ["life"], 0, 0))

    def live(self, move: Callable[[Life], Move[Any]]) -> Any:
        """Make one move, and know what its answer tells."""
        answer = self.store.write_now(move(self))
        match answer:
            case SessionRecord():
                self.uid = answer.uid
            case Holder():
                self._holder = answer
            case Lease():
                self._lease = answer
        return told(answer, self)


MOVES: dict[str, Callable[[Life], Move[Any]]] = {
    "enlist": Life.enlist,
    "create": Life.create,
    "acquire": lambda life: life.acquire("n-1"),
    "append": lambda life: event.append(life.holder, "message", {"role": "user", "content": "begin"}),
    "step": lambda life: life.record("read"),
    "decide": lambda life: decision.decide(life.holder, "d-1", "comment", because="only style", then="post"),
    "plan": lambda life: task.add(life.holder, "t-1", "review"),
    "plan below": lambda life: task.add(life.holder, "t-2", "tests", parent_id="t-1", priority=2),
    "task": lambda life: task.change(life.holder, "t-2", state=TaskState.ACTIVE, note="half-way"),
    "remember": lambda life: fact.remember(life.uid, "worker-1", life.scope, "api", {"v": 1}, expected=0),
    "verify": lambda life: fact.verified(life.uid, "worker-1", life.scope, "api", 1),
    "receive": lambda life: inbox.receive(life.uid, "grace", "m-1", {"text": "also the docs"}, Mode.STEER),
    "promote": lambda life: inbox.promote(life.holder),
    "checkpoint": lambda life: checkpoint.put(life.holder, number=4, codec="json", fingerprint="f", body="{}"),
    "renew": lambda life: lease.renew(life.holder, TTL * 2),
    "lock": Life.take,
    "keep the lock": lambda life: lease.renew_named(life.lock, ttl=TTL * 2),
    "be seen": lambda life: worker.seen(f"worker-{life.id}"),
    "set a timer": lambda life: wait.open_(life.holder, "w-0", WaitKind.TIMER, due_at=START),
    "fire": lambda life: wait.fire(life.uid, "timer", "w-0"),
    "ask": lambda life: wait.open_(life.holder, "w-1", WaitKind.APPROVAL, ref="a-1", detail={"merge": True}),
    "ask for input": lambda life: wait.open_(life.holder, "w-2", WaitKind.INPUT),
    "park": lambda life: wait.park(life.holder, ["w-1", "w-2"]),
    "answer": lambda life: wait.resolve(life.uid, "grace", "w-1", "yes"),
    "send": lambda life: inbox.receive(life.uid, "grace", "m-2", ["go", "on"]),
    "acquire again": lambda life: life.acquire("n-2"),
    "settle": lambda life: decision.settle(life.holder, "d-1", "commented"),
    "save": Life.save,
    "pages": lambda life: event.append(life.holder, "message", {"content": PAGES}),
    "use": lambda life: usage.use(life.holder, tokens_in=10, tokens_out=5, cost_micros=7),
    "describe": lambda life: session.describe(life.uid, "ada", expected=1, title="a review", priority=3),
    "remember again": lambda life: fact.remember(life.uid, "worker-1", life.scope, "api", {"v": 2}, expected=1),
    "forget": lambda life: fact.forget(life.uid, "worker-1", life.scope, "api", 2),
    "pause": lambda life: session.request_pause(life.uid, "ada"),
    "unlock": lambda life: lease.release_named(life.lock),
    "release": lambda life: session.release(life.holder),
    "acquire at last": lambda life: life.acquire("n-3"),
    "take over": lambda life: lease.take_over(life.uid, "worker-2", nonce="n-4", ttl=TTL, because="it is dead"),
    "step at last": lambda life: life.record("write"),
    "cancel": lambda life: session_end.cancel(life.uid, "ada"),
    "restart": lambda life: session.restart(life.holder, {"n": 2}),
    "finish": lambda life: session.finish(life.holder, Status.DONE, result={"ok": True}),
}


def folder_of(store: Store, folder: Path) -> Directory:
    return directory_of(store) if store.folder is not None else Directory(folder / "artifacts")


def told(answer: Any, life: Life) -> Any:
    """An answer as JSON that every run of the same life gives alike."""
    match answer:
        case SessionRecord():
            return [answer.status, answer.cursor]
        case Holder():
            return [answer.epoch, answer.cursor]
        case Record():
            return plain(answer.to_dict(), life.uid, life.id)
        case list():
            return [told(one, life) for one in answer]
    return answer


def picture(tx: Transaction, id: str) -> dict[str, Any]:
    """Everything a store holds of one life, without what differs between two equal ones."""
    found: dict[str, Any] = {
        "worker": [row.to_dict() for row in worker.workers(tx, limit=100_000) if row.id == f"worker-{id}"],
        "lease": [row.to_dict() for row in lease.named(tx, limit=100_000) if row.resource == f"lock-{id}"],
    }
    try:
        row = session.get_by_id(tx, id)
    except NotFound:
        return plain(found, "", id)
    uid = row.uid
    kept = checkpoint.latest(tx, uid, "f")
    found |= {
        "session": {k: v for k, v in row.to_dict().items() if k != "chain"},
        "event": [[line.number, line.kind, line.actor, line.at, line.body] for line in event.after(tx, uid)],
        "wait": _all(wait.of_session(tx, uid)),
        "inbox": _all(one for name in INBOX if (one := inbox.get(tx, uid, name))),
        "step": _all(row for number in (0, 1) for row in step.of_session(tx, uid, number)),
        "task": _all(task.of_session(tx, uid)),
        "decision": _all(decision.recent(tx, uid)),
        "fact": _all(fact.known(tx, private_scope(uid))),
        "artifact": _all(artifact.of_session(tx, uid)),
        "checkpoint": _all([kept] if kept else []),
    }
    return plain(found, uid, id)


def _all(rows: Any) -> list[dict[str, Any]]:
    return [row.to_dict() for row in rows]


def plain(value: dict[str, Any], uid: str, id: str) -> dict[str, Any]:
    text = msgspec.json.encode(value).decode().replace(f'{id}"', 'ID"')
    return msgspec.json.decode(text.replace(uid, "UID") if uid else text, type=dict[str, Any])


def rehearse() -> None:
    """Live the life on a bare connection in memory, in this thread, leaving nothing open: it warms the code."""
    statements.load("postgres")
    for _ in range(3):
        _rehearse()


def _rehearse() -> None:
    clock = ManualClock()
    engine = SQLiteEngine(connect(":memory:"), clock)
    migrate(SQLiteMigrator(engine, None), load("sqlite"))
    with tempfile.TemporaryDirectory() as folder:
        life = Life(cast(Store, _Straight(engine)), "rehearsal", Directory(Path(folder)))
        for move in MOVES.values():
            life.live(move)
        picture(engine.transaction("look"), life.id)
    engine.close()


class _Straight:
    """The part of a store that a life uses, without the store's threads."""

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
