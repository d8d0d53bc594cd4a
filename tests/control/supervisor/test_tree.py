"""The tree of `perdure serve`, and how `perdure tree` and `perdure top` show it."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from perdure.cli.text.processes import NO_PROCESS, overview_lines, tree_lines
from perdure.clock import SECOND
from perdure.control.supervisor.notification import ManagerNotifier
from perdure.control.supervisor.overview import process_overview, store_overview
from perdure.control.supervisor.specification import check_ids, processes
from perdure.control.supervisor.store_supervisor import StoreSupervisor
from perdure.control.supervisor.tree import serve_tree
from perdure.domain.worker import Liveness, WorkerRecord
from perdure.runtime.run.session_lease import free_holder
from perdure.runtime.runtime import Runtime
from perdure.runtime.services.registry import SERVICES
from perdure.runtime.workers import identity
from perdure.store.databases.sqlite.location import MANY_PROCESSES, announce, companion
from perdure.store.moves import session, worker
from perdure.store.store import Store
from perdure.store.writer.lock import Presence
from tests.store.support.sessions import a_holder, raw


def test_tree_has_every_service_before_the_workers() -> None:
    tree = serve_tree(("perdure",), ("--drain", "1s"), parent="w-0", workers=2, drain=SECOND)
    check_ids(tree)
    names = [one.id for one in processes(tree)]
    assert set(names[:-2]) == set(SERVICES)
    assert names[-2:] == ["worker-1", "worker-2"]
    assert [one.command for one in processes(tree)][-1] == ("perdure", "worker", "--drain", "1s", "--parent", "w-0")


def test_tree_without_workers_has_only_the_services_that_are_wanted() -> None:
    tree = serve_tree(("perdure",), (), parent="w-0", workers=0, drain=SECOND, without=("notifications",))
    assert {one.id for one in processes(tree)} == set(SERVICES) - {"notifications"}


def test_eight_workers_and_a_command_open_a_file_without_a_warning(tmp_path: Path) -> None:
    tree = [one.id for one in processes(serve_tree(("perdure",), (), parent="w-0", workers=8, drain=SECOND))]
    path = tmp_path / "s.db"
    with ExitStack() as opened:
        for name in ["supervisor", *tree]:
            opened.callback(Presence(companion(path) / "present", name).close)
        for _ in range(MANY_PROCESSES - len(tree) - 1):
            opened.callback(announce(path).close)
        with pytest.warns(UserWarning, match="17 processes have"):
            announce(path).close()


def register(store: Store, id: str, **about: Any) -> None:
    store.write_now(worker.register(WorkerRecord(id, "h", "b", 7, "t", 1, 1, [], 0, 0, **about)))


def child(id: str, worker: str | None = None, **more: Any) -> dict[str, Any]:
    return {"id": id, "state": "running", "worker": worker, "restarts": 0, "last_exit": None, **more}


@pytest.mark.databases("sqlite", "postgres")
def test_what_a_dead_supervisor_left_is_shown_as_dead(store: Store) -> None:
    inner = [child("worker-1", "w-1@h:7", restarts=2, last_exit="signal 9"), child("worker-2", "w-gone@h:8")]
    tree = child("serve", strategy="one-for-one", children=[child("workers", strategy="one-for-one", children=inner)])
    register(store, "w-0", role="supervisor", tree=tree)
    register(store, "w-1", parent="w-0", concurrency=4)
    register(store, "w-2", concurrency=4)
    lives = {"w-0": Liveness.DEAD, "w-1": Liveness.DEAD, "w-2": Liveness.ALIVE}
    found = store.read_now(process_overview, lambda one: lives[one.id])
    assert [(one.id, one.state) for one in found.processes] == [("w-0", "dead"), ("w-2", "running")]
    (workers,) = found.processes[0].children
    assert [(one.id, one.state, one.restarts) for one in workers.children] == [
        ("worker-1", "dead", 2),
        ("worker-2", "dead", 0),
    ]
    lines = tree_lines(found)
    assert lines[1:3] == [
        "└─ workers (one-for-one)",
        "   ├─ worker-1: dead, process 7 on h, 2 restarts, ended last with signal 9, for 0s",
    ]
    assert "The supervisor is dead" in "\n".join(
        overview_lines(store.read_now(store_overview, lambda one: lives[one.id]), 100)
    )


@pytest.mark.databases("sqlite", "postgres")
@pytest.mark.parametrize("tree", [None, 7, [], {"children": 3}, {"children": [1, {"children": [{}]}]}])
def test_odd_tree_of_a_supervisor_is_shown_all_the_same(tree: Any, store: Store) -> None:
    register(store, "w-0", role="supervisor", tree=tree)
    register(store, "w-1", parent="w-0", queues=["a"])
    found = store.read_now(store_overview, lambda _: Liveness.CANNOT_TELL)
    assert [one.id for one in found.processes] == ["w-0"]
    assert "w-1" in "\n".join(overview_lines(found, 80))
    assert len(tree_lines(found)) >= 2


@pytest.mark.databases("sqlite")
def test_store_without_processes_is_shown(store: Store) -> None:
    found = store.read_now(store_overview, lambda _: Liveness.ALIVE)
    assert tree_lines(found) == [NO_PROCESS]
    assert overview_lines(found, 80) == [NO_PROCESS]


@pytest.mark.databases("sqlite", "postgres")
async def test_sessions_of_a_worker_that_has_ended_are_freed(store: Store) -> None:
    holder = a_holder(store)
    tree = serve_tree(("perdure",), (), parent="w-0", workers=1, drain=SECOND)
    serving = StoreSupervisor(Runtime(store), tree, environment={}, notifier=ManagerNotifier(None))
    await serving.report_end("w-other", "process 7 has ended")
    assert store.read_now(session.get, holder.uid).status == "running"
    await serving.report_end(holder.name, "process 7 has ended")
    assert store.read_now(session.get, holder.uid).status == "ready"


@pytest.mark.databases("sqlite", "postgres")
async def test_damaged_session_does_not_hold_back_the_others_of_a_dead_worker(store: Store) -> None:
    first, second = sorted((a_holder(store), a_holder(store)), key=lambda one: one.uid)
    columns = "kind, actor, at, effect_id, move_id, body, salt, digest, chain"
    copied = f"select session_uid, number + 1, {columns} from event where session_uid = '{first.uid}' and number = 2"
    raw(store, f"insert into event (session_uid, number, {columns}) {copied}")  # a number that the log needs next
    assert await free_holder(store, first.name, "process 7 has ended", by="w-0") == 1
    assert [store.read_now(session.get, one.uid).status for one in (first, second)] == ["running", "ready"]


@pytest.mark.databases("sqlite", "postgres")
async def test_row_that_was_removed_is_written_again_with_the_last_tree(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity, "HEARTBEAT", 0.01)
    runtime = Runtime(store)
    await runtime.worker.set_tree({"id": "serve"})
    await store.write(worker.forget([runtime.worker.id]))
    seen = asyncio.ensure_future(runtime.worker.keep_seen())
    async with asyncio.timeout(60):
        while (found := await store.read(worker.find, runtime.worker.id)) is None:
            await asyncio.sleep(0.01)
    seen.cancel()
    assert found.tree == {"id": "serve"}


def test_every_process_of_the_tree_must_give_signs_of_life() -> None:
    tree = serve_tree(("perdure",), (), parent="w-0", workers=1, drain=SECOND)
    assert all(one.watchdog is not None for one in processes(tree))
