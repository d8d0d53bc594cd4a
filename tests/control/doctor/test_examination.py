"""The doctor: what it sees, what it makes of it, and that it leaves everything as it was."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from perdure.clock import SECOND
from perdure.control.doctor import examination
from perdure.control.doctor.depth import of
from perdure.control.doctor.examination import examine
from perdure.control.doctor.findings import judge
from perdure.control.doctor.report import DiskStatus, DoctorReport, Finding, Latency, StaleSession
from perdure.domain.worker import Liveness
from perdure.errors import ConfigError
from perdure.ids import new_uid
from perdure.runtime.workers.liveness import locks_of_store
from perdure.store.databases.sqlite.engine import connect
from perdure.store.inspection.read_access import Durability, Server, locate_store
from perdure.store.inspection.survey import survey
from perdure.store.moves import decision, lease, meta, session, worker
from perdure.store.store import open_store
from perdure.testing.postgres import PostgresServer
from perdure.testing.proxy import wait_until
from tests.store.support.schemas import ask

KEPT = pytest.mark.databases("sqlite", "files", "postgres")


def contents(folder: Path) -> dict[str, bytes]:
    """Every file that carries state; locks and SQLite's own scratch files do not."""
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.suffix[-4:] != "-shm"}


def levels(findings: list[Finding]) -> list[str]:
    return [finding.level for finding in findings]


@KEPT
def test_empty_store_is_healthy_and_has_a_depth(target: str) -> None:
    open_store(target).close()
    report = examine(target, deep=True)
    assert (report.findings, report.healthy, report.exists, report.read_everything) == ([], True, True, True)
    assert (report.sessions, report.stale, report.undecided, report.workers) == ({}, 0, 0, [])
    assert report.schema is not None
    assert report.schema.version == report.schema.known
    assert report.depth is not None
    assert report.depth.holds == {"sqlite": "D1", "files": "D0", "postgres": "D3"}[report.kind]
    assert report.depth.missing
    assert report.latency is not None
    assert 0 < report.latency.median <= report.latency.worst


@KEPT
def test_expired_lease_is_a_finding_until_it_is_taken_over(target: str) -> None:
    with open_store(target) as store:
        new = session.NewSession(id="s-1", program="review", arguments={})
        uid = store.write_now(session.create(new, by="ada")).uid
        holder = store.write_now(lease.acquire(uid, "w-1", nonce=new_uid(), ttl=-SECOND))
        store.write_now(decision.decide(holder, "d-1", "merge", because="green"))
    report = examine(target)
    assert (report.sessions, report.stale, report.undecided) == ({"running": 1}, 1, 1)
    assert [(one.id, one.holder, one.overdue > 0) for one in report.stale_sessions] == [("s-1", "w-1", True)]
    assert (levels(report.findings), report.healthy) == (["stuck"], False)
    assert "1 session has lost the worker" in report.findings[0].what
    assert report.depth is not None
    assert report.depth.holds is not None  # the store is in order; only the session does not continue


@pytest.mark.databases("sqlite", "postgres")
def test_workers_are_dead_alive_or_unknown(target: str) -> None:
    with open_store(target) as store, locks_of_store(store).enter(store) as me:
        gone = msgspec.structs.replace(me.worker, id="w-gone", pid=2**22 + 1)
        afar = msgspec.structs.replace(me.worker, id="w-afar", host="elsewhere", boot_id="b", start_token="1 m f 2")
        for one in (gone, afar):
            store.write_now(worker.register(one))
        report = examine(target)
        found = store.read_now(survey)
    assert {one.id: one.life for one in report.workers} == {
        me.id: Liveness.ALIVE, "w-gone": Liveness.DEAD, "w-afar": Liveness.CANNOT_TELL,
    }  # fmt: skip
    assert (levels(report.findings), report.healthy) == (["note"], True)
    assert report.findings[0].do == "Nothing to do: other workers can take over their sessions."
    assert len(found.workers) == 3
    alone = msgspec.structs.replace(report, workers=[one for one in report.workers if one.id == "w-gone"])
    assert "`perdure serve` starts one" in next(one.do for one in judge(alone) if " died " in one.what)
    assert not [one for one in of(alone).levels[2].needs if one.met]
    assert [one.evidence for one in of(alone).levels[2].needs] == ["no worker is alive"]


