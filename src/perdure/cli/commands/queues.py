"""`perdure queues`: what runs and waits in each queue, and how much of it may run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from perdure.cli.shell import Shell, by_option, command
from perdure.cli.subcommands import ListingCommand

if TYPE_CHECKING:
    from perdure.domain.queue import Queue, QueueView

HEADINGS = ("queue", "ready", "running", "for a slot", "failed", "oldest ready", "limits~")
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

    A queue is listed when it has a limit, or sessions that are ready, run, wait for a slot or have failed. Failed
    sessions are those that are not retried any more: `perdure ls --failed` lists them.
    """
    from perdure.cli.store_access import read_store
    from perdure.cli.text.grid import grid
    from perdure.cli.text.plain import safe, span
    from perdure.store.moves import queue

    with read_store(shell) as tx:
        found, now = queue.listing(tx, limit=1_000_000), tx.now
    if shell.json:
        for one in found:
            shell.echo_json(one)
        return
    if not found:
        shell.echo("No queue has sessions or limits.")
        return
    rows = [
        [
            safe(one.name), str(one.ready), str(one.running), str(one.slot), str(one.failed),
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
    from perdure.cli.text.plain import span

    found = ["paused"] if one.paused_at is not None else []
    found += ["closed"] if one.closed_at is not None else []
    found += [] if one.concurrency is None else [f"{one.concurrency} at a time"]
    found += [] if one.per_key is None else [f"{one.per_key} per key"]
    found += [] if one.per_worker is None else [f"{one.per_worker} per worker"]
    found += [] if one.rate_count is None else [f"{one.rate_count} in {span(one.rate_period or 0)}"]
    found += [] if one.max_depth is None else [f"at most {one.max_depth} ready"]
    return ", ".join(found)


queues = ListingCommand(ls, {"ls": ls, "set": set_})
queues.name = "queues"
