"""The harnesses of power loss and disk faults on raw SQLite, with positive controls that must find losses."""

import ctypes
import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path

import apsw
import pytest
from apsw import Connection

from tests.crash.support.disk_states import Write
from tests.crash.support.failing_disk import FailingDisk
from tests.crash.support.power_loss import Log, PowerLoss, Report, rebuild, sweep

MANY_ROWS = f"insert into pair_left select value, hex(randomblob(1500)) from json_each('{list(range(2, 60))}')"
MANY_STATEMENTS = "".join(f"insert into pair_left values ({i}, hex(randomblob(1500)));" for i in range(2, 60))


def connect(path: Path | str, vfs: str, synchronous: str = "full") -> Connection:
    connection = Connection(os.fspath(path), vfs=vfs)
    assert connection.pragma("journal_mode", "wal") == "wal"
    connection.pragma("synchronous", synchronous)
    connection.pragma("wal_autocheckpoint", 40)
    connection.set_busy_timeout(5000)
    for side in ("left", "right"):
        connection.execute(f"create table if not exists pair_{side} (id integer primary key, body)")
    return connection


def add_pairs(disk: PowerLoss, connection: Connection, ids: range) -> None:
    """One transaction per id, a row on each side of it, acknowledged after its COMMIT returned."""
    for number in ids:
        connection.execute("begin immediate")
        connection.execute("insert into pair_left values (?, ?)", (number, "l" * 100))
        connection.execute("insert into pair_right values (?, ?)", (number, "r" * 100))
        connection.execute("commit")
        disk.mark(f"acknowledged {number}")


def check(folder: Path, marks: list[str], label: str) -> str | None:
    acknowledged = {int(mark.split()[1]) for mark in marks}
    found = [path for path in (folder / "session.db", folder / "made" / "session.db") if path.exists()]
    if not found:
        return "the database is gone" if acknowledged else None
    with closing(Connection(os.fspath(found[0]))) as connection:
        assert connection.pragma("integrity_check") == "ok"
        if len(list(connection.execute("select name from sqlite_schema"))) < 2:
            return "the tables are gone" if acknowledged else None
        left, right = ({row[0] for row in connection.execute(f"select id from pair_{s}")} for s in ("left", "right"))
    assert left == right, "half a transaction is visible"
    missing = acknowledged - left
    return f"{len(missing)} of {len(acknowledged)} acknowledged rows are gone" if missing else None


def show(report: Report) -> Report:
    print(report)
    return report


def sync_folder(path: Path | str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def run_pairs(folder: Path, synchronous: str = "full", commits: int = 120, *, swallow_syncs: bool = False) -> Log:
    with PowerLoss(folder, swallow_syncs=swallow_syncs) as disk:
        with closing(connect(folder / "session.db", disk.vfs_name, synchronous)) as connection:
            add_pairs(disk, connection, range(1, commits + 1))
    return disk.log


@pytest.mark.slow
def test_full_sync_loses_nothing_at_any_cut(tmp_path: Path) -> None:
    log = run_pairs(tmp_path, commits=200)
    wal_headers = [op for op in log.ops if isinstance(op, Write) and op.offset == 0 and len(op.data) == 32]
    assert len(wal_headers) > 3, "the WAL was restarted inside the run"
    report = show(sweep(log, check, states=3 * len(log.cuts)))
    assert report.states == 3 * len(log.cuts) > 3000
    assert report.distinct > 1000
    assert (report.lost, report.corrupt) == (0, 0), report.failures[:5]


@pytest.mark.slow
def test_normal_sync_is_caught_losing_and_never_corrupts(tmp_path: Path) -> None:
    report = show(sweep(run_pairs(tmp_path, "normal"), check, states=500))
    assert report.lost > 50
    assert report.corrupt == 0, report.failures[:5]


@pytest.mark.slow
def test_a_disk_that_swallows_syncs_is_caught(tmp_path: Path) -> None:
    assert show(sweep(run_pairs(tmp_path, swallow_syncs=True), check, states=500)).lost > 50


def test_the_first_sync_of_a_wal_handle_syncs_its_folder(tmp_path: Path) -> None:
    """The recording cannot see this and assumes it: watch SQLite open the folder to sync it."""
    shape = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(ctypes.c_int))
    unix, opened = apsw.VFS("watched", ""), list[str]()
    real = unix.xGetSystemCall("openDirectory") or 0

    def watch(path: bytes, descriptor: object) -> int:
        opened.append(Path(os.fsdecode(path)).name)
        return int(shape(real)(path, descriptor))

    watching = shape(watch)
    unix.xSetSystemCall("openDirectory", ctypes.cast(watching, ctypes.c_void_p).value or 0)
    for _ in range(2):
        with closing(connect(tmp_path / "session.db", "unix")) as connection:
            connection.execute("pragma user_version = 1; pragma user_version = 2")
    unix.xSetSystemCall("openDirectory", real)
    assert opened == ["session.db-journal", "session.db-wal", "session.db-wal"]


