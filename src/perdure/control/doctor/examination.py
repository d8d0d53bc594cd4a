"""The doctor: inspects a store from outside and reports what is there, what is wrong, and what to do.

It never repairs, migrates or creates a store. A store that cannot be opened is a finding too, beside everything else
that could be read.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Literal

from perdure.clock import SECOND, boot_time
from perdure.control.doctor import depth, findings
from perdure.control.doctor.governance import examine_governance
from perdure.control.doctor.notification_findings import of_notifications
from perdure.control.doctor.report import DiskStatus, DoctorReport, Latency, Schema, StaleSession, WorkerStatus, wrong
from perdure.control.doctor.schedule_findings import of_schedules
from perdure.control.doctor.stuck_sessions import stuck
from perdure.domain.worker import Liveness, WorkerRecord
from perdure.durable import FULL
from perdure.errors import ConfigError, Damaged, NotFound, PerdureError, StoreFull
from perdure.ids import new_uid
from perdure.runtime.workers.liveness import locks_at
from perdure.store import failover, migrate
from perdure.store.databases.sqlite.location import Reserve, check_file_system, check_library
from perdure.store.databases.sqlite.read_only import is_writable
from perdure.store.inspection import damage, read_access
from perdure.store.inspection.read_access import StoreLocation, StoreReader
from perdure.store.inspection.survey import survey as take_survey
from perdure.store.move import StoreTransaction
from perdure.store.moves import notification, restore, schedule
from perdure.store.row_check import DamagedRow
from perdure.store.writer.lock import life_of

SAMPLES = 20
SHOWN = 20  # damaged rows with a finding each; --json lists all
BLOCK = bytes(4096)
WEEK = 7 * 86_400 * SECOND
SCHEDULES = 1000  # that are examined


def diagnose(
    target: str | None = None, *, deep: bool = False, connections: int = 8, artifacts: str | None = None
) -> DoctorReport:
    """Inspect a store, and what running here means for the commands of agents in the current folder."""
    report = examine(target, deep=deep, connections=connections, artifacts=artifacts)
    report.findings += findings.privileged(Path.cwd())
    return report


def examine(
    target: str | None = None, *, deep: bool = False, connections: int = 8, artifacts: str | None = None
) -> DoctorReport:
    """Inspect the store at `target`, which may not exist. `deep` reads every page and every chain."""
    place = read_access.locate_store(target)
    report = DoctorReport(kind=place.kind, place=place.shown)
    parts: list[Callable[[], None]] = [lambda: _inspect_inside(report, place, deep=deep, artifacts=artifacts)]
    if place.kind == "postgres":
        _describe_address(report, place, connections)
    if place.kind in ("sqlite", "files"):
        parts.insert(0, lambda: _inspect_disk(report, place))
    for inspect in parts:  # if this user may not read one of them, the other is still inspected
        try:
            inspect()
        except PerdureError as error:
            report.findings.append(findings.cannot_open(error, expected=place.given))
        except OSError as error:
            report.findings.append(findings.cannot_read(error))
    report.findings += findings.judge(report)
    report.depth = depth.of(report)
    report.healthy = not any(finding.level in ("wrong", "stuck") for finding in report.findings)
    return report


def _describe_address(report: DoctorReport, place: StoreLocation, connections: int) -> None:
    from perdure.store.databases.postgres.address import connection_budget, direct_address, parse_address

    report.pooler = "transaction" if parse_address(place.address).pooled else None
    report.direct = direct_address(place.address) is not None
    report.connections_per_process = connection_budget(connections)


def _inspect_inside(report: DoctorReport, place: StoreLocation, *, deep: bool, artifacts: str | None) -> None:
    if place.kind == "memory":
        return
    if place.kind == "files" and report.processes:
        report.exists = True
        report.findings.append(findings.in_use(report.processes[0]))
        return
    with read_access.read_store(place) as found:
        _inspect_store(report, place, found, deep=deep, artifacts=artifacts)


def _inspect_store(
    report: DoctorReport, place: StoreLocation, found: StoreReader, *, deep: bool, artifacts: str | None
) -> None:
    properties = read_access.properties(found.tx)
    if place.kind == "postgres":
        report.server, report.clock_offset = read_access.server(found.tx), found.offset
        report.size = report.server.size
        report.processes = [f"{host}: {count} connections" for host, count in report.server.clients.items()]
    if not properties:
        raise NotFound(
            f"{place.shown} holds no Perdure store.", hint="Check the address; the first use creates a store."
        )
    report.exists = True
    steps = migrate.load("postgres" if place.kind == "postgres" else "sqlite")
    known, needed = len(steps), migrate.needed(steps)
    version, compatible_from = int(properties["schema_version"]), int(properties["compatible_from"])
    report.store_id, report.schema = properties["store_id"], Schema(version, compatible_from, known, needed)
    if place.kind == "sqlite" and place.path is not None and is_writable(place.path.parent):
        report.durability = read_access.durability(found.tx, place.path)
    if place.kind == "postgres" and report.server is not None and not report.server.in_recovery:
        report.latency = measure(lambda: read_access.commit(found.tx), of="commit on the server")
    migrate.check(version, compatible_from, known)
    if version < needed:  # its rows may lack columns that this code reads
        return
    try:
        _inspect_rows(report, place, found)
        report.now = found.tx.now
        report.governance = examine_governance(found.tx, postgres=place.kind == "postgres", artifacts=artifacts)
    except Damaged as error:
        report.findings.append(wrong(error.message, error.hint))
    if deep:
        _read_everything(report, found.tx)


def _read_everything(report: DoctorReport, tx: StoreTransaction) -> None:
    """Read every page of the file and every session; damage in one does not stop the others."""
    report.findings += [findings.damaged(what) for what in damage.file_damage(tx)]
    sessions, damaged = 0, 0
    for uid in damage.session_uids(tx):
        found = [uid] if isinstance(uid, DamagedRow) else damage.of_session(tx, uid)
        sessions, damaged = sessions + 1, damaged + bool(found)
        report.damaged += found
    report.damaged += damage.shared_facts(tx)
    report.findings += [findings.damaged(str(one)) for one in report.damaged[:SHOWN]]
    if damaged:
        report.findings.append(findings.intact(sessions - damaged, len(report.damaged) - SHOWN))
    report.read_everything = True


def _inspect_rows(report: DoctorReport, place: StoreLocation, found: StoreReader) -> None:
    survey = take_survey(found.tx)
    locks = locks_at(place.folder, report.store_id or "", shared=place.kind == "postgres")
    report.sessions, report.stale = survey.sessions, survey.stale
    report.undecided, report.in_doubt = survey.undecided, survey.in_doubt
    report.quarantined, report.overdue = survey.quarantined, survey.overdue
    restores = restore.listing(found.tx)
    report.restores = [one for one in restores if one.released_at is None]
    recent = [one for one in restores[:1] if found.tx.now - one.began_at < WEEK]
    report.failover = next((one for one in recent if one.released_by == failover.BY), None)
    report.unheard = failover.missing_writers(found.tx)
    report.unrecorded_restore = read_access.unrecorded_restore(found)
    report.workers = [_with_life(one, locks.life(one)) for one in survey.workers]
    damaged: list[Damaged] = []
    report.stuck = stuck(
        found.tx, found.tx.now, is_alive=lambda one: locks.life(one) is not Liveness.DEAD, damaged=damaged
    )
    report.findings += [wrong(error.message, error.hint) for error in damaged[:1]]
    report.stale_sessions = [
        StaleSession(one.id, one.lease_holder or "", found.tx.now - (one.lease_until or 0))
        for one in survey.stale_sessions
    ]
    report.findings += of_schedules(schedule.listing(found.tx, limit=SCHEDULES), found.tx.now)
    report.notifications = notification.counts(found.tx)
    report.findings += of_notifications(report.notifications)


def _with_life(one: WorkerRecord, life: Liveness) -> WorkerStatus:
    return WorkerStatus(one.id, one.host, one.pid, life, one.seen_at, one.role)


def _inspect_disk(report: DoctorReport, place: StoreLocation) -> None:
    """Inspect the disk, also if there is no store yet: it is where the store would be."""
    assert place.folder is not None
    assert place.path is not None
    report.sqlite = read_access.sqlite_version()
    folder = next(level for level in (place.folder, *place.folder.parents) if level.is_dir())
    file_system = "network"
    try:
        check_library()
        file_system = check_file_system(folder.resolve())
    except ConfigError as error:
        report.findings.append(wrong(error.message, error.hint))
    there, reserve, full = os.statvfs(folder), Reserve(folder).path, False
    try:
        report.latency = measure_disk(folder)
    except StoreFull:
        full = True
    report.disk = DiskStatus(
        str(folder), file_system, there.f_bavail * there.f_frsize,
        reserve.stat().st_size if reserve.exists() else 0, full,
    )  # fmt: skip
    if place.kind == "sqlite":
        files = [place.path.with_name(place.path.name + end) for end in ("", "-wal")]
        report.size = sum(file.stat().st_size for file in files if file.is_file())
    else:
        report.size = sum(file.stat().st_size for file in place.path.rglob("*.jsonl"))
    report.processes = _open_processes(place)


def _open_processes(place: StoreLocation) -> list[str]:
    """The processes that have a store on this machine open: each holds a lock named by its process id."""
    assert place.folder is not None
    if place.kind == "files":
        return [holder.lower() for holder in [read_access.holder_of_files(place)] if holder]
    folder = place.folder / "present"
    names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    return [f"process {name.partition('-')[0]}" for name in names if life_of(folder, name) is not Liveness.DEAD]


def measure(act: Callable[[], object], *, of: Literal["sync of this disk", "commit on the server"]) -> Latency:
    times = []
    for _ in range(SAMPLES):
        began = boot_time()
        act()
        times.append(boot_time() - began)
    return Latency(int(median(times)), max(times), SAMPLES, of)


def measure_disk(folder: Path) -> Latency | None:
    """Write and sync one page repeatedly in a temporary file; None if that is not permitted.

    Raises `StoreFull` if there is no space for it.
    """
    path = folder / f"doctor-{new_uid()}"
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as error:
        _raise_if_full(error)
        return None
    try:

        def act() -> None:
            os.write(descriptor, BLOCK)
            os.fsync(descriptor)

        return measure(act, of="sync of this disk")
    except OSError as error:
        _raise_if_full(error)
        return None
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)


def _raise_if_full(error: OSError) -> None:
    if error.errno in FULL:
        raise StoreFull("The disk is full; nothing was written.") from error
