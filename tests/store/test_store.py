"""The store itself: reads see one snapshot and block no writer, and the store is at its address."""

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from perdure.errors import ConfigError, NotFound, StoreUnavailable
from perdure.store.databases.sqlite.location import check_file_system, check_library
from perdure.store.move import Move, StoreTransaction
from perdure.store.moves import event, inbox, meta, session
from perdure.store.store import Store, open_store
from tests.store.support.sessions import a_session, plain

T = TypeVar("T")

PATIENCE = 60.0  # seconds
SEVERAL_CONNECTIONS = pytest.mark.databases("sqlite", "postgres")


class Pause:
    """Holds a read or a move open, until the test lets it continue."""

    def __init__(self) -> None:
        self.inside, self.go_on = threading.Event(), threading.Event()

    def here(self) -> None:
        self.inside.set()
        assert self.go_on.wait(PATIENCE)


@contextmanager
def meanwhile(pause: Pause, work: Callable[[], object]) -> Iterator[None]:
    """Run something in another thread that stays open while the test continues."""
    thread = threading.Thread(target=work)
    thread.start()
    assert pause.inside.wait(PATIENCE)
    yield
    pause.go_on.set()
    thread.join(PATIENCE)
    assert not thread.is_alive()


@SEVERAL_CONNECTIONS
def test_a_long_read_sees_one_snapshot_and_blocks_no_write(store: Store) -> None:
    uid, pause, seen = a_session(store).uid, Pause(), list[int]()

    def look(tx: StoreTransaction) -> None:
        seen.append(session.get(tx, uid).cursor)
        pause.here()
        seen.append(session.get(tx, uid).cursor)

    with meanwhile(pause, lambda: store.read_now(look)):
        for number in range(50):
            store.write_now(inbox.receive(uid, "ada", f"m-{number}", number))
        assert store.read_now(session.get, uid).cursor == 51
    assert seen == [1, 1]
    store.read_now(event.verify, uid)


@SEVERAL_CONNECTIONS
def test_a_long_write_blocks_no_read_and_is_invisible_until_committed(store: Store) -> None:
    uid, pause, receive = a_session(store).uid, Pause(), None
    receive = inbox.receive(uid, "ada", "m-1", 1)

    def write(tx: StoreTransaction) -> None:
        receive.run(tx)
        pause.here()

    with meanwhile(pause, lambda: store.write_now(Move("slow", "outsider", write))):
        for _ in range(20):
            assert store.read_now(session.get, uid).cursor == 1
            assert store.read_now(inbox.get, uid, "m-1") is None
    assert store.read_now(session.get, uid).cursor == 2


async def test_sync_and_async_calls_do_the_same(store: Store) -> None:
    uid = a_session(store).uid
    assert (await store.write(inbox.receive(uid, "ada", "m-1", 1))).sequence == 1
    assert store.write_now(inbox.receive(uid, "ada", "m-2", 2)).sequence == 2
    assert await store.read(session.get, uid) == store.read_now(session.get, uid)
    for shell in (lambda: store.read_now(session.get, "missing"), lambda: store.write_now(plain(_not_found))):
        with pytest.raises(NotFound):
            shell()
    with pytest.raises(NotFound):
        await store.read(session.get, "missing")


def _not_found(tx: StoreTransaction) -> None:
    raise NotFound("nothing here")


def test_a_read_takes_arguments_by_name(store: Store) -> None:
    a_session(store, owner="ada")
    assert len(store.read_now(session.page, owner="ada", limit=5)) == 1
    assert store.read_now(session.page, owner="bob") == []


def test_the_default_store_is_in_the_users_data_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(folder))
    with open_store() as store:
        store.write_now(meta.put("a", "b"))
    assert (folder / "perdure" / "perdure.db").is_file()


@pytest.mark.databases("sqlite", "files", "postgres")
def test_what_was_written_is_there_after_opening_again(target: str) -> None:
    with open_store(target) as store:
        made = a_session(store, title="漢字 \U0001f600", arguments={"deep": [1, {"x": None}]})
    with open_store(target) as store:
        assert store.read_now(session.get, made.uid) == made


@pytest.mark.databases("files")
def test_text_files_are_for_one_process_at_a_time(target: str) -> None:
    with open_store(target), pytest.raises(StoreUnavailable, match=r"Process \d+ has .* open"):
        open_store(target)
    open_store(target).close()


@pytest.mark.databases("files")
def test_text_files_can_be_read_by_people(target: str) -> None:
    with open_store(target) as store:
        uid = a_session(store, "review-7", title="Review").uid
        store.write_now(inbox.receive(uid, "ada", "m-1", {"text": "also the docs"}))
    lines = (Path(target.removeprefix("files:")) / "sessions" / "review-7.jsonl").read_text().splitlines()
    assert len(lines) == 2
    assert '"text":"also the docs"' in lines[1]


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "9p", "fuse.sshfs"])
def test_a_network_file_system_is_refused(kind: str) -> None:
    mounts = f"/dev/sda / ext4 rw 0 0\nserver:/x /mnt/net\\040work {kind} rw 0 0\n"
    assert check_file_system(Path("/mnt/other"), mounts) == "ext4"
    assert check_file_system(Path("/mnt/net worker"), mounts) == "ext4"
    with pytest.raises(ConfigError, match=kind):
        check_file_system(Path("/mnt/net work/perdure"), mounts)


def test_a_library_that_corrupts_its_log_is_refused() -> None:
    check_library(3_051_003)
    with pytest.raises(ConfigError, match=r"3\.51\.2"):
        check_library(3_051_002)


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize("how", ["replaced", "removed"])
def test_a_file_that_was_replaced_under_a_living_process_is_not_written(target: str, how: str) -> None:
    path = Path(target)
    with open_store(target) as store:
        a_session(store)
        path.rename(kept := path.with_suffix(".kept"))
        if how == "replaced":
            shutil.copy(kept, path)
        with pytest.raises(StoreUnavailable, match="replaced, moved or removed"):
            a_session(store)
        with pytest.raises(StoreUnavailable, match="replaced, moved or removed"):
            store.read_now(meta.properties)
        kept.replace(path)
        a_session(store)
