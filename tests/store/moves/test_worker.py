"""Workers: who is here, since when, and what they know."""

from perdure.domain.worker import WorkerRecord
from perdure.store.moves import worker
from perdure.store.store import Store
from perdure.testing import ManualClock


def a_worker(id: str, programs: list[str] | None = None) -> WorkerRecord:
    return WorkerRecord(id, "host-1", "boot-1", 42, "token", 1, 1, programs or ["review"], 0, 0)


def test_a_worker_registers_and_sends_heartbeats(store: Store, clock: ManualClock) -> None:
    store.write_now(worker.register(a_worker("w-1")))
    begun = clock.now()
    clock.advance(seconds=10)
    assert store.write_now(worker.heartbeat("w-1")) is True
    [here] = store.read_now(worker.listing)
    assert (here.id, here.host, here.pid, here.programs) == ("w-1", "host-1", 42, ["review"])
    assert (here.started_at, here.seen_at) == (begun, clock.now())


def test_registering_again_only_refreshes(store: Store, clock: ManualClock) -> None:
    store.write_now(worker.register(a_worker("w-1")))
    begun = clock.now()
    clock.advance(seconds=10)
    store.write_now(worker.register(a_worker("w-1", ["review", "merge"])))
    [here] = store.read_now(worker.listing)
    assert (here.programs, here.started_at, here.seen_at) == (["review", "merge"], begun, clock.now())


def test_a_removed_worker_must_register_again(store: Store) -> None:
    assert store.write_now(worker.heartbeat("w-1")) is False
    for id in ("w-1", "w-2", "w-3"):
        store.write_now(worker.register(a_worker(id)))
    store.write_now(worker.forget(["w-1", "w-3", "missing"]))
    assert [here.id for here in store.read_now(worker.listing)] == ["w-2"]
    assert store.write_now(worker.heartbeat("w-1")) is False


def test_the_most_recently_seen_come_first(store: Store, clock: ManualClock) -> None:
    for id in ("w-1", "w-2", "w-3"):
        store.write_now(worker.register(a_worker(id)))
        clock.advance(seconds=1)
    store.write_now(worker.heartbeat("w-1"))
    assert [here.id for here in store.read_now(worker.listing)] == ["w-1", "w-3", "w-2"]
    assert [here.id for here in store.read_now(worker.listing, limit=1)] == ["w-1"]


def test_a_worker_announces_what_it_runs(store: Store, clock: ManualClock) -> None:
    about = {"role": "supervisor", "parent": "w-0", "queues": ["a", "b"], "concurrency": 4, "tree": {"id": "serve"}}
    store.write_now(worker.register(WorkerRecord("w-1", "h", "b", 1, "t", 1, 1, [], 0, 0, **about)))  # type: ignore[arg-type]
    store.write_now(worker.set_tree("w-1", {"id": "other"}))
    store.write_now(worker.set_draining("w-1"))
    since = clock.now()
    clock.advance(seconds=10)
    store.write_now(worker.set_draining("w-1"))
    [here] = store.read_now(worker.listing)
    assert (here.role, here.parent, here.queues, here.concurrency) == ("supervisor", "w-0", ["a", "b"], 4)
    assert (here.tree, here.draining_at) == ({"id": "other"}, since)
