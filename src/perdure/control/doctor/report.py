"""The report of the doctor: facts and findings. Its field names are those of `perdure doctor --json`."""

from __future__ import annotations

from typing import Literal

import msgspec

from perdure.control.doctor.governance import Governance
from perdure.control.doctor.stuck_sessions import StuckSession
from perdure.domain.restore import Restore
from perdure.domain.worker import Liveness
from perdure.domain.writer import Writer
from perdure.store.inspection.read_access import Durability, Server
from perdure.store.moves.notification import ChannelCounts
from perdure.store.row_check import DamagedRow


class Finding(msgspec.Struct, frozen=True):
    """Something to know, and what to do about it.

    `wrong`: a guarantee does not hold. `stuck`: work does not continue, or soon will not. `risk`: everything works, but
    one more failure may break a guarantee. `note`: information.
    """

    level: Literal["wrong", "stuck", "risk", "note"]
    what: str
    do: str


def wrong(what: str, do: str) -> Finding:
    return Finding("wrong", what, do)


def stuck(what: str, do: str) -> Finding:
    return Finding("stuck", what, do)


def risk(what: str, do: str) -> Finding:
    return Finding("risk", what, do)


def note(what: str, do: str) -> Finding:
    return Finding("note", what, do)


class Need(msgspec.Struct, frozen=True):
    """One thing that a level needs: whether it is in force, and the evidence."""

    what: str
    met: bool
    evidence: str


class DepthLevel(msgspec.Struct, frozen=True):
    """A level, and what it needs besides the levels below it."""

    level: str
    name: str
    needs: list[Need]


class Depth(msgspec.Struct, frozen=True):
    """The level that the deployment reaches (None: not even the first), and what the next one needs."""

    holds: str | None
    name: str
    next: str | None
    missing: list[str]
    levels: list[DepthLevel] = []


class Schema(msgspec.Struct, frozen=True):
    """The store's schema, the newest one that this code knows, and the oldest one that it can use."""

    version: int
    compatible_from: int
    known: int
    needed: int


class Latency(msgspec.Struct, frozen=True):
    """How long one durable write takes, in microseconds."""

    median: int
    worst: int
    samples: int
    of: Literal["sync of this disk", "commit on the server"]


class DiskStatus(msgspec.Struct, frozen=True):
    """The disk under a store on this machine, in bytes."""

    folder: str
    file_system: str
    free: int
    reserve: int
    full: bool = False  # nothing more can be written: no space, or none for this user


class WorkerStatus(msgspec.Struct, frozen=True):
    """A worker, and whether it still runs."""

    id: str
    host: str
    pid: int
    life: Liveness
    seen_at: int
    role: str = "worker"  # or supervisor, service


class StaleSession(msgspec.Struct, frozen=True):
    """A session that is marked running although its lease has expired; `overdue` in microseconds."""

    id: str
    holder: str
    overdue: int


class DoctorReport(msgspec.Struct, kw_only=True):
    """Everything the doctor found. A part that could not be read is null."""

    kind: str
    place: str
    exists: bool = False
    store_id: str | None = None
    size: int | None = None
    schema: Schema | None = None
    sqlite: str | None = None
    durability: Durability | None = None
    server: Server | None = None
    pooler: str | None = None  # the mode of the pooler in front of the server
    direct: bool = True  # whether the address of the server itself is known too
    connections_per_process: int | None = None
    clock_offset: int | None = None
    disk: DiskStatus | None = None
    latency: Latency | None = None
    sessions: dict[str, int] | None = None
    stale: int = 0
    stale_sessions: list[StaleSession] = msgspec.field(default_factory=list)
    workers: list[WorkerStatus] = msgspec.field(default_factory=list)
    processes: list[str] | None = None
    undecided: int | None = None
    in_doubt: int | None = None
    quarantined: list[str] = msgspec.field(default_factory=list)  # sessions whose workers crashed, by id
    overdue: list[str] = msgspec.field(default_factory=list)  # sessions that wait for a time that has passed, by id
    stuck: list[StuckSession] = msgspec.field(default_factory=list)  # sessions that do not continue by themselves
    restores: list[Restore] = msgspec.field(default_factory=list)
    unrecorded_restore: Restore | None = None  # detected now; the next process that writes records it
    failover: Restore | None = None  # the newest change of server, if it is known to have lost nothing
    unheard: list[Writer] = msgspec.field(default_factory=list)  # writers that have not confirmed that nothing was lost
    notifications: list[ChannelCounts] = msgspec.field(default_factory=list)  # what was not sent, by channel
    read_everything: bool = False
    damaged: list[DamagedRow] = msgspec.field(default_factory=list)
    findings: list[Finding] = msgspec.field(default_factory=list)
    governance: Governance | None = None
    now: int = 0  # by the clock of the store
    depth: Depth | None = None
    healthy: bool = True
