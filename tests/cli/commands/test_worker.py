"""A worker takes sessions in order, and nothing about one session keeps it from running the others."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from perdure.cli.background_worker import BackgroundWorker
from perdure.cli.live import session_driver
from perdure.cli.shell import Shell
from perdure.domain.session import CRASHES
from perdure.runtime.definitions.program import Bound
from perdure.runtime.runtime import open as open_runtime
from perdure.store.moves import lease
from perdure.store.moves import session as sessions
from perdure.store.store import Store, open_store
from tests.cli.support import programs
from tests.cli.support.terminal import Terminal
from tests.store.support.sessions import TTL, raw


def begin(store: str, *ids: str, priority: int = 0) -> None:
    """Sessions that are ready, and that no process runs."""
    for id in ids:
        start(store, programs.user_sleeper.bind(), id, priority=priority)


def start(store: str, bound: Bound[Any], id: str, *, priority: int = 0, run: bool = False) -> str:
    """Begin a session, run it as far as it goes if that is asked for, and return its uid."""

    async def act() -> str:
        async with open_runtime(store) as runtime:
            view = await runtime.start(bound, id=id, priority=priority)
            return (await runtime.run(view.id)).uid if run else view.uid

    return asyncio.run(act())


def work(terminal: Terminal, *more: str) -> list[str]:
    """Run a worker to its end; what it said of sessions."""
    said = terminal("worker", "--idle", "0.2", "--at-once", "1", *more)
    return [line for line in said.out.splitlines()[1:] if not line.endswith("is waiting")]


def make_due(store: str) -> None:
    with open_store(store) as opened:
        raw(opened, "update wait set due_at = 1 where due_at is not null and resolved_at is null")


@pytest.mark.slow
@pytest.mark.parametrize("how", ["moved", "copied"])
def test_sealed_session_with_a_due_timer_does_not_stop_the_worker(how: str, terminal: Terminal) -> None:
    store = str(terminal.folder / "perdure.db")
    source = store if how == "moved" else str(terminal.folder / "elsewhere.db")
    start(source, programs.user_naps.bind(), "sealed", run=True)
    seal = ["--move"] if how == "moved" else []
    assert terminal("export", "sealed", "--to", "bundle.zip", "--store", source, *seal).code == 0
    if how == "copied":
        assert terminal("import", "bundle.zip").code == 0
    make_due(store)
    begin(store, "other")
    for _ in range(2):
        said = terminal("worker", "--idle", "0.2")
        assert (said.code, said.err, "is sealed here" in said.out) == (0, "", False)
    assert terminal("show", "other", "--json").json["session"]["status"] == "done"
    status = {one["id"]: one["status"] for one in terminal("ls", "--json").lines}
    assert "waiting" in {status[id] for id in status if id.startswith("sealed")}  # what is sealed stays as it was


@pytest.mark.parametrize("broken", ["arguments", "detail"])
def test_unreadable_row_is_named_and_other_sessions_run(broken: str, terminal: Terminal) -> None:
    store = str(terminal.folder / "perdure.db")
    uid = start(store, programs.user_naps.bind(), "bad", run=True)
    make_due(store)
    with open_store(store) as opened:
        table = "wait" if broken == "detail" else "session"
        raw(opened, f"update {table} set {broken} = '{{'")
    begin(store, "other")
    said = terminal("worker", "--idle", "0.2")
    assert "session other is done" in said.out
    assert "is not JSON" in said.out
    assert ("session bad: " if broken == "arguments" else f"session {uid}: ") in said.out


@pytest.mark.databases("sqlite", "postgres")
def test_higher_priority_runs_first_and_then_the_oldest(
    terminal: Terminal, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERDURE_STORE", target)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(terminal.folder))
    begin(target, "old", "middle", "new")
    begin(target, "low", priority=-1)
    start(target, programs.user_values.bind(number=1), "other", priority=3)
    begin(target, "high", priority=7)
    order = ("high", "other", "old", "middle", "new", "low")
    assert work(terminal) == [f"session {id} is done" for id in order]


def test_priority_is_set_at_the_start(terminal: Terminal) -> None:
    assert terminal("run", "user_parent", "--id", "p", "--priority", "7").code == 3
    assert [one["priority"] for one in terminal("ls", "--json").lines] == [7, 7]  # a child has its parent's


def test_attach_stops_starting_workers_without_progress(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[BackgroundWorker] = []

    def background(*_: object) -> BackgroundWorker:
        started.append(BackgroundWorker(subprocess.Popen(["true"]), terminal.folder / "log"))
        started[-1].process.wait()
        return started[-1]

    monkeypatch.setattr(session_driver, "start_worker", background)
    driver = session_driver.BackgroundDriver(
        Shell(str(terminal.folder / "perdure.db"), json=False), "uid", lambda _: None
    )
    for _ in range(10):
        driver.start()
        driver.saw("lease.acquired")
        driver.saw("session.released")
    found = driver.check()
    assert (len(started), found is not None and "3 workers in a row were started" in found.message) == (3, True)
    driver.saw("step.recorded")
    driver.start()
    assert (len(started), driver.check()) == (4, None)


@pytest.mark.slow
def test_session_that_kills_five_workers_waits_for_a_person(terminal: Terminal) -> None:
    """The first death is not counted: other sessions ran in the same worker. They finish, and none is blamed."""
    store = str(terminal.folder / "perdure.db")
    begin(store, "before-1", "before-2")
    start(store, programs.user_kills.bind(folder=str(terminal.folder)), "deadly")
    begin(store, "after-1", "after-2")
    (terminal.folder / "deadly").touch()
    for _ in range(1 + CRASHES):
        assert terminal.process("worker", "--idle", "0.2").code == -signal.SIGKILL
    begin(store, "other")
    said = terminal.process("worker", "--idle", "0.2")
    assert (said.code, "session deadly is waiting" in said.out, "session other is done" in said.out) == (0, True, True)
    shown = {one["id"]: (one["status"], one["crash_count"]) for one in terminal("ls", "--json").lines}
    assert shown.pop("deadly") == ("waiting", CRASHES)
    assert (len(shown), set(shown.values())) == (5, {("done", 0)})
    assert "5 workers in a row were lost" in terminal("show", "deadly").out
    assert "perdure resume deadly" in terminal("show", "deadly").out
    assert "deadly" in terminal("ls", "--waiting-for", "quarantine").out
    assert "deadly" in terminal("doctor").out
    assert terminal.process("worker", "--idle", "0.2").code == 0  # it is left alone
    (terminal.folder / "deadly").unlink()
    assert terminal("resume", "deadly").out.endswith("survived\n")
    assert terminal("show", "deadly", "--json").json["session"]["crash_count"] == 0


@pytest.mark.slow
def test_session_of_a_killed_worker_is_cancelled_immediately(terminal: Terminal) -> None:
    start(str(terminal.folder / "perdure.db"), programs.user_kills.bind(folder=str(terminal.folder)), "deadly")
    (terminal.folder / "deadly").touch()
    assert terminal.process("worker", "--idle", "0.2").code == -signal.SIGKILL
    assert terminal("cancel", "deadly").out == "Session deadly is cancelled.\n"


def crash(store: Store, uid: str, number: int) -> None:
    store.write_now(lease.take_over(uid, f"w-{number}", nonce=f"n-{number}", ttl=TTL, because="found dead"))


def test_answer_releases_a_quarantined_session(terminal: Terminal) -> None:
    store = str(terminal.folder / "perdure.db")
    begin(store, "s")
    with open_store(store) as opened:
        uid = opened.read_now(sessions.get_by_id, "s").uid
        for number in range(CRASHES + 1):
            crash(opened, uid, number)
        raw(opened, "update session set lease_until = 1")
    assert terminal("resume", "s").code == 3
    assert terminal("answer", terminal.wait_of("s"), "try again").code == 0
    assert terminal("resume", "s").out.endswith("[1,2]\n")


@pytest.mark.slow
def test_attach_to_a_session_without_its_code_starts_one_worker(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(str(terminal.folder / "perdure.db"), "s")
    monkeypatch.delenv("PERDURE_APP")
    said = terminal.process("attach", "s")
    assert (said.code, "the module that defines user_sleeper is not loaded" in said.out) == (3, True)
    (log,) = Path(terminal.folder / "perdure.db.d" / "logs").iterdir()
    assert log.read_text().count("worker w-") == 1


@pytest.mark.slow
def test_worker_without_idle_time_finishes_its_session(terminal: Terminal) -> None:
    terminal.run("user_review", "r")
    assert terminal("fork", "r", "--at", "1", "--id", "f").code == 0
    said = terminal.process("worker", "f", "--idle", "0")
    assert "Traceback" not in said.err
    assert terminal("show", "f", "--json").json["session"]["status"] == "waiting"


@pytest.mark.slow
def test_worker_prints_json(terminal: Terminal) -> None:
    terminal("run", "user_talk", "--id", "t")
    assert all(isinstance(one, dict) for one in terminal.process("worker", "--idle", "0.1", "--json").lines)
