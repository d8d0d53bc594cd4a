"""One damaged row is named, and other sessions are not affected."""

from __future__ import annotations

from pathlib import Path

import apsw
import psycopg
import pytest

from perdure.cli.text.doctor import conclusion
from perdure.control.doctor.examination import examine
from perdure.control.doctor.report import DoctorReport
from perdure.store.moves import session
from perdure.store.row_check import DamagedRow
from perdure.store.store import open_store
from tests.cli.support.terminal import Terminal

BROKEN = "cast(x'7b22ff7d' as text)"  # not UTF-8
OF_T2 = "session_uid = (select uid from session where id = 't2')"
IN_SQLITE = {
    "event": (f"update event set body = {BROKEN} where number = 2 and {OF_T2}", "table event, number 2: body"),
    "session": (f"update session set title = {BROKEN} where id = 't2'", "table session, uid "),
    "wait": (f"update wait set detail = {BROKEN} where {OF_T2}", "table wait, id "),
    "json": ("update session set arguments = '{\"a\": ' where id = 't2'", "arguments is not JSON"),
    "gap": (f"delete from event where number = 2 and {OF_T2}", "The log has a gap"),
    "status": ("update session set status = 'lost' where id = 't2'", "status cannot be 'lost'"),
    "uid": (f"update session set uid = {BROKEN} where id = 't2'", "uid is not UTF-8 text"),
}


@pytest.fixture
def three(terminal: Terminal) -> Terminal:
    for name in ("t1", "t2", "t3"):
        terminal("run", "user_talk", "--id", name)
    return terminal


def damage_file(path: Path, statement: str) -> None:
    db = apsw.Connection(str(path))
    db.execute("pragma ignore_check_constraints = 1")
    for (name,) in db.execute("select name from sqlite_master where type = 'trigger'").fetchall():
        db.execute(f"drop trigger {name}")
    db.execute(statement)
    db.close()


@pytest.mark.slow
@pytest.mark.parametrize("kind", IN_SQLITE)
def test_damaged_row_is_named_and_other_sessions_are_checked(three: Terminal, kind: str) -> None:
    statement, told = IN_SQLITE[kind]
    damage_file(three.folder / "perdure.db", statement)
    deep = three("doctor", "--deep")
    assert (deep.code, told in deep.out, "Intact sessions: 2." in deep.out) == (1, True, True)
    assert kind == "uid" or "Session t2: " in deep.out
    checked = three("verify", "--json")
    assert (checked.code, checked.json["sessions"], checked.json["damaged_sessions"]) == (1, 3, 1)
    assert any(told in one for one in checked.json["damaged"])
    assert (three("verify", "t1").code, three("verify", "t3").code) == (0, 0)
    assert three("export", "t1", "--to", "t1.zip").code == 0
    refused = three("export", "t2")
    assert (refused.code, "Unexpected error" in refused.err, Path("t2.zip").exists()) == (1, False, False)
    listed = three("ls", "--json")
    assert {"t1", "t3"} <= {one["id"] for one in listed.lines}
    assert listed.code == (
        0 if kind in ("event", "gap", "status") else 1
    )  # it reads no log, and shows a status as it is
    assert three("answer", "t1", "Ada").code == 0
    assert three("resume", "t1").out.endswith("hello Ada\n")


def test_doctor_without_deep_reports_unread_contents() -> None:
    report = DoctorReport(kind="sqlite", place="x", exists=True, sessions={})
    assert list(conclusion(report))[-1].endswith(" in what was checked; --deep checks all")
    report.read_everything = True
    assert list(conclusion(report))[-1] == "[green]nothing wrong[/]"


IN_POSTGRES = {
    "json": ("update session set arguments = '{\"a\": ' where id = 't2'", "arguments is not JSON"),
    "gap": (f"delete from event where number = 2 and {OF_T2}", "The log has a gap"),
}


@pytest.fixture
def broken(target: str, request: pytest.FixtureRequest) -> str:
    with open_store(target) as store:
        for name in ("t1", "t2", "t3"):
            store.write_now(session.create(session.NewSession(id=name, program="p", arguments={}), by="ada"))
            uid = store.read_now(session.get_by_id, name).uid
            for _ in range(2):
                store.write_now(
                    session.describe(uid, "ada", expected=store.read_now(session.get, uid).version, title="x")
                )
    with psycopg.connect(target, autocommit=True) as db:
        db.execute("set session_replication_role = replica")
        db.execute(request.param.encode())
    return target


@pytest.mark.databases("postgres")
@pytest.mark.parametrize(("broken", "told"), list(IN_POSTGRES.values()), ids=list(IN_POSTGRES), indirect=["broken"])
def test_damaged_row_is_named_on_postgres(broken: str, told: str) -> None:
    report = examine(broken, deep=True)
    assert [(one.session, told in one.what) for one in report.damaged] == [("t2", True)]
    assert report.healthy is False
    with open_store(broken) as store:
        found: list[DamagedRow] = []
        names = [one.id for one in store.read_now(session.page, damaged=found)]
        assert {"t1", "t3"} <= set(names)
