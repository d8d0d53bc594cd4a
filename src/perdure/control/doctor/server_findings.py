"""Findings about a PostgreSQL server: its durability, its connections and its standbys."""

from __future__ import annotations

from collections.abc import Iterator

from perdure.control.doctor.report import DoctorReport, Finding, note, risk, stuck, wrong

SKEWED = 2_000_000


def of_server(report: DoctorReport) -> Iterator[Finding]:
    server = report.server
    if server is None:
        return
    if server.in_recovery:
        yield wrong("This server is a standby and accepts no writes.", "Use the address of the primary.")
    if server.fsync != "on":
        yield wrong("The server runs with fsync off: a crash can destroy the database.", "Set fsync = on and restart.")
    if server.full_page_writes != "on":
        yield wrong("full_page_writes is off: a crash can leave torn pages.", "Set full_page_writes = on and reload.")
    if server.synchronous_commit == "off":
        yield wrong(
            "synchronous_commit is off: commits that were acknowledged can be lost in a crash.",
            "Set synchronous_commit = on for this role or database.",
        )
    per_process, free = report.connections_per_process or 0, server.most_connections - server.connections
    if server.most_connections and free < per_process:
        yield risk(
            f"The server allows {server.most_connections} connections, and {free} are free. One process of Perdure "
            f"opens up to {per_process}.",
            "Raise max_connections, lower the setting `connections`, or put PgBouncer in front of the server.",
        )
    if report.pooler is not None and not report.direct:
        yield risk(
            "A pooler is in front of the server, and the address of the server itself is not set: changes by other "
            "processes are noticed by a poll every second, and the schema cannot be migrated.",
            "Add perdure_direct_url to the address.",
        )
    if abs(report.clock_offset or 0) > SKEWED:
        yield note(
            f"The server's clock is {(report.clock_offset or 0) / 1e6:+.1f} s from this machine's.",
            "Leases use the clock of the server, so nothing breaks. Synchronise both, so that times in logs agree.",
        )


def of_standbys(report: DoctorReport) -> Iterator[Finding]:
    server = report.server
    if server is None or server.in_recovery:
        return
    waited_for = bool(server.synchronous_standby_names) and server.synchronous_commit not in ("off", "local")
    in_step = [name for name, state in server.standbys if state in ("sync", "quorum")]
    if waited_for and not in_step and not any(state == "unknown" for _, state in server.standbys):
        yield stuck(
            f"Commits wait for a standby ({server.synchronous_standby_names}), and none is connected.",
            "Start the standby again, or remove its name from synchronous_standby_names.",
        )
    if not waited_for and (server.standbys or server.absent_standbys):
        yield risk(
            "The standby is asynchronous: commits that were acknowledged can be lost in a failover. "
            "In an experiment 374 of 1,040 were lost.",
            "Add it to synchronous_standby_names, with synchronous_commit = on.",
        )
    if server.absent_standbys:
        yield note(
            f"There is a replication slot for a standby that is not connected: {', '.join(server.absent_standbys)}.",
            "Start it again or drop its slot; until then the server keeps all WAL files for it.",
        )