@pytest.mark.databases("sqlite")
def test_store_with_a_running_supervisor_is_served(target: str) -> None:
    with open_store(target) as store, locks_of_store(store).enter(store) as me:
        afar = msgspec.structs.replace(me.worker, id="w-afar", host="elsewhere", boot_id="b", start_token="1 m f 2")
        store.write_now(worker.register(msgspec.structs.replace(afar, role="supervisor")))
        report = examine(target)
    assert {one.id: one.role for one in report.workers} == {me.id: "worker", "w-afar": "supervisor"}
    assert report.depth is not None
    assert report.depth.holds == "D2"
    assert report.depth.levels[2].needs[0].evidence == "1 supervisor and 1 worker are alive"


@pytest.mark.databases("sqlite")
def test_processes_with_an_open_store_are_listed(target: str) -> None:
    with open_store(target):
        assert examine(target).processes == [f"process {os.getpid()}"]
    assert examine(target).processes == []


@pytest.mark.databases("files")
def test_text_files_in_use_are_not_a_fault(target: str) -> None:
    with open_store(target):
        report = examine(target)
    assert (report.healthy, report.processes) == (True, [f"process {os.getpid()}"])
    assert "in use" in report.findings[0].what


@pytest.mark.databases("sqlite", "files")
def test_doctor_changes_nothing(target: str, tmp_path: Path) -> None:
    with open_store(target) as store:
        store.write_now(session.create(session.NewSession(id="s-1", program="review", arguments={}), by="ada"))
    before = contents(tmp_path)
    examine(target, deep=True)
    after = contents(tmp_path)
    assert {name: after[name] for name in before} == before
    assert [name for name in after.keys() - before.keys() if after[name]] == []  # at most an empty log of SQLite's


@pytest.mark.parametrize("address", ["{}/none.db", "files:{}/none"])
def test_missing_store_is_reported_and_not_created(address: str, tmp_path: Path) -> None:
    report = examine(address.format(tmp_path))
    assert (report.exists, report.healthy, list(tmp_path.iterdir())) == (False, False, [])
    assert "There is no store at" in report.findings[0].what
    assert report.depth is not None
    assert report.depth.holds is None
    assert report.latency is not None  # the disk where it would be is measured all the same


def test_missing_default_store_is_not_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    report = examine(None)
    assert (report.healthy, levels(report.findings), list(tmp_path.iterdir())) == (True, ["note"], [])


def test_memory_has_the_lowest_depth() -> None:
    report = examine("memory:")
    assert report.healthy
    assert report.depth is not None
    assert report.depth.holds == "D0"


def test_file_that_is_not_a_database_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    path.write_bytes(b"a text of some kind\n" * 1000)
    report = examine(str(path))
    assert (report.healthy, levels(report.findings)) == (False, ["wrong"])
    assert "This is not a SQLite file." in report.findings[0].what
    assert path.read_bytes() == b"a text of some kind\n" * 1000


def test_database_of_another_program_is_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "mail.db"
    db = connect(str(path))
    db.execute("pragma journal_mode = delete")
    db.execute("create table meta (key text, value text)")
    db.close()
    before = path.read_bytes()
    report = examine(str(path))
    assert not report.healthy
    assert "holds no Perdure store" in report.findings[0].what
    assert path.read_bytes() == before


def test_journal_mode_changed_by_another_program_is_found(tmp_path: Path) -> None:
    path = tmp_path / "perdure.db"
    open_store(path).close()
    db = connect(str(path))
    db.execute("pragma journal_mode = delete")
    db.close()
    for _ in range(2):
        report = examine(str(path))
        assert report.durability is not None
        assert (report.durability.journal_mode, report.healthy) == ("delete", False)


def test_folder_is_not_treated_as_a_store(tmp_path: Path) -> None:
    assert "is a folder" in examine(str(tmp_path)).findings[0].what


