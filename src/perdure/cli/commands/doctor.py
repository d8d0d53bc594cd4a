"""`perdure doctor`: the report, for people or as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from perdure.cli.shell import Shell, command

if TYPE_CHECKING:
    from rich.table import Table

    from perdure.control.doctor.report import DoctorReport

KINDS = {"sqlite": "SQLite file", "files": "text files", "memory": "memory", "postgres": "PostgreSQL"}
LOOKS = {"wrong": "bold red", "stuck": "bold red", "risk": "yellow", "note": "cyan"}


@command
@click.option("--deep", is_flag=True, help="Read every page and check every session's chain.")
def doctor(shell: Shell, deep: bool) -> int:
    """Say how the store is, which promises it keeps, and what to do.

    Looks and changes nothing: it creates no store and migrates none. Exits with 1 when something is wrong.
    """
    from pathlib import Path

    from perdure.control.doctor.examination import examine
    from perdure.control.doctor.findings import privileged

    report = examine(shell.store, deep=deep)
    report.findings += privileged(Path.cwd())
    if shell.json:
        shell.echo_json(report)
    else:
        shell.echo_rich(facts(report), *conclusion(report))
    return 0 if report.healthy else 1


def facts(report: DoctorReport) -> Table:
    from rich.markup import escape
    from rich.table import Table

    from perdure.cli.text.plain import safe

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in lines(report):
        table.add_row(name, escape(safe(value)))
    return table


def lines(report: DoctorReport) -> Iterator[tuple[str, str]]:
    """Everything that was seen, one thing a line."""
    yield "store", f"{KINDS[report.kind]}, {report.place}"
    if report.store_id:
        yield "id", report.store_id
    if report.schema:
        newest = (
            "up to date" if report.schema.version == report.schema.known else f"this code knows {report.schema.known}"
        )
        yield "schema", f"{report.schema.version} ({newest}; usable from {report.schema.compatible_from} on)"
    yield from _ground(report)
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
            "every page and chain read" if report.read_everything else "not read (--deep reads everything)",
        )


def _ground(report: DoctorReport) -> Iterator[tuple[str, str]]:
    if report.sqlite:
        yield "SQLite", report.sqlite
    if report.durability:
        yield "durability", f"journal {report.durability.journal_mode}, synchronous {report.durability.synchronous}"
    if report.server:
        yield "server", f"PostgreSQL {report.server.version}, timeline {report.server.timeline}"
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
        yield "size", amount(report.size)
    if report.disk:
        reserve = f", {amount(report.disk.reserve)} in reserve" if report.disk.reserve else ""
        yield "disk", f"{report.disk.file_system}, {amount(report.disk.free)} free{reserve}"
    if report.latency:
        took = f"{report.latency.median / 1000:.2f} ms, at worst {report.latency.worst / 1000:.2f} ms"
        tries = f"{report.latency.samples} tries" if report.server else f"{report.latency.samples} tries of 4 KiB"
        yield "commit" if report.server else "sync", f"{took} ({tries})"


def _workers(report: DoctorReport) -> str:
    lives = [str(one.life) for one in report.workers]
    return ", ".join(f"{lives.count(life)} {life}" for life in dict.fromkeys(lives)) or "none registered"


def conclusion(report: DoctorReport) -> Iterator[str]:
    """What to do, then the depth; the last line is what somebody who reads only one line should read."""
    from rich.markup import escape

    from perdure.cli.text.plain import safe

    for finding in report.findings:
        what, do = escape(safe(finding.what)), escape(safe(finding.do))
        yield f"\n[{LOOKS[finding.level]}]{finding.level}[/]: {what}\n  {do}"
    depth = report.depth
    if depth is not None and depth.holds:
        yield f"\ndepth {depth.holds}: {depth.name}"
        if depth.next:
            yield f"  missing for {depth.next}: {escape('; '.join(depth.missing))}"
    elif depth is not None and report.healthy:
        yield f"\ndepth none yet; missing for {depth.next}: {escape('; '.join(depth.missing))}"
    elif depth is not None:
        yield f"\ndepth none: {depth.next} is not held until what is wrong above is put right"
    counts = [f"{sum(one.level == level for one in report.findings)} {level}" for level in ("wrong", "stuck")]
    bad = ", ".join(count for count in counts if not count.startswith("0 "))
    unread = report.sessions is not None and not report.read_everything
    good = "[green]nothing wrong[/]" + (" in what was read; --deep reads everything" if unread else "")
    yield f"[bold red]{bad}[/]" if bad else good


def amount(size: int) -> str:
    value, unit = float(size), 0
    while value >= 1024 and unit < 4:
        value, unit = value / 1024, unit + 1
    return f"{value:.0f} B" if unit == 0 else f"{value:.1f} {('', 'KiB', 'MiB', 'GiB', 'TiB')[unit]}"
