"""Five tasks, each building on the last. Kill this program whenever you like and run it again: same result.

    python examples/five_tasks.py files:notes                        text files that you can read
    python examples/five_tasks.py notes.db                           the same in SQLite
    python examples/five_tasks.py notes.db --stop "inside task 4"    pauses there, so that you can kill -9 it

Recorded results are not computed again. A result that was computed but not recorded is computed again. This is harmless
for a pure computation, and the reason why effects on the outside world need a ledger.
"""

import argparse
import random
import signal
from collections.abc import Callable
from typing import Any

from perdure.clock import SECOND
from perdure.domain.lease import Holder
from perdure.domain.session import SessionRecord, Status
from perdure.domain.step import Step
from perdure.domain.task import TaskState
from perdure.domain.worker import Liveness
from perdure.errors import LeaseHeld
from perdure.ids import canonical, decode, digest, encode, new_uid
from perdure.runtime.workers.liveness import RegisteredWorker, WorkerLocks, locks_of_store
from perdure.store.moves import decision, lease, session, step, task, worker
from perdure.store.store import Store, open_store

WORDS = ("anchor", "basket", "candle", "dragon", "ember", "feather", "garden", "harbor", "island", "kettle", "lantern")

TASKS: list[tuple[str, Callable[[Any], Any]]] = [
    ("Generate five words", lambda seed: random.Random(seed).sample(WORDS, 5)),
    ("Sort them", sorted),
    ("Reverse each word", lambda words: [word[::-1] for word in words]),
    ("Join with hyphens", "-".join),
    ("Count characters", len),
]


def run(store: Store, id: str, seed: int, reach: Callable[[str], None]) -> Any:
    """Start or continue the session, and return its result."""
    locks = locks_of_store(store)
    with locks.enter(store, programs=["five-tasks"]) as me:
        new = session.NewSession(id=id, program="five-tasks", arguments={"seed": seed})
        begun = store.write_now(session.create(new, by=me.id))
        if begun.status == Status.DONE:
            return begun.result
        holder = take(store, begun, me, locks)
        recorded = {one.name: one for one in store.read_now(step.of_session, begun.uid, begun.restart_number)}
        result: Any = seed
        for number in range(1, len(TASKS) + 1):
            result = one_task(store, holder, number, result, recorded, reach)
            reach(f"after task {number}")
        store.write_now(session.finish(holder, Status.DONE, result=result))
        return result


def take(store: Store, begun: SessionRecord, me: RegisteredWorker, locks: WorkerLocks) -> Holder:
    """Take the lease of the session: it is free, or its holder is known to be dead."""
    nonce, ttl = new_uid(), 60 * SECOND
    try:
        return store.write_now(lease.acquire(begun.uid, me.id, nonce=nonce, ttl=ttl))
    except LeaseHeld as held:
        rows = [one for one in store.read_now(worker.listing) if one.id == held.details["holder"]]
        if not rows or locks.life(rows[0]) is not Liveness.DEAD:
            raise
        because = f"process {rows[0].pid} is dead"
        print(f"session: taken over, {because}", flush=True)
        taken = store.write_now(lease.take_over(begun.uid, me.id, nonce=nonce, ttl=ttl, because=because))
        store.write_now(worker.forget([rows[0].id]))
        return taken


def one_task(
    store: Store, holder: Holder, number: int, given: Any, recorded: dict[str, Step], reach: Callable[[str], None]
) -> Any:
    """Do one task and record it, or return its recorded result. Every write here is safe to repeat."""
    title, compute = TASKS[number - 1]
    id, name = f"task-{number}", f"task {number}"
    store.write_now(task.add(holder, id, title, priority=-number))
    store.write_now(decision.decide(holder, id, title, because=f"builds on {encode(given)}", then=f"step {id}"))
    if id in recorded:
        result = decode(recorded[id].result or "null")
        print(f"{name}: kept {encode(result)}", flush=True)
    else:
        print(f"{name}: computing", flush=True)
        result = compute(given)
        reach(f"inside {name}")
        made = step.NewStep(
            restart_number=0, scope="", name=id, argument_digest=digest(canonical(given)), occurrence=0,
            result=encode(result),
        )  # fmt: skip
        store.write_now(step.record(holder, made))
        print(f"{name}: recorded {encode(result)}", flush=True)
    if store.read_now(task.get, holder.uid, id).state != TaskState.DONE:
        store.write_now(task.change(holder, id, state=TaskState.DONE))
    store.write_now(decision.settle(holder, id, f"recorded {encode(result)}"))
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description="Five tasks that survive kill -9.")
    parser.add_argument("store", help="notes.db, files:notes, postgresql://...")
    parser.add_argument("--session", default="five-tasks", help="the session's id")
    parser.add_argument("--seed", type=int, default=7, help="decides the random words")
    parser.add_argument("--stop", default="", help='pause at a point, such as "after task 2" or "inside task 4"')
    given = parser.parse_args()

    def reach(place: str) -> None:
        if place == given.stop:
            print(f"stopped: {place}", flush=True)
            signal.pause()

    with open_store(given.store) as store:
        print(f"result: {encode(run(store, given.session, given.seed, reach))}", flush=True)


if __name__ == "__main__":
    main()
