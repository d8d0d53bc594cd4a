"""Processes, queues and stuck sessions as lines of text."""

from __future__ import annotations

from collections.abc import Iterator

from perdure.cli.commands.queues import describe_limits
from perdure.cli.text.grid import grid
from perdure.cli.text.plain import count, safe, short
from perdure.clock import span
from perdure.control.supervisor.overview import Overview, ProcessView

PROCESSES = ("process", "state", "pid", "sessions", "restarts", "age", "queues~")
QUEUES = ("queue", "ready", "running", "for a slot", "failed", "oldest ready", "limits~")
STUCK = ("session", "since", "reason~", "what to do~")
NO_PROCESS = "No process is registered. `perdure serve` or `perdure worker` starts one."
DEAD_SUPERVISOR = "The supervisor is dead: what follows is what it left. `perdure serve` starts a new one."


def tree_lines(found: Overview) -> list[str]:
    """The processes as an indented tree, one per line."""
    lines = [line for one in found.processes for line in _branch(one, found.at, "", "")]
    return lines or [NO_PROCESS]


def _branch(one: ProcessView, now: int, first: str, rest: str) -> Iterator[str]:
    yield first + describe_process(one, now)
    for place, child in enumerate(one.children):
        last = place == len(one.children) - 1
        yield from _branch(child, now, rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  "))


def describe_process(one: ProcessView, now: int) -> str:
    """One process in one line."""
    if one.strategy is not None:
        return f"{safe(one.id)} ({safe(one.strategy)})"
    name = f"{safe(one.role or 'process')} {safe(one.id)}" if one.id == one.worker else safe(one.id)
    words = [f"{name}: {safe(one.state)}"]
    words += [] if one.pid is None else [f"process {one.pid}" + (f" on {safe(one.host)}" if one.host else "")]
    words += [f"{count(one.sessions, 'session')}"] if one.sessions else []
    words += [f"{count(one.restarts, 'restart')}"] if one.restarts else []
    words += [f"ended last with {safe(one.last_exit)}"] if one.last_exit else []
    words += [f"for {span(max(0, now - one.started_at))}"] if one.started_at is not None else []
    return ", ".join(words)


def overview_lines(found: Overview, width: int) -> list[str]:
    """One frame of `perdure top`."""
    rows = [row for one in found.processes for row in _rows(one, found.at, 0)]
    lines = grid(PROCESSES, rows, width=width) if rows else [NO_PROCESS]
    if any(one.role == "supervisor" and one.state == "dead" for one in found.processes):
        lines += ["", DEAD_SUPERVISOR]
    if found.queues:
        queues = [
            [
                safe(one.name), str(one.ready), str(one.running), str(one.slot), str(one.failed),
                "" if one.oldest_ready_at is None else span(max(0, found.at - one.oldest_ready_at)),
                describe_limits(one),
            ]
            for one in found.queues
        ]  # fmt: skip
        lines += ["", *grid(QUEUES, queues, width=width)]
    if found.stuck:
        stuck = [
            [safe(one.id), span(max(0, found.at - one.since)), short(one.reason), short(one.do)] for one in found.stuck
        ]
        lines += ["", *grid(STUCK, stuck, width=width)]
    return lines


def _rows(one: ProcessView, now: int, depth: int) -> Iterator[list[str]]:
    name = f"{one.role} {one.id}" if one.id == one.worker else one.id
    if one.strategy is None:
        sessions = "" if not one.concurrency or one.role != "worker" else f"{one.sessions} of {one.concurrency}"
        yield [
            "  " * depth + safe(name), safe(one.state), "" if one.pid is None else str(one.pid), sessions,
            "" if not one.restarts else f"{one.restarts} ({safe(one.last_exit or 'normal')})",
            "" if one.started_at is None else span(max(0, now - one.started_at)),
            "" if one.role != "worker" else "all" if one.queues is None else safe(", ".join(map(str, one.queues))),
        ]  # fmt: skip
    for child in one.children:
        yield from _rows(child, now, depth + (one.strategy is None))