def test_changed_byte_of_the_log_is_found_by_deep(tmp_path: Path) -> None:
    path = tmp_path / "perdure.db"
    with open_store(path) as store:
        new = session.NewSession(id="s-1", program="review", arguments={"text": "0" * 50_000})
        store.write_now(session.create(new, by="ada"))
    path.write_bytes(path.read_bytes().replace(b"0" * 4000, b"1" + b"0" * 3999))  # no byte of a page number
    assert examine(str(path)).healthy  # not read
    report = examine(str(path), deep=True)
    assert not report.healthy
    assert "does not match its digest" in report.findings[0].what


@pytest.mark.databases("sqlite", "postgres")
def test_newer_schema_is_refused_with_its_versions(target: str) -> None:
    with open_store(target) as store:
        store.write_now(meta.put("schema_version", "99"))
    ask(target, "update meta set value = '98' where key = 'compatible_from' returning key")
    report = examine(target)
    assert (report.healthy, report.sessions) == (False, None)
    assert report.schema is not None
    assert (report.schema.version, report.schema.compatible_from) == (99, 98)
    assert "schema 99" in report.findings[0].what


@pytest.mark.databases("sqlite", "postgres")
def test_older_schema_is_reported_and_not_migrated(target: str) -> None:
    with open_store(target) as store:
        store.write_now(meta.put("schema_version", "1"))
    report = examine(target)
    assert report.schema is not None
    assert (report.schema.version, report.sessions) == (1, None)
    assert levels(report.findings) == (["wrong"] if report.kind == "postgres" else ["note"])
    assert "perdure migrate" in report.findings[0].do


@pytest.mark.databases("sqlite", "postgres")
def test_compatible_newer_schema_is_a_note(target: str) -> None:
    with open_store(target) as store:
        store.write_now(meta.put("schema_version", "99"))
    report = examine(target)
    assert (report.healthy, levels(report.findings), report.sessions) == (True, ["note"], {})


def test_unreachable_server_is_reported_without_the_password() -> None:
    report = examine("postgresql://ada:secret@127.0.0.1:1/perdure?password=secret")
    assert (report.healthy, levels(report.findings)) == (False, ["wrong"])
    assert "cannot be reached" in report.findings[0].what
    assert b"secret" not in msgspec.json.encode(report)


@pytest.mark.postgres
def test_empty_database_does_not_become_a_store(postgres_server: PostgresServer) -> None:
    url = postgres_server.create_database()
    for _ in range(2):
        report = examine(url)
        assert (report.exists, report.healthy) == (False, False)
        assert "holds no Perdure store" in report.findings[0].what


@pytest.fixture(scope="module")
def own_server() -> Iterator[PostgresServer]:
    """A server whose settings a test may change."""
    with PostgresServer() as server:
        open_store(server.url).close()
        yield server


@pytest.mark.postgres
def test_asynchronous_standby_is_a_risk(own_server: PostgresServer, tmp_path: Path) -> None:
    program, options = (
        own_server.install / "bin" / "pg_receivewal",
        ["--no-loop", "--synchronous", "-d", own_server.url],
    )
    with subprocess.Popen([program, *options, "-D", tmp_path], stderr=subprocess.DEVNULL) as standby:
        try:
            wait_until(lambda: bool(server_of(own_server).standbys), "the standby is connected")
            report = examine(own_server.url)
            assert (report.healthy, levels(report.findings)) == (True, ["risk"])
            assert "374 of 1,040" in report.findings[0].what
            own_server._administer("alter system set synchronous_standby_names to '*'")
            own_server._administer("select pg_reload_conf()")
            wait_until(lambda: server_of(own_server).standbys[0][1] == "sync", "the standby is synchronous")
            report = examine(own_server.url)
            assert report.findings == []
            assert report.depth is not None
            assert "a synchronous standby" not in report.depth.missing
        finally:
            standby.kill()
            own_server._administer("alter system reset synchronous_standby_names")
            own_server._administer("select pg_reload_conf()")


def server_of(server: PostgresServer) -> Server:
    found = examine(server.url).server
    assert found is not None
    return found


SERVER = Server("18", "perdure", 1, "on", "on", "on", "", "on", False, 1, [], [], {})


