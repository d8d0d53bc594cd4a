"""Tasks of the opening sweeps: a process that creates or migrates a store, alone or beside another, is killed."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any
from unittest import mock

import apsw

from perdure.store import migrate
from perdure.store.databases.postgres.database import connect
from perdure.store.databases.postgres.migrator import PostgresMigrator
from perdure.store.moves import session
from perdure.store.store import Store, open_store
from perdure.testing import ManualClock
from perdure.testing.sweep.fork_process import Channel
from tests.crash.support.kill_points import arm_everything
from tests.crash.support.session_tasks import judge_session, run_workload
from tests.crash.support.session_workload import MOVES, WorkloadSession, folder_of
from tests.crash.support.verdict import Verdict, examine, integrity_problems, judge_safely, merge, verdict
from tests.store_copy import copy_store

SESSIONS = 5
HEAD = "-- phase: expand\n-- compatible_from: 1\n"
COLUMN = f"{HEAD}alter table session add column mood text"
FILL = (
    "update session set mood = 'calm' where uid in (select uid from session where mood is null order by uid limit 2)\n"
)
MORE: dict[str, list[dict[str, str]]] = {
    "plain": [{"mood.sql": f"{COLUMN} default 'calm';\n"}],
    "backfill": [{"mood.sql": f"{COLUMN};\n"}, {"calm.sql": HEAD, "calm.backfill.sql": FILL}],
}


def run_beside(channel: Channel, *, fatal: int, plant: str | None, target: str, id: str, folder: str) -> dict[str, Any]:
    """Open a store and begin a session while another process does the same; only this one is killed."""
    if os.fork() == 0:
        run_workload(
            channel, fatal=0, plant=None, target=target, id=f"{id}-beside", folder=folder, few=True, whose="beside"
        )
        os._exit(0)
    return run_workload(channel, fatal=fatal, plant=plant, target=target, id=id, folder=folder, few=True)


def judge_beside(
    _: object, *, acks: list[dict[str, Any]], measure: dict[str, Any], target: str, id: str, folder: str
) -> Verdict:
    mine, other = ([ack for ack in acks if ack["whose"] == whose] for whose in ("own", "beside"))
    found = judge_session(None, acks=mine, measure=measure, target=target, id=id, folder=folder)
    merge(found, judge_session(None, acks=other, measure=measure, target=target, id=f"{id}-beside", folder=folder))
    if len(other) < measure["few"]:
        found["stuck"].append(f"the other process was answered {len(other)} times")
    return found


@contextmanager
def newer_code(kind: str) -> Iterator[int]:
    """Inside `with`, this process knows some more migrations; yields the newest version."""
    real = migrate.load
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(str(resources.files("perdure.store").joinpath("migrations")), folder, dirs_exist_ok=True)
        known = len(real("sqlite"))
        for number, files in enumerate(MORE[kind], known + 1):
            for name, text in files.items():
                Path(folder, f"{number:04}_{name}").write_text(text)
        with mock.patch.object(migrate, "load", lambda dialect: real(dialect, Path(folder))):
            yield known + len(MORE[kind])


def make_old_store(channel: Channel, *, target: str) -> None:
    """A store of this version with some running sessions."""
    with open_store(target, clock=ManualClock()) as store:
        for number in range(SESSIONS):
            work = WorkloadSession(store, f"old-{number}", folder_of(store, Path(tempfile.gettempdir()) / "none"))
            for move in list(MOVES.values())[: 6 + 3 * number]:
                work.apply(move)


def migrate_store(
    channel: Channel, *, fatal: int, plant: str | None, target: str, old: str, kind: str
) -> dict[str, Any]:
    """Open an older store with newer code."""
    _copy(old, target)
    with newer_code(kind) as version:
        counter = arm_everything(channel, fatal)
        counter.counting = True
        if target.startswith("postgresql:"):
            with connect(target) as db:
                migrate.migrate(PostgresMigrator(db), migrate.load("postgres"))
        else:
            with open_store(target, clock=ManualClock()) as store:
                assert store.database.schema_version == version
        channel.send(ack="migrated")
        counter.counting = False
    return {"moments": counter.moments}


def _copy(old: str, new: str) -> None:
    if new.startswith("files:"):
        shutil.copytree(old.removeprefix("files:"), new.removeprefix("files:"))
    elif not new.startswith("postgresql:"):
        copy_store(old, new)


def judge_migration(_: object, *, acks: list[str], measure: None, target: str, old: str, kind: str) -> Verdict:
    """The next process finds the store whole, at some version, and migrates it with every row."""

    def judge() -> Verdict:
        found = verdict()
        if target.startswith("postgresql:"):
            with newer_code(kind), connect(target) as db:
                migrate.migrate(PostgresMigrator(db), migrate.load("postgres"))
                rows = db.execute("select mood, count(*) from session group by mood").fetchall()
        else:
            with newer_code(kind) as version, open_store(target, clock=ManualClock()) as store:
                if store.database.schema_version != version:
                    found["half"].append(f"the schema is at {store.database.schema_version}")
                rows = store.read_now(lambda tx: tx.execute("select mood, count(*) from session group by mood", ()))
                merge(found, _sessions(store))
            if ":" not in target:
                found["broken"] += integrity_problems(Path(target)) + _backups(Path(target + ".d") / "backups")
        if rows != [("calm", SESSIONS)]:
            found["half"].append(f"the backfill left {rows}")
        if not target.startswith(
            "files:"
        ):  # older code may continue, as the migration says; only text files need the new
            with open_store(target, clock=ManualClock()) as store:
                merge(found, _sessions(store))
        return found

    return judge_safely(judge)


def _sessions(store: Store) -> Verdict:
    found = verdict()
    rows = store.read_now(session.page)
    if len(rows) != SESSIONS:
        found["lost"].append(f"{len(rows)} of {SESSIONS} sessions are there")
    for row in rows:
        merge(found, store.read_now(examine, row.uid))
    return found


def _backups(folder: Path) -> list[str]:
    """Every file with the name of a backup can be restored. A half-written one does not have such a name."""
    found = []
    for path in folder.glob("*.db"):
        db = apsw.Connection(str(path))
        counted = db.execute("select count(*) from sqlite_schema where name = 'session'").get
        if counted != 1 or db.execute("select count(*) from session").get != SESSIONS:
            found.append(f"{path.name} has the name of a backup and is not whole")
        db.close()
    return found
