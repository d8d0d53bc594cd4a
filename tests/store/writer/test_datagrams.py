"""Wake-ups between processes that share a SQLite file: whatever a listener does, a commit neither fails nor waits."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from perdure.store.store import open_store
from perdure.store.topics import ALL_QUEUES, queue_topic
from perdure.store.writer.datagrams import Datagrams, queue_length
from perdure.store.writer.wakeup import Wakeups
from perdure.testing.proxy import wait_until
from tests.forked import fork
from tests.store.support.sessions import a_session

SOON = 120.0
LISTENER = """
import asyncio, sys
from perdure.store.store import open_store

async def main():
    with open_store(sys.argv[1]) as store:
        print("open", flush=True)
        while True:
            seen = store.wakeups.version
            await store.wakeups.wait_queues(seen, None, 600)
            print("woken", flush=True)

asyncio.run(main())
"""


@contextmanager
def listener(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that waits for new work."""
    process = subprocess.Popen([sys.executable, "-c", LISTENER, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        assert [process.stdout.readline() for _ in range(2)] == ["open\n", "woken\n"]  # by its own beginning
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@contextmanager
def transport(folder: Path, *topics: str) -> Iterator[tuple[Datagrams, Wakeups]]:
    """What another process would have."""
    made = Datagrams(folder / "wake", folder / "a.db")
    wakeups = Wakeups(made)
    if topics:
        made.listen(wakeups, topics)
    try:
        yield made, wakeups
    finally:
        wakeups.close()


def hears(wakeups: Wakeups, topic: str, seen: int) -> None:
    wait_until(lambda: wakeups.has_changed(seen, topic), f"{topic} arrives", SOON)


def sockets(folder: Path) -> list[str]:
    return sorted(name for name in os.listdir(folder / "wake") if "." not in name)


def test_a_process_receives_only_the_topics_that_it_waits_for(tmp_path: Path) -> None:
    with transport(tmp_path, "one") as (_, first), transport(tmp_path, "two") as (_, second), transport(tmp_path) as me:
        seen = (first.version, second.version)
        me[0].send(["two"])
        hears(second, "two", seen[1])
        me[0].send(["one"])
        hears(first, "one", seen[0])
        assert (first.version, second.version) == (seen[0] + 1, seen[1] + 1)


def test_topics_can_change_while_others_send(tmp_path: Path) -> None:
    with transport(tmp_path, "kept") as (made, wakeups), transport(tmp_path) as (sender, _):
        is_over = threading.Event()

        def rename() -> None:
            number = 0
            while not is_over.is_set():
                number += 1
                made.listen(wakeups, ["kept", f"topic-{number % 50}"])

        renaming = threading.Thread(target=rename)
        renaming.start()
        for _ in range(100):
            seen = wakeups.version
            sender.send(["kept"])
            hears(wakeups, "kept", seen)
        is_over.set()
        renaming.join()
        assert len(sockets(tmp_path)) == 1


def test_a_full_queue_wakes_every_reader_of_the_listener(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    topics = [f"topic-{number}" for number in range(10 * queue_length())]
    with transport(tmp_path, *topics) as (_, wakeups), transport(tmp_path) as (sender, _):
        is_busy, may_continue = threading.Event(), threading.Event()
        bump = wakeups.bump

        def slow(changed: object = None) -> None:
            is_busy.set()
            may_continue.wait(SOON)
            bump(changed)  # type: ignore[arg-type]

        monkeypatch.setattr(wakeups, "bump", slow)
        seen = wakeups.version
        sender.send(["topic-0"])
        assert is_busy.wait(SOON)
        for topic in topics:
            sender.send([topic])
        may_continue.set()
        for topic in topics:
            hears(wakeups, topic, seen)
        monkeypatch.undo()


def test_a_killed_listener_is_removed_and_the_others_are_woken(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with open_store(path) as store, listener(path) as killed, listener(path) as living:
        folder = path.with_name("a.db.d")
        assert len(sockets(folder)) == 2
        killed.kill()
        killed.wait()
        a_session(store)
        assert living.stdout is not None
        assert living.stdout.readline() == "woken\n"
        assert len(os.listdir(folder / "wake")) == 2


def test_a_stopped_listener_blocks_no_commit_and_is_woken_later(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with open_store(path) as store, listener(path) as stopped, listener(path) as living:
        stopped.send_signal(signal.SIGSTOP)
        for number in range(3 * queue_length()):
            a_session(store, f"s{number}")
        assert living.stdout is not None
        assert stopped.stdout is not None
        assert living.stdout.readline() == "woken\n"
        stopped.send_signal(signal.SIGCONT)
        assert stopped.stdout.readline() == "woken\n"


@pytest.mark.slow
def test_two_hundred_listeners_are_all_woken(tmp_path: Path) -> None:
    made = [Datagrams(tmp_path / "wake", tmp_path / "a.db") for _ in range(200)]
    all_wakeups = [Wakeups(one) for one in made]
    try:
        for one, wakeups in zip(made, all_wakeups, strict=True):
            one.listen(wakeups, [ALL_QUEUES])
        seen = [wakeups.version for wakeups in all_wakeups]
        with transport(tmp_path) as (sender, _):
            sender.send([ALL_QUEUES])
        for wakeups, before in zip(all_wakeups, seen, strict=True):
            hears(wakeups, ALL_QUEUES, before)
    finally:
        for wakeups in all_wakeups:
            wakeups.close()
    assert os.listdir(tmp_path / "wake") == []


async def test_a_store_works_where_sockets_cannot_be_made(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with open_store(path) as store:
        path.with_name("a.db.d").joinpath("wake").write_text("not a folder")
        a_session(store)
        seen = store.wakeups.version
        async with asyncio.timeout(SOON):
            await store.wakeups.wait_queues(seen, None, 0.01)  # its listener cannot begin
            waiting = asyncio.ensure_future(store.wakeups.wait_queues(store.wakeups.version, None, 600))
            await asyncio.to_thread(wait_until, store.wakeups.has_waiters.is_set, "a reader waits", SOON)
            await asyncio.to_thread(a_session, store)
            await waiting
        assert store.wakeups.has_changed(seen, ALL_QUEUES)


def test_a_long_path_of_a_store_is_no_obstacle(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 40) / ("longer" * 20)
    folder.mkdir(parents=True)
    with transport(folder, "one") as (_, wakeups), transport(folder) as (sender, _):
        seen = wakeups.version
        sender.send(["one"])
        hears(wakeups, "one", seen)
        assert wakeups.has_changed(seen, "one")


def test_two_stores_do_not_wake_each_other(tmp_path: Path) -> None:
    with open_store(tmp_path / "a.db") as one, open_store(tmp_path / "b.db") as two:
        for store in (one, two):
            store.database.wakeups._deliver([queue_topic("default")])
        seen = two.wakeups.version
        a_session(one)
        assert two.wakeups.version == seen
        a_session(two)
        assert two.wakeups.has_changed(seen, queue_topic("default"))


def test_a_forked_child_leaves_the_socket_to_its_parent(tmp_path: Path) -> None:
    with transport(tmp_path, "one") as (_, wakeups), transport(tmp_path) as (sender, _):
        before = sockets(tmp_path)
        _, code = os.waitpid(fork(lambda: None), 0)
        assert code == 0
        assert sockets(tmp_path) == before
        seen = wakeups.version
        sender.send(["one"])
        hears(wakeups, "one", seen)


def test_users_who_may_write_the_database_may_wake_its_processes(tmp_path: Path) -> None:
    (tmp_path / "a.db").touch(mode=0o660)
    (tmp_path / "a.db").chmod(0o660)
    with transport(tmp_path, "one"):
        (name,) = sockets(tmp_path)
        assert (tmp_path / "wake" / name).stat().st_mode & 0o777 == 0o660
