"""The report of the doctor as text: facts in a table, then findings, and the depth."""

from __future__ import annotations

from collections.abc import Iterator

from rich.markup import escape
from rich.table import Table

from perdure.cli.text.plain import safe
from perdure.control.doctor.report import DoctorReport

KINDS = {"sqlite": "SQLite file", "files": "text files", "memory": "memory", "postgres": "PostgreSQL"}
STYLES = {"wrong": "bold red", "stuck": "bold red", "risk": "yellow", "note": "cyan"}


def fact_table(report: DoctorReport) -> Table:

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in fact_lines(report):
        table.add_row(name, escape(safe(value)))
    return table


def fact_lines(report: DoctorReport) -> Iterator[tuple[str, str]]:
    """Everything that was found, as name and value."""
    yield "store", f"{KINDS[report.kind]}, {report.place}"
    if report.store_id:
        yield "id", report.store_id
    if report.schema:
        newest = (
            "up to date"
            if report.schema.version == report.schema.known
            else f"this version of Perdure knows {report.schema.known}"
        )
        yield "schema", f"{report.schema.version} ({newest}; usable since {report.schema.compatible_from})"
    yield from _storage_lines(report)
    if report.sessions is not None:
        counted = [f"{count} {status}" for status, count in report.sessions.items()]
        yield "sessions", ", ".join(counted) or "none yet"
        yield "stale leases", str(report.stale or "none")
        yield "workers", _workers(report)
        yield "decisions", f"{report.undecided or 'none'} without an outcome"
        yield "effects", f"{report.in_doubt or 'none'} in doubt"
    if report.processes is not None:
        yield "open in", ", ".join(report.processes) or "no process"
    if report.exists and report.sessions is not None:
        yield (
            "contents",
            "all pages and chains checked" if report.read_everything else "not checked (--deep checks all)",
        )


def _storage_lines(report: DoctorReport) -> Iterator[tuple[str, str]]:
    if report.sqlite:
        yield "SQLite", report.sqlite
    if report.durability:
        yield "durability", f"journal {report.durability.journal_mode}, synchronous {report.durability.synchronous}"
    if report.server:
        yield "server", f"PostgreSQL {report.server.version}, timeline {report.server.timeline}"
        if report.server.most_connections:
            used = f"{report.server.connections} of {report.server.most_connections} in use"
            yield "connections", f"{used}; a process opens up to {report.connections_per_process}"
        yield (
            "durability",
            (
                f"synchronous_commit {report.server.synchronous_commit}, fsync {report.server.fsync}, "
                f"full_page_writes {report.server.full_page_writes}"
            ),
        )
        yield "standbys", ", ".join(f"{name} ({state})" for name, state in report.server.standbys) or "none connected"
        yield "clock", f"{(report.clock_offset or 0) / 1e6:+.3f} s from this machine's"
    if report.size:
        yield "size", format_bytes(report.size)
    if report.disk:
        reserve = f", {format_bytes(report.disk.reserve)} in reserve" if report.disk.reserve else ""
        yield "disk", f"{report.disk.file_system}, {format_bytes(report.disk.free)} free{reserve}"
    if report.latency:
        latency = f"{report.latency.median / 1000:.2f} ms, at most {report.latency.worst / 1000:.2f} ms"
        tries = f"{report.latency.samples} tries" if report.server else f"{report.latency.samples} tries of 4 KiB"
        yield "commit" if report.server else "sync", f"{latency} ({tries})"


def _workers(report: DoctorReport) -> str:
    lives = [str(one.life) for one in report.workers if one.role == "worker"]
    others = len(report.workers) - len(lives)
    counts = ", ".join(f"{lives.count(life)} {life}" for life in dict.fromkeys(lives)) or "none registered"
    return f"{counts}; supervisors and services: {others}" if others else counts


def conclusion(report: DoctorReport) -> Iterator[str]:
    """The findings, then the depth; the last line is the verdict, for a reader of only one line."""
    for finding in report.findings:
        what, do = escape(safe(finding.what)), escape(safe(finding.do))
        yield f"\n[{STYLES[finding.level]}]{finding.level}[/]: {what}\n  {do}"
    if report.exists and report.governance is not None:
        yield "\ngates: what this deployment enforces"
        promises = report.governance.gates.promises
        yield from (f"  {_mark(one.met)} {escape(one.what)}: {escape(safe(one.evidence))}" for one in promises)
    depth = report.depth
    for level in depth.levels if depth is not None and report.exists else []:
        yield f"\n{level.level} {level.name}"
        yield from (f"  {_mark(need.met)} {escape(need.what)}: {escape(safe(need.evidence))}" for need in level.needs)
    if depth is not None and depth.holds:
        yield f"\ndepth {depth.holds}: {depth.name}"
        if depth.next:
            yield f"  missing for {depth.next}: {escape('; '.join(depth.missing))}"
    elif depth is not None and report.healthy:
        yield f"\ndepth none yet; missing for {depth.next}: {escape('; '.join(depth.missing))}"
    elif depth is not None:
        yield f"\ndepth none: fix what is wrong above to reach {depth.next}"
    counts = [f"{sum(one.level == level for one in report.findings)} {level}" for level in ("wrong", "stuck")]
    bad = ", ".join(count for count in counts if not count.startswith("0 "))
    unread = report.sessions is not None and not report.read_everything
    good = "[green]nothing wrong[/]" + (" in what was checked; --deep checks all" if unread else "")
    yield f"[bold red]{bad}[/]" if bad else good


def _mark(met: bool) -> str:
    return "[green]yes[/]" if met else "[yellow]no [/]"


def format_bytes(size: int) -> str:
    value, unit = float(size), 0
    while value >= 1024 and unit < 4:
        value, unit = value / 1024, unit + 1
    return f"{value:.0f} B" if unit == 0 else f"{value:.1f} {('', 'KiB', 'MiB', 'GiB', 'TiB')[unit]}"
