"""A child made by `fork()` has no store of its parent's, keeps none of its locks, and does it no harm."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest

from perdure import process
from perdure.errors import ForkedProcess, PerdureError
from perdure.runtime.workers.liveness import locks_of_store
from perdure.store.databases.sqlite.location import companion
from perdure.store.inspection.read_access import locate_store, read_store
from perdure.store.move import Move, StoreTransaction
from perdure.store.moves import event, session, worker
from perdure.store.moves.session import NewSession
from perdure.store.store import Store, open_store
from perdure.store.writer.lock import life_of
from perdure.testing.proxy import wait_until
from tests.store.support.sessions import a_holder, a_session

LIMIT = 60


def new(id: str) -> NewSession:
    return NewSession(id=id, program="p", arguments={})


def in_child(act: Callable[[], object]) -> str:
    """What an act returned in a forked child, or our error as text. A child that hangs is killed."""
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        signal.alarm(LIMIT)
        try:
            said = str(act())
        except PerdureError as error:
            said = f"{error.code}: {error.message}"
        except BaseException as error:
            said = repr(error)
        os.write(write, said.encode())
        os._exit(0)
    os.close(write)
    with open(read) as told:
        said = told.read()
    os.waitpid(child, 0)
    return said


def test_a_store_raises_forked_process_in_a_forked_child(store: Store) -> None:
    said = in_child(lambda: store.write_now(session.create(new("child"), by="ada")))
    assert said.startswith("forked-process: Process ")
    assert in_child(lambda: store.read_now(session.count)).startswith("forked-process: ")
    store.write_now(session.create(new("parent"), by="ada"))
    assert store.read_now(session.count) == {"ready": 1}


def test_closing_in_a_forked_child_closes_nothing_of_the_parent(target: str) -> None:
    with open_store(target) as store:
        store.write_now(session.create(new("before"), by="ada"))
        store.read_now(session.count)
        assert in_child(store.close) == "None"
        store.write_now(session.create(new("after"), by="ada"))
        assert store.read_now(session.count) == {"ready": 2}


def write_in_child(target: str) -> str:
    def act() -> object:
        with open_store(target) as own:
            own.write_now(session.create(new("child"), by="ada"))
            return own.read_now(session.count)

    return in_child(act)


@pytest.mark.databases("postgres")
def test_a_forked_child_may_open_the_store_itself(store: Store, target: str) -> None:
    store.write_now(session.create(new("parent"), by="ada"))
    assert write_in_child(target) == "{'ready': 2}"
    assert store.read_now(session.count) == {"ready": 2}


@pytest.mark.databases("sqlite")
def test_a_forked_child_cannot_open_a_file_of_its_parent(store: Store, target: str) -> None:
    """It would take no locks, and lose what it has committed as soon as the parent closes the file."""
    store.read_now(session.count)  # so that a reader has the file open as well
    assert write_in_child(target).startswith("forked-process: Process ")
    assert in_child(lambda: inspect_store(target)).startswith("forked-process: ")
    assert in_child(lambda: write_in_child(target)).startswith("forked-process: "), "nor may a child of the child"
    store.write_now(session.create(new("parent"), by="ada"))
    assert store.read_now(session.count) == {"ready": 1}


def inspect_store(target: str) -> None:
    with read_store(locate_store(target)):
        """Opening it is what is tested."""


@pytest.mark.databases("sqlite")
def test_a_forked_child_may_open_a_file_that_its_parent_has_closed(target: str) -> None:
    with open_store(target) as store:
        store.write_now(session.create(new("parent"), by="ada"))
    assert write_in_child(target) == "{'ready': 2}"


def test_a_forked_child_never_closes_a_connection_of_its_parent(tmp_path: Path) -> None:
    """Closing would roll back what the parent has begun: both share the memory of the index of the WAL."""
    held = [apsw.Connection(str(tmp_path / "held.db"))]

    def let_go() -> bool:
        seen = weakref.ref(held[0])
        held.clear()
        gc.collect()
        return seen() is not None

    assert in_child(let_go) == "True"
    held[0].close()


@pytest.mark.slow
def test_many_forks_while_commits_are_under_way_lose_nothing(store: Store) -> None:
    """The child does not wait for a lock that a thread of the parent holds, and the parent continues."""
    uid = a_session(store).uid
    holder, stop, written = a_holder(store, uid), threading.Event(), []

    def write() -> None:
        while not stop.is_set():
            written.append(store.write_now(event.append(holder, "note", {})))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(20):
            before = len(written)
            assert in_child(lambda: store.read_now(session.count)).startswith("forked-process: ")
            assert in_child(store.close) == "None"
            wait_until(lambda before=before: len(written) > before, "the parent writes")  # type: ignore[misc]
    finally:
        stop.set()
        writer.join()
    store.read_now(event.verify, uid)


def _target(store: Store) -> None:
    signal.alarm(LIMIT)
    try:
        store.read_now(session.count)
    except ForkedProcess:
        os._exit(7)


def test_a_child_of_multiprocessing_gets_the_same_error(store: Store) -> None:
    child = multiprocessing.get_context("fork").Process(target=_target, args=(store,))
    child.start()
    child.join()
    assert child.exitcode == 7
    assert store.read_now(session.count) == {}


KEEPER = """
import os, signal, sys, threading
from perdure import faults, process
from perdure.store.moves import session
from perdure.store.moves.session import NewSession
from perdure.runtime.workers.liveness import locks_of_store
from perdure.store.store import open_store

