"""A settle and a dispatch in one commit, when the dispatch is refused: the settle must survive."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from perdure.domain.effect import AttemptOutcome, EffectState, idempotency_key, intent_digest
from perdure.errors import LeaseLost
from perdure.ids import encode
from perdure.store.move import Move
from perdure.store.moves import effect as effects
from perdure.store.moves import lease, session
from perdure.store.moves.effect_input import AttemptResult, Dispatch, NewEffect
from perdure.store.store import open_store
from perdure.testing.sweep.fork_process import Channel
from perdure.testing.sweep.server_pool import ServerPool
from tests.ledger.support.planted_bugs import PLANTS


def merged_settle_is_there(pool: ServerPool, path: Path, plant: str) -> bool:
    """Whether a settle that was acknowledged is in the ledger of the next process."""
    assert pool.call(merge, target=str(path), plant=plant) == "settled, and the dispatch refused"
    with open_store(str(path)) as store:
        (settled,) = store.read_now(effects.listing)
        return settled.state == EffectState.ACKNOWLEDGED


def merge(channel: Channel, *, target: str, plant: str) -> str:
    """Lose the lease with an act under way, and write its settle and a new dispatch in one group."""
    if plant:
        PLANTS[plant]()
    dispatch = Dispatch(worker="w-1", process=encode({"id": "w-1"}))
    known = AttemptResult(outcome=AttemptOutcome.ACKNOWLEDGED, result="1")
    with open_store(target) as store:
        made = store.write_now(session.create(session.NewSession(id="s", program="p", arguments={}), by="owner"))
        old = store.write_now(lease.acquire(made.uid, "first", nonce="n-1", ttl=60_000_000))
        one, other = (_intent(made.uid, number) for number in (1, 2))
        store.write_now(effects.plan_and_dispatch(old, one, dispatch))
        store.write_now(lease.take_over(made.uid, "second", nonce="n-2", ttl=60_000_000, because="it insists"))
        answers = _together(
            store,
            effects.settle(made.uid, "first", one.id, 1, known),
            effects.plan_and_dispatch(old, other, dispatch),
        )
    settled = "settled" if answers[0] is None else repr(answers[0])
    return f"{settled}, and the dispatch {'refused' if isinstance(answers[1], LeaseLost) else repr(answers[1])}"


def _intent(uid: str, n: int) -> NewEffect:
    key = idempotency_key(uid, [0, n], "mail", {"n": n}, 0)
    return NewEffect(
        id="e-" + key[:16], position=encode([0, "", "do", "mail", str(n), 0]), generation=0, tool="mail",
        replay="escalate", targets="[]", intent=encode({"n": n}), intent_digest=intent_digest("mail", {"n": n}, []),
        idempotency_key=key,
    )  # fmt: skip


def _together(store: Any, *moves: Move[Any]) -> list[BaseException | None]:
    """Write moves in one group: the writer is kept busy until all of them wait."""
    go, inside = threading.Event(), threading.Event()

    def busy(tx: Any) -> None:
        inside.set()
        go.wait()

    answers: list[BaseException | None] = [None] * len(moves)

    def write(number: int, move: Move[Any]) -> None:
        try:
            store.write_now(move)
        except BaseException as error:
            answers[number] = error

    first = threading.Thread(target=lambda: store.write_now(Move("busy", "plain", busy)))
    first.start()
    inside.wait()
    submitted = threading.Semaphore(0)
    real = store.database.submit_write

    def submit(ticket: Any) -> None:
        real(ticket)
        submitted.release()

    store.database.submit_write = submit
    writers = [threading.Thread(target=write, args=(number, move)) for number, move in enumerate(moves)]
    for thread in writers:
        thread.start()
        submitted.acquire()
    go.set()
    for thread in (first, *writers):
        thread.join()
    return answers
