"""Depth: which of the levels D0 to D4 a deployment reaches, and what is missing for the next.

A level is reached when the inspection supports it, not when it is intended.
"""

from __future__ import annotations

from perdure.control.doctor.report import Depth, DoctorReport
from perdure.domain.worker import Liveness

NAMES = {
    "D0": "notebook, one-shot job",
    "D1": "one person, one machine",
    "D2": "one node, a team",
    "D3": "many nodes",
    "D4": "governed",
}


def of(report: DoctorReport) -> Depth:
    """The level that this kind of store can reach, unless something is wrong with it."""
    level = {"memory": "D0", "files": "D0", "sqlite": "D1", "postgres": "D3"}[report.kind]
    if faults := [finding.what for finding in report.findings if finding.level == "wrong"]:
        return _none(level, faults)
    if report.kind == "memory":
        return _at(level, ["a SQLite file: leave --store out, or give a path"])
    if not report.exists:
        return _none(level, ["a first session, which creates the store"])
    if report.kind == "files":
        return _at(level, ["a SQLite file in place of files:"])
    if report.kind == "sqlite":
        if any(one.role == "supervisor" and one.life is not Liveness.DEAD for one in report.workers):
            return _at("D2", ["PostgreSQL, for workers on several machines"])
        return _at(level, ["`perdure serve`, which runs workers for all users of the store"])
    return _at(level, _for_governed(report))


def _for_governed(report: DoctorReport) -> list[str]:
    missing = []
    server = report.server
    if server is not None and not any(state in ("sync", "quorum") for _, state in server.standbys):
        missing.append("a synchronous standby")
    if server is not None and server.archive_mode == "off":
        missing.append("a WAL archive, for point-in-time recovery")
    return [*missing, "policy, roles, audit and retention, which this version does not have yet"]


def _at(level: str, missing: list[str]) -> Depth:
    later = f"D{int(level[1]) + 1}"
    return Depth(level, NAMES[level], later if later in NAMES else None, missing)


def _none(wanted: str, missing: list[str]) -> Depth:
    return Depth(None, "no level", wanted, missing)