@pytest.mark.slow
def test_wal_needs_no_exclusive_lock_under_the_recording_vfs(tmp_path: Path) -> None:
    """Two writers and a reader, each on a thread and a connection of its own: the shared-memory calls work."""
    with PowerLoss(tmp_path) as disk:
        reader, *writers = (connect(tmp_path / "session.db", disk.vfs_name) for _ in range(3))
        with ThreadPoolExecutor() as pool:
            list(pool.map(partial(add_pairs, disk), writers, (range(1, 40), range(101, 140))))
        assert reader.pragma("locking_mode") == "normal"
        assert (tmp_path / "session.db-shm").exists()
        assert reader.execute("select count(*) from pair_left").get == 78
        for connection in (reader, *writers):
            connection.close()
    report = show(sweep(disk.log, check, states=400))
    assert (report.lost, report.corrupt) == (0, 0), report.failures[:5]


@pytest.mark.parametrize("barrier", [False, True])
def test_a_made_folder_lasts_only_when_its_parent_was_synced(tmp_path: Path, barrier: bool) -> None:
    with PowerLoss(tmp_path) as disk:
        (tmp_path / "made").mkdir()
        with closing(connect(tmp_path / "made" / "session.db", disk.vfs_name)) as connection:
            if barrier:
                sync_folder(tmp_path)
            add_pairs(disk, connection, range(1, 30))
    report = show(sweep(disk.log, check, states=300))
    assert (bool(report.lost), report.corrupt) == (not barrier, 0), report.failures[:5]


@pytest.mark.slow
@pytest.mark.parametrize(("barriers", "safe"), [("none", False), ("creation", False), ("every open", True)])
def test_a_folder_sqlite_cannot_sync_needs_a_barrier_at_each_open(tmp_path: Path, barriers: str, safe: bool) -> None:
    """Closing the last connection deletes the WAL, so the next open makes a name that is not yet durable."""
    with PowerLoss(tmp_path, folder_syncs=False) as disk:
        for opened, ids in enumerate((range(1, 30), range(30, 60))):
            with closing(connect(tmp_path / "session.db", disk.vfs_name)) as connection:
                connection.execute("pragma user_version = 1")
                if barriers == "every open" or (barriers == "creation" and opened == 0):
                    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
                    sync_folder(tmp_path)
                add_pairs(disk, connection, ids)
    report = show(sweep(disk.log, check, states=300))
    assert (report.lost + report.corrupt == 0) is safe


@pytest.mark.parametrize("left_out", ["nothing", "sync", "sync folder"])
def test_a_plain_file_lasts_only_when_file_and_folder_were_synced(tmp_path: Path, left_out: str) -> None:
    body = b"artifact" * 400
    with PowerLoss(tmp_path) as disk:
        for number in range(8):
            with open(tmp_path / "temp", "wb", buffering=0) as file:
                file.write(body)
                if left_out != "sync":
                    os.fsync(file)
            (tmp_path / "temp").replace(tmp_path / str(number))
            if left_out != "sync folder":
                sync_folder(tmp_path)
            disk.mark(f"{number}")

    def whole(folder: Path, marks: list[str], label: str) -> str | None:
        gone = [mark for mark in marks if not (folder / mark).exists() or (folder / mark).read_bytes() != body]
        return f"{gone} are gone" if gone else None

    report = show(sweep(disk.log, whole, states=200))
    assert (bool(report.lost), report.corrupt) == (left_out != "nothing", 0), report.failures[:5]


@pytest.mark.slow
def test_the_same_seed_builds_the_same_disks_again(tmp_path: Path) -> None:
    log = run_pairs(tmp_path, "normal", 30)
    first, again, other = (sweep(log, check, states=200, seed=seed) for seed in (1, 1, 2))
    assert first == again != other
    label, _, loss = first.failures[-1].split(": ")
    marks = rebuild(log, label, tmp_path / "seen", seed=1)
    assert check(tmp_path / "seen", marks, label) == loss


@pytest.fixture
def disk() -> Iterator[FailingDisk]:
    with FailingDisk() as disk:
        yield disk


@pytest.fixture
def connection(tmp_path: Path, disk: FailingDisk) -> Iterator[Connection]:
    (tmp_path / "store").mkdir()
    with closing(connect(tmp_path / "store" / "session.db", disk.vfs_name)) as connection:
        yield connection


