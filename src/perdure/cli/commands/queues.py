"""`perdure queues`: what runs and waits in each queue, and how much of it may run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from perdure.cli.shell import Shell, by_option, command
from perdure.cli.subcommands import ListingCommand

if TYPE_CHECKING:
    from perdure.domain.queue import Queue, QueueView

HEADINGS = ("queue", "ready", "running", "for a slot", "waiting", "failed", "oldest ready", "limits~")
LATENCY = ("in the last", "done", "failed", "cancelled", "wait p50", "wait p95", "run p50", "run p95")
NONE = "none"


class Limit(click.ParamType[Any]):
    """A number, or `none` to remove the limit."""

    name = "number"

    def __init__(self, least: int) -> None:
        self._least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == NONE or isinstance(value, int):
            return value
        number = int(value) if value.isascii() and value.isdecimal() and len(value) < 19 else -1
        if number < self._least:
            self.fail(f"{value!r} is not a number from {self._least} on, and not `none`.", param, ctx)
        return number


@command
def ls(shell: Shell) -> None:
    """List queues with their limits and the numbers of their sessions.

    A queue is listed when it has a limit, or sessions that are ready, run, wait or have failed. Failed
    sessions are those that are not retried any more: `perdure ls --failed` lists them.
    """
    from perdure.cli.store_access import read_list
    from perdure.cli.text.grid import grid
    from perdure.cli.text.plain import safe
    from perdure.clock import span
    from perdure.store.moves import queue

    found, now = read_list(shell, lambda tx: queue.listing(tx, limit=1_000_000), lambda runtime: runtime.queues())
    if shell.json:
        for one in found:
            shell.echo_json(one)
        return
    if not found:
        shell.echo("No queue has sessions or limits.")
        return
    rows = [
        [
            safe(one.name), str(one.ready), str(one.running), str(one.slot), str(one.waiting), str(one.failed),
            "" if one.oldest_ready_at is None else span(max(0, now - one.oldest_ready_at)), describe_limits(one),
        ]
        for one in found
    ]  # fmt: skip
    shell.echo(*grid(HEADINGS, rows, width=shell.width))


@command
@click.argument("name")
@click.option("--concurrency", type=Limit(0), metavar="N", help="How many sessions run at a time, in all.")
@click.option("--per-key", type=Limit(1), metavar="N", help="How many sessions of each key run at a time.")
@click.option("--per-worker", type=Limit(1), metavar="N", help="How many sessions run at a time in each worker.")
@click.option("--rate", metavar="N/DURATION", help='How many runs may begin in a time: "10/1m".')
@click.option("--max-depth", type=Limit(1), metavar="N", help="How many sessions may be ready before more are refused.")
@click.option("--pause/--resume", "paused", default=None, help="Claim nothing from it, or claim again.")
@click.option("--close/--open", "closed", default=None, help="Start nothing new in it, or start again.")
@by_option
def set_(
    shell: Shell, name: str, rate: str | None, paused: bool | None, closed: bool | None, **limits: int | str | None
) -> None:
    """Change the limits of a queue, while it runs. "none" removes a limit.

    A limit holds from the next claim on: sessions that run already continue. A session that waits counts for no limit.
    """
    from perdure.cli.store_access import run_with_runtime
    from perdure.cli.text.plain import safe

    given: dict[str, Any] = {key: value for key, value in (limits | {"rate": rate}).items() if value is not None}
    given = {key: None if value == NONE else value for key, value in given.items()}
    given |= {key: value for key, value in (("paused", paused), ("closed", closed)) if value is not None}
    made = run_with_runtime(shell, lambda runtime: runtime.set_queue(name, by=shell.by, **given), create=True)
    if shell.json:
        shell.echo_json(made)
    else:
        shell.echo(f"The queue {safe(made.name)} has these limits now: {describe_limits(made) or NONE}.")


def describe_limits(one: Queue | QueueView) -> str:
    """The limits of a queue in words."""
    from perdure.clock import span

    found = ["paused"] if one.paused_at is not None else []
    found += ["closed"] if one.closed_at is not None else []
    found += [] if one.concurrency is None else [f"{one.concurrency} at a time"]
    found += [] if one.per_key is None else [f"{one.per_key} per key"]
    found += [] if one.per_worker is None else [f"{one.per_worker} per worker"]
    found += [] if one.rate_count is None else [f"{one.rate_count} in {span(one.rate_period or 0)}"]
    found += [] if one.max_depth is None else [f"at most {one.max_depth} ready"]
    return ", ".join(found)


@command
@click.argument("name")
def latency(shell: Shell, name: str) -> None:
    """Show how many sessions of a queue ended in the last hour and day, and how long they waited and ran.

    A session waits from when it could begin until a worker begins it, and runs from then until it ends, with all that
    it waits for. p50 is the median; 95 percent of the sessions took no longer than p95.
    """
    from perdure.cli.store_access import run_with_runtime
    from perdure.cli.text.grid import grid
    from perdure.cli.text.plain import safe
    from perdure.clock import brief_span

    found = run_with_runtime(shell, lambda runtime: runtime.queue_latency(name))
    if shell.json:
        shell.echo_json(found)
        return
    rows = [
        [title, str(one.done), str(one.failed), str(one.cancelled),
         *("" if time is None else brief_span(time) for time in (one.wait_p50, one.wait_p95, one.run_p50, one.run_p95))]
        for title, one in (("1h", found.hour), ("24h", found.day))
    ]  # fmt: skip
    shell.echo(f"The queue {safe(found.name)}:", *grid(LATENCY, rows, width=shell.width))
    if not found.is_complete:
        shell.echo("Many sessions changed. The numbers are of those that changed last.")


queues = ListingCommand(ls, {"ls": ls, "set": set_, "latency": latency})
queues.name = "queues"
