"""`perdure restores`: restores of the store, declared by a user or detected, and their release."""

from __future__ import annotations

import click

from perdure.cli.shell import Shell, by_option, command
from perdure.cli.store_access import inspect_store, run_with_runtime
from perdure.cli.text.grid import grid
from perdure.cli.text.plain import safe, short
from perdure.clock import format_time
from perdure.domain.restore import Restore
from perdure.errors import ConfigError
from perdure.runtime.runtime import Runtime
from perdure.store.inspection import read_access
from perdure.store.moves import restore

HEADINGS = ("epoch", "noticed", "set back to", "known by", "released", "detail~")


@command
@click.option("--declare", is_flag=True, help="Declare that the store was set back to an earlier state.")
@click.option("--release", is_flag=True, help="Confirm that you checked what was done after that state.")
@click.option("--because", metavar="TEXT", help="With --declare: what was restored. With --release: what you checked.")
@by_option
def restores(shell: Shell, declare: bool, release: bool, because: str | None) -> None:
    """List restores: when the store was set back to an earlier state, and who released each.

    Until a restore is released, the first dispatch of an effect of a session that existed then is treated as one whose
    outcome is unknown. Perdure detects most restores. Declare one that it cannot detect, such as a restored disk image:
    stop the workers, restore, declare it, and start the workers again.
    """
    if declare and release:
        raise ConfigError("--declare and --release exclude each other.", hint="Give one of them.")
    if (declare or release) != (because is not None):
        raise ConfigError(
            "--because is required with --declare and --release, and only there.",
            hint="Give the reason with --because TEXT.",
        )
    if because is None:
        found, unrecorded = _read_restores(shell)
    elif release:
        found, unrecorded = run_with_runtime(shell, lambda runtime: _release(runtime, shell.by, because)), None
    else:
        found, unrecorded = run_with_runtime(shell, lambda runtime: _declare(runtime, shell.by, because)), None
    if shell.json:
        for one in [unrecorded, *found] if unrecorded else found:
            shell.echo_json(one.to_dict() | {"recorded": one is not unrecorded})
        return
    shell.echo(*_lines(shell, found, unrecorded))


def _read_restores(shell: Shell) -> tuple[list[Restore], Restore | None]:

    with inspect_store(shell) as look:
        return restore.listing(look.tx), read_access.unrecorded_restore(look)


async def _release(runtime: Runtime, by: str, because: str) -> list[Restore]:

    return await runtime.store.write(restore.release(by=by, because=because))


async def _declare(runtime: Runtime, by: str, because: str) -> list[Restore]:

    last = await runtime.store.read(restore.newest)
    known = 0 if last is None else last.epoch
    return [await runtime.store.write(restore.declare(by=by, because=because, known=known))]


def _lines(shell: Shell, found: list[Restore], unrecorded: Restore | None) -> list[str]:

    if not found and unrecorded is None:
        return ["No restore of this store is recorded."]
    rows = [_row(one, recorded=True) for one in found]
    if unrecorded is not None:
        rows.insert(0, _row(unrecorded, recorded=False))
    lines = list(grid(HEADINGS, rows, width=shell.width))
    if unrecorded is not None:
        lines += ["", "The first restore in this list was detected now and is not recorded yet. The next process that"]
        lines += ["opens the store to write checks it again and records it. Stop the workers before you continue."]
    if unrecorded is not None or any(one.released_at is None for one in found):
        lines += ["", "Check what the sessions did outside after that state, then type:"]
        lines += [f"  {shell.suggest('restores', '--release', '--because', 'TEXT')}"]
    return lines


def _row(one: Restore, *, recorded: bool) -> list[str]:

    released = "no" if one.released_at is None else f"{format_time(one.released_at)} by {safe(one.released_by or '')}"
    return [
        str(one.epoch), format_time(one.began_at) if recorded else "now", format_time(one.rewound_to), one.cause,
        released if recorded else "not recorded", short(one.detail or ""),
    ]  # fmt: skip
