"""`perdure audit tail`: every committed event of the store, for a program that collects them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from perdure.cli.shell import Shell, command
from perdure.config import is_service

if TYPE_CHECKING:
    from perdure.runtime.runtime import Runtime
    from perdure.store.moves.feed import FeedEvent

KEPT = 500  # events between two writes of the position


@command
@click.option("--after", type=click.IntRange(0), help="Begin after this position (default: 0, the first event).")
@click.option("--position", metavar="FILE", help="Begin after the position in this file, and keep it there.")
@click.option("--follow", is_flag=True, help="Continue with each new event.")
@click.option("--bodies", is_flag=True, help="Include what each event says, such as the lines of transcripts.")
def tail(shell: Shell, after: int | None, position: str | None, follow: bool, bodies: bool) -> None:
    """Print every committed event of every session and of the control log once, in an order that never changes.

    Each has a position. With --position FILE the next call continues where this one ended: no event is missed, and
    after a crash the last ones may be printed again. An event that is committed late gets a later position.
    """
    from perdure.cli.store_access import run_with_runtime
    from perdure.errors import ConfigError

    if position is not None and after is not None:
        raise ConfigError("Give --after or --position, not both.")
    place = None if position is None else Path(position).absolute()
    start = (after or 0) if place is None else read_position(place)

    async def work(runtime: Runtime) -> None:
        last = kept = start
        if bodies and not is_service(shell.store):  # a service logs the read itself
            await runtime.queries.access.note("transcript", None, subject="feed")
        async for one in runtime.audit_feed(after=start, follow=follow):
            print_event(shell, one, bodies=bodies)
            last = one.position
            if place is not None and (follow or last - kept >= KEPT):
                kept = keep_position(place, last)
        if place is not None and last != kept:
            keep_position(place, last)

    run_with_runtime(shell, work)


def print_event(shell: Shell, one: FeedEvent, *, bodies: bool) -> None:
    from perdure.cli.text.plain import safe, value
    from perdure.clock import format_time

    if shell.json:
        told: dict[str, Any] = msgspec.structs.asdict(one)
        shell.echo_json(told if bodies else {key: told[key] for key in told if key != "body"})
        return
    words = [str(one.position), format_time(one.at), one.session or "-", str(one.number), one.kind, one.actor]
    said = [one.effect_id] if one.effect_id else []
    shell.echo("  ".join(map(safe, [*words, *said, *([value(one.body)] if bodies else [])])))


def read_position(place: Path) -> int:
    """The position in a file; 0 if there is none yet."""
    from perdure.config import read_file
    from perdure.errors import ConfigError

    text = read_file(place).strip()
    if text and not (text.isascii() and text.isdecimal()):
        raise ConfigError(f"{place} does not hold a position.", hint="It has one number; give another file.")
    return int(text or 0)


def keep_position(place: Path, position: int) -> int:
    """Write a position, when what was printed has left this process."""
    from perdure.durable import write_whole

    sys.stdout.flush()
    write_whole(place, f"{position}\n".encode())
    return position
