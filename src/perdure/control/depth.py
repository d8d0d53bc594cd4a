"""Depth: which of the levels D0 to D4 a deployment really holds, and what is missing for the next.

A level is held when what the doctor saw supports it, not when somebody meant it.
"""

from __future__ import annotations

from perdure.control.report import Depth, Report

NAMES = {
    "D0": "notebook, one-shot job",
    "D1": "one person, one machine",
    "D2": "one node, a team",
    "D3": "many nodes",
    "D4": "governed",
}


def of(report: Report) -> Depth:
    """Judge by what was seen. Something wrong with the store itself means that its level is not held."""
    if report.kind == "memory":
        return _at("D0", ["a SQLite file: leave --store away, or give a path"])
    faults = [finding.what for finding in report.findings if finding.level == "wrong"]
    broken = faults if not report.exists or not _kept(report) else []
    if report.kind == "files":
        return _none("D0", broken) if broken else _at("D0", ["a SQLite file in place of files:"])
    if report.kind == "sqlite":
        if not report.exists and not faults:
            return _none("D1", ["a first session, which makes the store"])
        return _none("D1", broken) if broken else _at("D1", ["`perdure serve`, which this version does not have yet"])
    return _none("D3", broken) if broken else _at("D3", _for_governed(report))


def _kept(report: Report) -> bool:
    """Whether acknowledged work survives a crash of this machine, or of the server."""
    if report.server is not None:
        safe = (report.server.fsync, report.server.full_page_writes) == ("on", "on")
        return safe and report.server.synchronous_commit != "off" and not report.server.in_recovery
    in_memory = report.disk is not None and report.disk.file_system in ("tmpfs", "ramfs", "network")
    durable = report.durability is None or (
        report.durability.journal_mode == "wal" and report.durability.synchronous in ("full", "extra")
    )
    return durable and not in_memory and report.sessions is not None


def _for_governed(report: Report) -> list[str]:
    missing = []
    server = report.server
    if server is not None and not any(state in ("sync", "quorum") for _, state in server.standbys):
        missing.append("a synchronous standby")
    if server is not None and server.archive_mode == "off":
        missing.append("an archive of the server's log, for recovery to a point in time")
    return [*missing, "policy, roles, audit and retention, which this version does not have yet"]


def _at(level: str, missing: list[str]) -> Depth:
    later = f"D{int(level[1]) + 1}"
    return Depth(level, NAMES[level], later if later in NAMES else None, missing)


def _none(wanted: str, missing: list[str]) -> Depth:
    return Depth(None, "no level", wanted, missing)