inside, go = threading.Event(), threading.Event()

def stop_inside(point):
    if point == "commit.before":
        inside.set()
        go.wait()

if sys.argv[2] == "planted bug":
    process.leave_to_parent = lambda descriptor: descriptor
store = open_store(sys.argv[1])
alive = locks_of_store(store).enter(store)
faults.arm(stop_inside)
create = session.create(NewSession(id="s", program="p", arguments={}), by="ada")
threading.Thread(target=store.write_now, args=(create,), daemon=True).start()
inside.wait()
read, write = os.pipe()
if (child := os.fork()) == 0:
    os.write(write, b"+")
    signal.pause()
os.read(read, 1)  # until the child has dropped the locks, it holds them too
print(child, alive.id, flush=True)
signal.pause()
"""


@contextmanager
def lock_holder(target: str, plant: str = "") -> Iterator[tuple[subprocess.Popen[str], int, str]]:
    """A process that forked in the middle of a commit, its child, and the worker that it is."""
    with subprocess.Popen([sys.executable, "-c", KEEPER, target, plant], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child, id = parent.stdout.readline().split()
        try:
            yield parent, int(child), id
        finally:
            parent.kill()
            os.kill(int(child), signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.databases("sqlite", "files", "postgres")
def test_a_child_forked_in_the_middle_of_a_commit_keeps_no_lock(target: str) -> None:
    """The parent is killed while it holds gate, transaction, presence and folder; its child lives on and is idle."""
    with lock_holder(target) as (parent, child, id):
        parent.kill()
        parent.wait()
        os.kill(child, 0)
        with open_store(target) as store:
            store.write_now(session.create(new("t"), by="bob"))
            (row,) = store.read_now(worker.listing)
            assert (row.id, str(locks_of_store(store).life(row))) == (id, "dead")


@pytest.mark.databases("sqlite")
def test_a_child_that_keeps_its_parents_locks_is_caught(target: str) -> None:
    """The same with a bug planted: then a dead worker would be alive for as long as the child is."""
    with lock_holder(target, "planted bug") as (parent, _child, id):
        parent.kill()
        parent.wait()
        assert str(life_of(companion(Path(target)) / "workers", id)) == "alive"


@pytest.mark.databases("sqlite", "postgres")
def test_a_joint_statement_is_not_made_twice_by_a_tool_that_forks(store: Store, tmp_path: Path) -> None:
    """The fork happens in the thread that writes, inside its transaction; the child gets no further there."""

    def run(tx: StoreTransaction) -> str:
        tx.execute("create table forked (n integer)", ())
        tx.execute("insert into forked values (1)", ())
        if (child := os.fork()) == 0:
            signal.alarm(LIMIT)
            try:
                tx.execute("insert into forked values (2)", ())
            finally:
                (tmp_path / "child").write_text("was here")
        wait_until((tmp_path / "child").exists, "the child has tried")
        os.waitpid(child, 0)
        return "done"

    assert store.write_now(Move("test", "plain", run)) == "done"
    assert store.write_now(Move("test", "plain", lambda tx: tx.execute("select n from forked", ()))) == [(1,)]
    store.write_now(Move("test", "plain", lambda tx: tx.execute("drop table forked", ())))


INTERRUPTED = """
import os, signal
from perdure import process

forgot = []
process.forget_in_child(lambda: os.kill(os.getpid(), signal.SIGINT))
process.forget_in_child(lambda: forgot.append("all"))
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    os.waitpid(os.fork(), 0)
except KeyboardInterrupt:
    print("interrupted after it forgot", *forgot, signal.pthread_sigmask(signal.SIG_BLOCK, ()), flush=True)
"""


def test_a_signal_during_a_fork_does_not_stop_the_child_from_forgetting() -> None:
    """What the handler of Ctrl-C raised there was ignored: the child kept the locks of its parent, and ran on."""
    ended = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, check=False)
    assert (ended.stdout, ended.stderr) == ("interrupted after it forgot all set()\n", "")


def test_a_number_that_belongs_to_another_file_by_now_is_left_alone(tmp_path: Path) -> None:
    noted = process.open_for_parent(tmp_path / "noted", os.O_RDWR | os.O_CREAT)
    os.close(noted)
    other = os.open(tmp_path / "other", os.O_RDWR | os.O_CREAT)
    assert other == noted
    assert in_child(lambda: os.write(other, b"still ours")) == "10"
    os.close(other)
