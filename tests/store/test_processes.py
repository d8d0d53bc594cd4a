"""Several processes on one store: no gap, no duplicate, one holder at a time, no starvation."""

from collections import Counter
from pathlib import Path

import pytest

from perdure.domain.event import Event
from perdure.ids import new_uid
from perdure.store.moves import event, fact, inbox, meta, queue, session
from perdure.store.store import Store, open_store
from tests.store.support import process_tasks
from tests.store.support.linearizability import Kind, Operation, State, unplaceable
from tests.store.support.process_group import ProcessGroup, Ready
from tests.store.support.sessions import a_session, rows

pytestmark = [pytest.mark.slow, pytest.mark.databases("sqlite", "postgres")]

EIGHT = [f"worker-{number}" for number in range(8)]


def closed_session(target: str) -> str:
    """A session in a store that is closed again."""
    with open_store(target) as store:
        return a_session(store).uid


def checked_log(store: Store, uid: str) -> list[Event]:
    """The whole log, after making sure that it has no gap, no duplicate, and a valid chain."""
    log = store.read_now(event.after, uid, limit=100_000)
    assert [line.number for line in log] == list(range(1, len(log) + 1))
    assert store.read_now(event.verify, uid).cursor == len(log)
    return log


def test_eight_outsiders_leave_no_gap_and_no_duplicate(target: str, processes: ProcessGroup) -> None:
    uid, count = closed_session(target), 25
    places = processes.run(process_tasks.send_messages, [(target, uid, who, count) for who in EIGHT])
    with open_store(target) as store:
        log = checked_log(store, uid)
        messages = store.read_now(inbox.unread, uid, limit=1000)
    own = [place for of_one in places for place in of_one[:count]]
    shared = {tuple(of_one[count:]) for of_one in places}
    assert len(shared) == 1  # all got the receipt of the first one
    assert sorted([*own, *shared.pop()]) == [message.sequence for message in messages] == list(range(1, 8 * count + 4))
    assert Counter(line.kind for line in log) == {"session.created": 1, "inbox.received": 8 * count + 3}


def test_eight_contenders_move_the_session_one_at_a_time(target: str, processes: ProcessGroup) -> None:
    uid = closed_session(target)
    histories = processes.run(process_tasks.contend, [(target, uid, who, 3) for who in EIGHT])
    with open_store(target) as store:
        log = checked_log(store, uid)
    history = [operation for of_one in histories for operation in of_one]
    assert unplaceable(history, State(cursor=1)) == []
    assert len([one for one in history if one.number is not None]) == len(log) - 1
    epochs = [one.epoch for one in history if one.kind is Kind.ACQUIRE and not one.refused]
    assert sorted(epochs, key=lambda epoch: epoch or 0) == list(range(1, 8 * 3 + 1))
    assert any(one.refused and one.kind is not Kind.ACQUIRE for one in history)  # some process did overstay
    check_times(log, history)


def check_times(log: list[Event], history: list[Operation]) -> None:
    """No process acquired the lease before the last one had expired or was released."""
    renewed = {one.epoch for one in history if one.kind is Kind.RENEW and not one.refused}
    epoch = until = 0
    for line in log:
        if line.kind == "session.released":
            until = 0
        if line.kind == "lease.acquired":
            assert line.at > until
            epoch = line.body["epoch"]
            until = line.at + (process_tasks.LONG if epoch in renewed else process_tasks.SHORT)


def test_a_number_raised_by_eight_is_raised_by_each(target: str, processes: ProcessGroup) -> None:
    uids = [closed_session(target) for _ in range(4)]
    processes.run(process_tasks.count_up, [(target, uid, who, 10) for uid, who in zip(uids * 2, EIGHT, strict=True)])
    with open_store(target) as store:
        known = store.read_now(fact.get, "shared", "number")
        assert known is not None
        assert (known.value, known.version) == (80, 80)
        for uid in uids:
            assert len(checked_log(store, uid)) == 1 + 20


@pytest.mark.databases("sqlite")
def test_writers_of_one_file_take_turns(tmp_path: Path, processes: ProcessGroup) -> None:
    """Counted while all of them write: the slowest has at least a third of the commits of the fastest."""
    target = str(tmp_path / "perdure.db")
    uids = [closed_session(target) for _ in range(4)]
    times = processes.run(
        process_tasks.commit_many, [(target, uid, who, 150) for uid, who in zip(uids, EIGHT[:4], strict=True)]
    )
    first, last = max(of_one[0] for of_one in times), min(of_one[-1] for of_one in times)
    shares = [sum(first <= moment <= last for moment in of_one) for of_one in times]
    assert max(shares) >= 30, "they did not write at the same time"
    assert min(shares) * 3 >= max(shares)


@pytest.mark.databases("sqlite")
def test_two_processes_that_make_the_store_make_one(folder: Path, processes: ProcessGroup) -> None:
    target = str(folder / "new" / "perdure.db")
    ids = processes.run(make_store, [(target,)] * 4)
    assert len(set(ids)) == 1
    with open_store(target) as store:
        assert store.read_now(session.count) == {"ready": 4}
        assert len(rows(store, "event_kind")) > 10


def make_store(ready: Ready, target: str) -> str | None:
    ready()
    with open_store(target) as store:
        a_session(store, new_uid())
        return store.read_now(meta.get, "store_id")


@pytest.mark.parametrize("limits", [{"concurrency": 2}, {"per_key": 1}], ids=str)
def test_claims_of_eight_processes_keep_the_limits(
    target: str, processes: ProcessGroup, folder: Path, limits: dict[str, int]
) -> None:
    """What the processes note lies within the time that their sessions run, so an overlap of notes is one of runs."""
    with open_store(target) as store:
        keys = {a_session(store, concurrency_key=f"k-{number % 3}").uid: number % 3 for number in range(60)}
        store.write_now(queue.set_limits("default", "ada", **limits))
    notes = folder / "notes"
    done = processes.run(process_tasks.run_claimed, [(target, str(notes), who) for who in EIGHT])
    running: set[str] = set()
    most = most_of_key = 0
    for line in notes.read_text().splitlines():
        word, uid = line.split()
        running = running | {uid} if word == "begin" else running - {uid}
        most = max(most, len(running))
        most_of_key = max([most_of_key, *Counter(keys[one] for one in running).values()])
    assert sum(done) == 60
    assert (most if "concurrency" in limits else most_of_key) <= next(iter(limits.values()))
