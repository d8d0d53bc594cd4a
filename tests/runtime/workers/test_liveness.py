"""Dead or alive: real processes, really killed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from perdure import Session, program
from perdure.domain.worker import Liveness, WorkerRecord
from perdure.errors import StoreUnavailable
from perdure.runtime.runtime import open as open_runtime
from perdure.runtime.workers.identity import WorkerIdentity, is_here
from perdure.runtime.workers.liveness import (
    FIRST_NAMESPACE,
    UNKNOWN,
    WorkerLocks,
    locks_of_store,
    read_token,
    start_time,
)
from perdure.store.moves import worker
from perdure.store.store import Store, open_store
from perdure.testing.proxy import wait_until

pytestmark = pytest.mark.databases("sqlite", "postgres")


@pytest.fixture(autouse=True)
def _own_runtime_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))


@contextmanager
def life_process(target: str, child: str, within: Sequence[str] = ()) -> Iterator[subprocess.Popen[str]]:
    arguments = [*within, sys.executable, "-m", "tests.runtime.support.worker_process", target, child]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def worker_process(target: str, child: str = "none") -> Iterator[tuple[subprocess.Popen[str], str, int]]:
    with life_process(target, child) as process:
        assert process.stdout is not None
        id, pid, *_ = process.stdout.readline().split()
        yield process, id, int(pid)


def container(*options: str) -> list[str]:
    """The command that makes a process the first one of a container called `box`."""
    tried = []
    for more in ([], ["--map-root-user"]):
        start = ["unshare", *more, "--pid", "--uts", "--fork", "--kill-child", *options]
        ended = subprocess.run([*start, "true"], capture_output=True, text=True, check=False)
        if ended.returncode == 0:
            return [*start, "sh", "-c", 'hostname box && exec "$@"', "sh"]
        tried.append(ended.stderr.strip())
    pytest.skip(f"no namespaces here: {'; '.join(tried)}")


def row(store: Store, id: str) -> WorkerRecord:
    return next(one for one in store.read_now(worker.listing) if one.id == id)


@pytest.mark.slow
def test_a_running_worker_is_alive_and_a_killed_one_is_dead(store: Store, target: str) -> None:
    with worker_process(target) as (process, id, _):
        locks = locks_of_store(store)
        assert locks.life(row(store, id)) is Liveness.ALIVE
        process.kill()
        process.wait()
        assert locks.life(row(store, id)) is Liveness.DEAD


@pytest.mark.slow
def test_a_stopped_worker_is_alive(store: Store, target: str) -> None:
    with worker_process(target) as (process, id, _):
        process.send_signal(signal.SIGSTOP)
        assert locks_of_store(store).life(row(store, id)) is Liveness.ALIVE


@pytest.mark.slow
def test_a_surviving_command_keeps_its_worker_alive(store: Store, target: str) -> None:
    with worker_process(target, "heir") as (process, id, child):
        locks = locks_of_store(store)
        process.kill()
        process.wait()
        assert locks.life(row(store, id)) is Liveness.ALIVE
        os.kill(child, signal.SIGKILL)
        wait_until(lambda: locks.life(row(store, id)) is Liveness.DEAD, "the worker and its command are dead")


@pytest.mark.slow
def test_a_command_without_the_lock_does_not_count(store: Store, target: str) -> None:
    with worker_process(target, "stranger") as (process, id, child):
        process.kill()
        process.wait()
        assert locks_of_store(store).life(row(store, id)) is Liveness.DEAD
        os.kill(child, signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize("options", [["--mount-proc"], []], ids=["own /proc", "/proc of the machine"])
def test_containers_with_equal_hostname_and_pid_are_distinguished(target: str, options: list[str]) -> None:
    within = container(*options)
    with life_process(target, "none", within) as first, life_process(target, "asker", within) as second:

        def asked() -> str:
            assert second.stdin is not None
            assert second.stdout is not None
            print(file=second.stdin, flush=True)
            pid, name, lives = json.loads(second.stdout.readline())
            assert (str(pid), name) == (its_pid, its_name) == ("1", "box")
            return str(lives[id])

        assert first.stdout is not None
        id, _, its_pid, its_name = first.stdout.readline().split()
        assert asked() == Liveness.ALIVE
        first.kill()
        wait_until(lambda: asked() == Liveness.DEAD, "the first is dead")


def as_this_process(one: WorkerRecord) -> WorkerRecord:
    """A worker that differs from this process in its id and its lock only."""
    token = msgspec.structs.replace(read_token(one.start_token), start_time=start_time(os.getpid())).token()
    return msgspec.structs.replace(one, pid=os.getpid(), start_token=token)


@pytest.mark.slow
def test_the_lock_is_asked_before_any_name(store: Store, target: str) -> None:
    me = WorkerIdentity(store, [])
    with worker_process(target) as (process, id, _):
        namesake = as_this_process(row(store, id))
        shown = namesake.to_dict()
        assert not is_here(shown)
        assert me.life_of(shown) is Liveness.ALIVE
        elsewhere = msgspec.structs.replace(namesake, host="elsewhere")
        assert me.life(elsewhere) is Liveness.ALIVE
        process.kill()
        process.wait()
        assert me.life(namesake) is Liveness.DEAD
        assert me.life(elsewhere) is Liveness.DEAD
    me.close()


@pytest.mark.slow
def test_a_process_of_another_pid_namespace_is_not_looked_up_by_pid(store: Store, target: str) -> None:
    locks = locks_of_store(store)
    with worker_process(target) as (_, id, _child):
        (locks.folder / id).unlink()
        assert locks.life(row(store, id)) is Liveness.ALIVE
        locks.namespace = "another"
        assert locks.life(row(store, id)) is Liveness.CANNOT_TELL


def test_a_copy_of_a_lock_file_proves_nothing(store: Store, tmp_path: Path) -> None:
    locks = locks_of_store(store)
    with locks.enter(store) as me:
        shutil.copytree(locks.folder, tmp_path / "copy")
        locks.folder = tmp_path / "copy"
        locks.namespace = "another"
        assert locks.life(me.worker) is Liveness.CANNOT_TELL


def test_a_worker_that_closes_during_an_act_is_still_alive(store: Store) -> None:
    locks = locks_of_store(store)
    me = locks.enter(store)
    me.close(acting=True)
    assert locks.life(row(store, me.id)) is Liveness.ALIVE
    me.close()
    assert store.read_now(worker.listing) == []


def test_a_worker_of_an_earlier_boot_is_dead(store: Store) -> None:
    locks = locks_of_store(store)
    locks.machine, locks.namespace = "machine-1", FIRST_NAMESPACE
    with locks.enter(store) as me:
        earlier = msgspec.structs.replace(me.worker, boot_id="an-earlier-boot")
        assert locks.life(earlier) is Liveness.DEAD
        assert locks.life(msgspec.structs.replace(me.worker, boot_id=UNKNOWN)) is Liveness.CANNOT_TELL


@pytest.mark.databases("postgres")
@pytest.mark.parametrize(
    ("machine", "namespace"),
    [("machine-2", FIRST_NAMESPACE), (UNKNOWN, FIRST_NAMESPACE), ("machine-1", "4026532000")],
    ids=["another machine", "no machine id", "a container, whose image brings the machine id"],
)
def test_a_namesake_of_this_host_is_not_mistaken_for_its_earlier_boot(
    store: Store, machine: str, namespace: str
) -> None:
    locks = locks_of_store(store)
    locks.machine, locks.namespace = machine, namespace
    with locks.enter(store) as me:
        locks.machine = "machine-1" if machine != UNKNOWN else UNKNOWN
        namesake = msgspec.structs.replace(me.worker, boot_id="another-boot")
        assert locks.life(namesake) is Liveness.CANNOT_TELL


@pytest.mark.slow
def test_a_lock_in_another_folder_is_not_evidence(store: Store, target: str, tmp_path: Path) -> None:
    """Two containers may share the host's name and boot, and neither the folder nor the process numbers."""
    with worker_process(target) as (_, id, _child):
        here = locks_of_store(store)
        other = WorkerLocks(tmp_path, host=here.host, boot_id=here.boot_id, machine=here.machine, shared=True)
        hidden = msgspec.structs.replace(row(store, id), pid=2**22 + 1)
        assert other.life(hidden) is Liveness.CANNOT_TELL


