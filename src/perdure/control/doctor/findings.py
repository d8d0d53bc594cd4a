"""The findings of the doctor: a sentence, a level, and what to do. What is in order is not a finding."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from perdure.agent.commands import sandbox
from perdure.clock import format_time
from perdure.control.doctor.gate_findings import of_gates
from perdure.control.doctor.report import DoctorReport, Finding, note, risk, stuck, wrong
from perdure.control.doctor.server_findings import of_server, of_standbys
from perdure.control.doctor.stuck_sessions import StuckSession
from perdure.domain.worker import Liveness
from perdure.errors import Damaged, NotFound, PerdureError
from perdure.store.databases.sqlite.location import MANY_PROCESSES

SCARCE = 64 << 20
FAST = 20  # microseconds: no disk that really syncs is faster than this


def cannot_open(error: PerdureError, *, expected: bool) -> Finding:
    """The store cannot be read. A store that does not exist yet is a fault only if the user named it."""
    if isinstance(error, NotFound):
        if not expected:
            return note(error.message, error.hint)
        return wrong(error.message, "Check the address. If it is right, the first session creates the store.")
    return damaged(error.message) if isinstance(error, Damaged) else wrong(error.message, error.hint)


def cannot_read(error: OSError) -> Finding:
    return wrong(f"{error.filename} cannot be read: {error.strerror}.", "Run as the user who owns the store.")


def in_use(process: str) -> Finding:
    return note(f"It is in use by {process}, and only one process at a time can use text files.", "Try again later.")


def damaged(what: str) -> Finding:
    return wrong(what, "Stop the workers, keep a copy of the files as they are, and restore a backup.")


def intact(sessions: int, more: int) -> Finding:
    """What can still be done with the sessions that are not damaged."""
    also = f"Damaged rows that are not shown here: {more}; --json lists all. " if more > 0 else ""
    do = "`perdure export ID` exports an intact session as a bundle." if sessions else "Restore a backup."
    return note(f"{also}Intact sessions: {sessions}.", do)


def judge(report: DoctorReport) -> list[Finding]:
    """The findings of all rules."""
    rules = (_schema, _durability, _disk, of_server, of_standbys, _restores, _sessions, _workers, of_gates)
    return [finding for rule in rules for finding in rule(report)]


def privileged(folder: Path) -> list[Finding]:
    """What running as root means for the commands of agents in this folder."""
    if os.geteuid() != 0:
        return []
    level = sandbox.available(folder)
    do = "Run Perdure as an ordinary user where you can."
    if level is sandbox.Level.NONE:
        return [risk("Perdure runs as root and there is no sandbox: a command that you allow is root.", do)]
    if sandbox.drops_root(folder):
        text = f"Perdure runs as root. The commands of agents in {folder} run as `nobody`, in {level}."
        return [note(text, do)]
    text = f"Perdure runs as root, and so do the commands of agents in {folder}, in {level} and without capabilities."
    why = (
        "They can read what only root may read. Bubblewrap runs them as `nobody` where `setpriv` is installed, the file"
        " system allows mounts with translated ids, and every folder above this one lets other users pass."
    )
    return [risk(text, f"{do} {why}")]


def _schema(report: DoctorReport) -> Iterator[Finding]:
    schema = report.schema
    if schema is None:
        return
    behind = f"The schema is at {schema.version}; this version of Perdure needs {schema.needed}."
    if schema.version < schema.needed and report.kind == "postgres":
        yield wrong(behind, "Run `perdure migrate` once.")
    elif schema.version < schema.needed:
        yield note(behind, "The next use migrates it; `perdure migrate` does it now.")
    elif schema.version < schema.known:
        yield note(
            f"The schema is at {schema.version}, so that workers of an older version can still use the store. "
            f"The newest is {schema.known}.",
            "Nothing to do: it is migrated when they have ended. `perdure migrate` names them.",
        )
    elif schema.version > schema.known >= schema.compatible_from:
        yield note(
            f"The schema is at {schema.version}. This version of Perdure knows {schema.known}, which is compatible.",
            "Upgrade Perdure on this machine when convenient.",
        )


def _durability(report: DoctorReport) -> Iterator[Finding]:
    durable = report.durability
    if durable is not None and (durable.journal_mode != "wal" or durable.synchronous not in ("full", "extra")):
        yield wrong(
            "A power failure can lose acknowledged work: "
            f"journal mode {durable.journal_mode}, sync {durable.synchronous}.",
            "Find the program that changed the journal mode of the file, and do not use it on the store.",
        )


def _disk(report: DoctorReport) -> Iterator[Finding]:
    disk = report.disk
    if disk is None:
        return
    if disk.full:
        yield wrong(
            f"The disk is full: nothing more can be written in {disk.folder}.",
            "Free some space there. The reserve is left for reading and for `perdure prune`.",
        )
    elif disk.free < SCARCE:
        yield stuck(
            f"Only {disk.free >> 20} MiB are free in {disk.folder}.", "Free some space before the disk is full."
        )
    if report.exists and report.kind == "sqlite" and not disk.reserve:
        yield note("The reserve for a full disk is missing.", "The next use restores it, if there is space.")
    if disk.file_system in ("tmpfs", "ramfs"):
        yield wrong(
            f"{disk.folder} is in memory ({disk.file_system}): its content is lost when the machine restarts.",
            "Put the store on a disk.",
        )
    if disk.file_system == "overlay":
        yield risk(
            f"{disk.folder} is a layer of a container: its content is lost with the container.", "Mount a volume there."
        )
    if report.latency is None and not disk.full:
        yield wrong(
            f"Nothing can be written in {disk.folder}: the store can only be read.",
            "Give this user write permission there, or mount it writable.",
        )
    elif report.latency is not None and report.latency.median < FAST and disk.file_system not in ("tmpfs", "ramfs"):
        yield risk(
            f"A sync takes {report.latency.median} µs, faster than any disk: it returns before the data is on disk.",
            "Find out whether this disk keeps synced data after a power failure.",
        )
    if report.processes and len(report.processes) > MANY_PROCESSES:
        yield note(
            f"{len(report.processes)} processes share one SQLite file.", "PostgreSQL is the better choice for so many."
        )


KNOWN_BY = {
    "declared": "a user declared it",
    "witness": "the store lacks an event that was committed to it",
    "timeline": "the PostgreSQL server has another timeline than before",
}


def _restores(report: DoctorReport) -> Iterator[Finding]:
    found = report.unrecorded_restore
    if found is not None:
        yield stuck(
            f"The store was set back to an earlier state: {KNOWN_BY[found.cause]} ({found.detail}). This is not "
            "recorded yet. The next process that opens the store to write checks it again and records a restore.",
            "Stop the workers. Check what the sessions did outside after that state. `perdure restores` shows more.",
        )
    if report.failover is not None:
        yield note(
            f"Another PostgreSQL server took over at {format_time(report.failover.began_at)}. Nothing was lost: every "
            "process found what it had acknowledged.",
            "Nothing to do.",
        )
    for one in report.restores[:1]:
        if one.timeline is not None and report.unheard:
            yield note(_unheard(report), "Start a worker where one of them ran, or release the restore as shown below.")
        yield stuck(
            f"The store was set back to an earlier state ({KNOWN_BY[one.cause]}). What its sessions did after that is "
            "not in the ledger. Until you release this restore, the first dispatch of an effect is treated as one with "
            "an unknown outcome.",
            "Check what the sessions did outside, then type `perdure restores --release --because TEXT`.",
        )


def _unheard(report: DoctorReport) -> str:
    """The processes that could show that the change of server lost nothing, and what is known of them."""
    hosts = [f"{one.host} ({one.finding or 'has not connected to the new server'})" for one in report.unheard[:3]]
    more = ", …" if len(report.unheard) > 3 else ""
    return (
        f"Another PostgreSQL server took over, and it is not certain that nothing was lost: {', '.join(hosts)}{more}."
    )


def _sessions(report: DoctorReport) -> Iterator[Finding]:
    if report.stale:
        names = ", ".join(one.id for one in report.stale_sessions[:3]) + (", …" if report.stale > 3 else "")
        one = report.stale == 1
        yield stuck(
            f"{report.stale} {'session has' if one else 'sessions have'} lost the worker: {names}.",
            f"Nothing is lost. Resume {'it' if one else 'them'}, or start a worker.",
        )
    if report.quarantined:
        names, one = _first(report.quarantined), len(report.quarantined) == 1
        yield stuck(
            f"{'A session waits' if one else 'Sessions wait'} for a person, after several workers in a row were lost "
            f"while they ran {'it' if one else 'them'}: {names}.",
            f"Find out why with `perdure show {report.quarantined[0]} --last 20`; `perdure resume ID` tries again.",
        )
    if report.overdue:
        yield note(
            f"Sessions still wait for a time that has passed: {_first(report.overdue)}.",
            "Start a worker (`perdure worker`), or resume them (`perdure resume ID`).",
        )
    for reason, some in _by_reason(report).items():
        yield Finding(some[0].level, f"{_first([one.id for one in some])}: {reason}", some[0].do)
    if report.in_doubt:
        yield note(
            f"{report.in_doubt} {'effect is' if report.in_doubt == 1 else 'effects are'} in doubt: "
            "dispatched, with an unknown outcome.",
            "Check the outside system, and settle each: `perdure effects --in-doubt` shows how.",
        )


def _by_reason(report: DoctorReport) -> dict[str, list[StuckSession]]:
    """Sessions that do not continue, by the reason; those in quarantine and those that are overdue are listed above."""
    found: dict[str, list[StuckSession]] = {}
    for one in report.stuck:
        if one.kind not in ("quarantine", "overdue"):
            found.setdefault(one.reason, []).append(one)
    return found


def _first(names: list[str]) -> str:
    return ", ".join(names[:3]) + (", …" if len(names) > 3 else "")


def _workers(report: DoctorReport) -> Iterator[Finding]:
    workers = [one for one in report.workers if one.role == "worker"]
    dead = [one.id for one in workers if one.life is Liveness.DEAD]
    if dead:
        none = "No worker is alive: `perdure serve` starts one, and it continues their sessions."
        names = ", ".join(dead[:3]) + (", …" if len(dead) > 3 else "")
        yield note(
            f"{len(dead)} {'worker' if len(dead) == 1 else 'workers'} died without a proper shutdown: {names}.",
            none if len(dead) == len(workers) else "Nothing to do: other workers can take over their sessions.",
        )