def begin_group(connection: Connection) -> None:
    """A group as the store commits it: one move done and released, the next inside its savepoint."""
    connection.execute("begin immediate; savepoint first; insert into pair_left values (1, 1); release first")
    connection.execute("savepoint second")


def ids(connection: Connection) -> list[object]:
    return [row[0] for row in connection.execute("select id from pair_left order by id")]


def after_a_crash(connection: Connection) -> list[object]:
    """The rows after a recovery of the files as they are now. Reading them drops locks: for one connection only."""
    folder = Path(connection.filename).parent
    copy = folder.with_name(f"copy {len(list(folder.parent.iterdir()))}")
    shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("*-shm"))
    with closing(Connection(os.fspath(copy / "session.db"))) as recovered:
        return ids(recovered)


@pytest.mark.parametrize("statements", [MANY_STATEMENTS, MANY_ROWS], ids=["many statements", "one statement"])
def test_a_full_disk_in_a_savepoint_undoes_the_group(
    connection: Connection, disk: FailingDisk, statements: str
) -> None:
    connection.pragma("cache_size", 5)  # pages spill into the WAL before the commit
    begin_group(connection)
    disk.full_after(8000)
    with pytest.raises(apsw.FullError):
        connection.execute(statements)
    assert not connection.in_transaction
    with pytest.raises(apsw.SQLError, match="no such savepoint"):
        connection.execute("rollback to second")
    disk.heal()
    assert ids(connection) == []
    connection.execute("insert into pair_left values (7, 7)")
    assert (ids(connection), connection.pragma("integrity_check")) == ([7], "ok")


def test_a_full_database_may_undo_only_the_statement(connection: Connection) -> None:
    """The same error, another outcome: a statement with a journal of its own keeps the group, see `in_transaction`."""
    connection.execute("create unique index bodies on pair_left (body)")
    connection.execute(f"pragma max_page_count = {connection.execute('pragma page_count').get + 3}")
    begin_group(connection)
    with pytest.raises(apsw.FullError):
        connection.execute(MANY_ROWS)
    assert connection.in_transaction
    connection.execute("rollback to second; release second; commit")
    assert ids(connection) == [1]


def test_a_commit_on_a_full_disk_fails_until_there_is_room(connection: Connection, disk: FailingDisk) -> None:
    begin_group(connection)
    disk.full_after(2000)
    with pytest.raises(apsw.FullError):
        connection.execute("commit")
    assert not connection.in_transaction
    assert ids(connection) == []
    disk.heal()
    connection.execute("insert into pair_left values (7, 7)")
    assert after_a_crash(connection) == [7]


def test_a_commit_whose_sync_failed_may_reappear_until_a_barrier(connection: Connection, disk: FailingDisk) -> None:
    """A plain read does not see it, after a crash it is there; the next synced commit overwrites it for good."""
    begin_group(connection)
    disk.sync_fails()
    with pytest.raises(apsw.IOError) as failure:
        connection.execute("commit")
    assert getattr(failure.value, "extendedresult", None) == apsw.SQLITE_IOERR_FSYNC
    assert not connection.in_transaction
    assert ids(connection) == []
    assert after_a_crash(connection) == [1]
    connection.execute("insert into pair_right values (1, 1)")
    assert after_a_crash(connection) == ids(connection) == []


def test_a_failed_automatic_checkpoint_raises_after_a_durable_commit(connection: Connection, disk: FailingDisk) -> None:
    """SQLite ignores this failure; apsw raises what a Python VFS raised. To the store it is an ambiguous commit."""
    connection.pragma("wal_autocheckpoint", 1)
    disk.sync_fails(nth=2)
    with pytest.raises(apsw.IOError):
        connection.execute("insert into pair_left values (1, 1)")
    assert ids(connection) == after_a_crash(connection) == [1]


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_when_power_fails_after_disk_faults(tmp_path: Path) -> None:
    refused = 0
    with PowerLoss(tmp_path) as recorded, FailingDisk(base=recorded.vfs_name) as disk:
        connection = connect(tmp_path / "session.db", disk.vfs_name)
        for number in range(1, 61):
            (disk.sync_fails, disk.write_fails, lambda: disk.full_after(5000), disk.heal, disk.heal)[number % 5]()
            try:
                add_pairs(recorded, connection, range(number, number + 1))
            except (apsw.IOError, apsw.FullError):
                refused += 1
                disk.heal()
        connection.close()
    report = show(sweep(recorded.log, check, states=400))
    assert refused > 30
    assert (report.lost, report.corrupt) == (0, 0), report.failures[:5]