@pytest.mark.slow
def test_a_deleted_lock_file_does_not_make_its_worker_dead(store: Store, target: str) -> None:
    with worker_process(target) as (_, id, _child):
        locks = locks_of_store(store)
        (locks.folder / id).unlink()
        assert locks.life(row(store, id)) is Liveness.ALIVE


def test_a_worker_that_leaves_is_forgotten(store: Store) -> None:
    locks = locks_of_store(store)
    with locks.enter(store, programs=["review"]) as me:
        assert row(store, me.id).programs == ["review"]
    assert store.read_now(worker.listing) == []
    assert not (locks.folder / me.id).exists()


def test_a_worker_that_leaves_before_its_command_stays_alive(store: Store) -> None:
    locks = locks_of_store(store)
    me = locks.enter(store)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=me.pass_fds) as child:
        me.close()
        assert locks.life(row(store, me.id)) is Liveness.ALIVE
        child.communicate(b"\n")
    assert locks.life(row(store, me.id)) is Liveness.DEAD


def test_two_workers_cannot_have_one_id(store: Store) -> None:
    locks = locks_of_store(store)
    with locks.enter(store, id="w-1"), pytest.raises(StoreUnavailable, match="worker w-1"):
        locks.enter(store, id="w-1")


@pytest.mark.databases("memory", "files")
def test_a_store_for_one_process_has_workers_too(target: str) -> None:
    with open_store(target) as store, locks_of_store(store).enter(store) as me:
        assert locks_of_store(store).life(row(store, me.id)) is Liveness.ALIVE


@pytest.mark.databases("memory")
def test_a_token_names_one_process(store: Store) -> None:
    with locks_of_store(store).enter(store) as me:
        assert read_token(me.worker.start_token).start_time == start_time(os.getpid()) != UNKNOWN
    assert start_time(2**22 + 1) == UNKNOWN
    assert read_token("nonsense").folder == UNKNOWN


@pytest.mark.anyio
async def test_reading_the_recovery_plan_registers_no_worker(target: str) -> None:
    @program
    async def idle(s: Session) -> None: ...

    async with open_runtime(target) as runtime:
        await runtime.start(idle.bind(), id="s")
        assert await runtime.recovery_plan("s") == []
        assert await runtime.store.read(worker.listing) == []
        await runtime.run("s")
        assert len(await runtime.store.read(worker.listing)) == 1