@pytest.mark.parametrize(
    ("changes", "level", "what"),
    [
        ({"fsync": "off"}, "wrong", "fsync off"),
        ({"full_page_writes": "off"}, "wrong", "full_page_writes"),
        ({"synchronous_commit": "off"}, "wrong", "synchronous_commit is off"),
        ({"in_recovery": True}, "wrong", "is a standby"),
        ({"standbys": [("b", "async")]}, "risk", "asynchronous"),
        ({"absent_standbys": ["b"]}, "risk", "asynchronous"),
        (
            {"standbys": [("b", "sync")], "synchronous_standby_names": "b", "synchronous_commit": "local"},
            "risk",
            "async",
        ),
        ({"synchronous_standby_names": "b"}, "stuck", "none is connected"),
    ],
)
def test_each_fault_of_a_server_has_its_finding(changes: dict[str, object], level: str, what: str) -> None:
    server = msgspec.structs.replace(SERVER, **changes)
    report = DoctorReport(kind="postgres", place="", exists=True, server=server, sessions={})
    report.findings = judge(report)
    assert report.findings[0].level == level
    assert what in report.findings[0].what
    assert (of(report).holds == "D3") == (level != "wrong")


@pytest.mark.parametrize(
    ("changes", "level", "what"),
    [
        ({"disk": DiskStatus("/d", "tmpfs", 1 << 40, 1)}, "wrong", "in memory"),
        ({"disk": DiskStatus("/d", "overlay", 1 << 40, 1)}, "risk", "container"),
        ({"disk": DiskStatus("/d", "ext4", 1 << 20, 1)}, "stuck", "1 MiB"),
        ({"disk": DiskStatus("/d", "ext4", 1 << 40, 0)}, "note", "reserve"),
        ({"latency": Latency(3, 4, 20, "sync of this disk")}, "risk", "3 µs"),
        ({"latency": None}, "wrong", "Nothing can be written"),
        ({"durability": Durability("delete", "full")}, "wrong", "power failure"),
        ({"durability": Durability("wal", "normal")}, "wrong", "power failure"),
        ({"durability": Durability("delete", "unknown")}, "wrong", "power failure"),
        ({"in_doubt": 2}, "note", "2 effects are in doubt"),
        ({"processes": [str(n) for n in range(17)]}, "note", "17 processes"),
        (
            {"stale": 2, "stale_sessions": [StaleSession("a", "w", 1), StaleSession("b", "w", 1)]},
            "stuck",
            "2 sessions have lost the worker",
        ),
    ],
)
def test_each_fault_of_a_file_has_its_finding(changes: dict[str, object], level: str, what: str) -> None:
    healthy = DoctorReport(
        kind="sqlite", place="", exists=True, sessions={}, durability=Durability("wal", "full"),
        disk=DiskStatus("/d", "ext4", 1 << 40, 1 << 20), latency=Latency(200, 400, 20, "sync of this disk"),
    )  # fmt: skip
    assert judge(healthy) == []
    assert of(healthy).holds == "D1"
    report = msgspec.structs.replace(healthy, **changes)
    report.findings = judge(report)
    assert [report.findings[0].level, what in report.findings[0].what] == [level, True]
    assert report.findings[0].do
    assert (of(report).holds is None) == (level == "wrong")


def test_read_only_folder_has_no_latency(tmp_path: Path) -> None:
    assert examination.measure_disk(tmp_path / "missing") is None


@pytest.mark.parametrize("address", ["", "http://x", "a\0b"])
def test_invalid_address_is_refused(address: str) -> None:
    with pytest.raises(ConfigError):
        locate_store(address)


@pytest.mark.databases("postgres")
def test_another_timeline_is_reported_before_the_first_write(target: str) -> None:
    with open_store(target) as store:
        known = store.read_now(meta.get, "timeline")
        assert examine(target).unrecorded_restore is None
    ask(target, "update meta set value = '7000/00000001' where key = 'timeline' returning key")
    found = examine(target).unrecorded_restore
    assert found is not None
    assert (found.cause, found.detail) == ("timeline", f"7000/00000001 became {known}")
    assert examine(target).healthy is False
