"""Random moves of a session, most of them legal, some refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from perdure.clock import SECOND
from perdure.domain.artifact import Retention
from perdure.domain.fact import private_scope
from perdure.domain.lease import Holder
from perdure.domain.session import SessionRecord, Status
from perdure.domain.task import TaskState
from perdure.domain.wait import WaitKind
from perdure.errors import PerdureError
from perdure.ids import new_uid
from perdure.store.move import Move
from perdure.store.moves import (
    artifact,
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
)
from perdure.store.moves.step import NewStep
from perdure.store.store import Store
from perdure.testing import ManualClock
from tests.store.support.sessions import TTL, a_holder, a_session

VALUES = (None, True, 1, 1.5, "text", "漢\0字", [1, [None]], {"b": 1, "a": {}})
KINDS = (WaitKind.INPUT, WaitKind.TIMER, WaitKind.APPROVAL)


class RandomSession:
    """One session and its holder. `a` and `b` are drawn for every move."""

    def __init__(self, store: Store, clock: ManualClock) -> None:
        self.store = store
        self.clock = clock
        self.uid = a_session(store, title="x", owner="ada", arguments={"pr": [1, 2]}).uid
        self.scope = private_scope(self.uid)
        self.holder: Holder = a_holder(store, self.uid)

    def live(self, moves: list[tuple[str, int, int]]) -> None:
        for name, a, b in moves:
            self.clock.advance(seconds=1 + (50 if name == "acquire" else 0))
            try:
                answer = self.store.write_now(MOVES[name](self, a, b))
            except PerdureError:
                continue
            if isinstance(answer, Holder):
                self.holder = answer

    def now(self) -> SessionRecord:
        return self.store.read_now(session.get, self.uid)

    def version_of(self, key: int) -> int:
        known = self.store.read_now(fact.get, self.scope, f"k-{key}")
        return known.version if known else 1

    def recorded(self, a: int, b: int) -> NewStep:
        return NewStep(
            restart_number=self.now().restart_number,
            scope=f"s{b}", name=f"n{a}", argument_digest="d", occurrence=0, result="1",
        )  # fmt: skip


MOVES: dict[str, Callable[[RandomSession, int, int], Move[Any]]] = {
    "acquire": lambda life, a, b: lease.acquire(life.uid, f"w-{a}", nonce=new_uid(), ttl=TTL),
    "take over": lambda life, a, b: lease.take_over(life.uid, f"w-{a}", nonce=new_uid(), ttl=TTL, because="dead"),
    "expire": lambda life, a, b: lease.expire(life.uid, "housekeeping"),
    "release": lambda life, a, b: session.release(life.holder),
    "restart": lambda life, a, b: session.restart(life.holder, VALUES[b]),
    "use": lambda life, a, b: message.add_usage(life.holder, tokens_in=a, tokens_out=b, cost_micros=1),
    "append": lambda life, a, b: event.append(life.holder, "note", {"value": VALUES[b]}),
    "describe": lambda life, a, b: session.describe(
        life.uid,
        by="ada",
        expected=life.now().version,
        **({"title": f"t-{a}"} if b % 2 else {"owner": None, "priority": a}),
    ),
    "cancel": lambda life, a, b: session_end.cancel(life.uid, by="ada"),
    "pause": lambda life, a, b: session.request_pause(life.uid, by="ada"),
    "resume": lambda life, a, b: wait.resume(life.uid, by="ada"),
    "ask": lambda life, a, b: wait.open_(
        life.holder, f"w-{a}", KINDS[b % 3], detail=VALUES[b], due_at=life.clock.now() + b * SECOND
    ),
    "answer": lambda life, a, b: wait.resolve(life.uid, "ada", f"w-{a}", VALUES[b]),
    "fire": lambda life, a, b: wait.fire(life.uid, "timer", f"w-{a}"),
    "park": lambda life, a, b: wait.park(life.holder, [f"w-{a}"]),
    "receive": lambda life, a, b: inbox.receive(life.uid, "ada", f"m-{a}-{b}", VALUES[b]),
    "promote": lambda life, a, b: inbox.promote(life.holder, limit=a + 1),
    "step": lambda life, a, b: step.record(life.holder, life.recorded(a, b)),
    "add task": lambda life, a, b: task.add(
        life.holder, f"t-{a}", "Fix", parent_id=f"t-{b}" if b < a else None, priority=b
    ),
    "change task": lambda life, a, b: task.change(life.holder, f"t-{a}", state=list(TaskState)[b % 5], note=f"n-{b}"),
    "decide": lambda life, a, b: decision.decide(life.holder, f"d-{a}", "x", because="y", then=None if b else "z"),
    "settle": lambda life, a, b: decision.settle(life.holder, f"d-{a}", f"o-{b}"),
    "remember": lambda life, a, b: fact.remember(
        life.uid, "ada", life.scope, f"k-{a}", VALUES[b], stale_after=b or None, verify="look" if b % 2 else None
    ),
    "verify": lambda life, a, b: fact.record_verification(life.uid, "bob", life.scope, f"k-{a}", life.version_of(a)),
    "forget": lambda life, a, b: fact.forget(life.uid, "bob", life.scope, f"k-{a}", life.version_of(a)),
    "save": lambda life, a, b: artifact.index(
        life.uid, "ada", f"{a}" * 64, kind="diff", size=b, location="x", retention=Retention.KEEP
    ),
    "finish": lambda life, a, b: session.finish(
        life.holder,
        Status.DONE if a % 2 else Status.FAILED,
        **({"result": VALUES[b]} if a % 2 else {"error": VALUES[b]}),
    ),
}

LAST = {"finish"}
numbers = st.integers(0, 7)
few = st.integers(0, 1)  # so few names that most moves meet the rows of an earlier one
moves = st.tuples(st.sampled_from(sorted(MOVES.keys() - LAST)), few, numbers)
endings = st.lists(st.tuples(st.sampled_from(sorted(LAST)), few, numbers), max_size=1)
stories = st.tuples(st.lists(moves, min_size=5, max_size=40), endings).map(lambda parts: parts[0] + parts[1])
