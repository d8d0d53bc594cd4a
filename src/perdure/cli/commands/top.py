"""`perdure top`: processes, queues and stuck sessions of a store, live."""

from __future__ import annotations

import sys
import time
from contextlib import suppress

import click

from perdure.cli.shell import Shell, command, is_terminal
from perdure.cli.store_access import read_store, worker_locks
from perdure.cli.text.processes import overview_lines
from perdure.config import is_service
from perdure.control.supervisor.overview import Overview, store_overview
from perdure.errors import StoreUnavailable


@command
@click.option("--once", is_flag=True, help="Print one frame and exit. This is the default outside of a terminal.")
@click.option(
    "--interval", type=click.FloatRange(0.2, 3600), metavar="SECONDS", default=2.0, show_default=True,
    help="Read the store every SECONDS.",
)  # fmt: skip
def top(shell: Shell, once: bool, interval: float) -> None:
    """Show processes, queues and stuck sessions, live.

    It lists supervisors and workers with the sessions that they run, queues with their limits, and sessions that do not
    continue by themselves, with the reason. With --json it prints one object for each frame.
    """
    if once or not (shell.json or is_terminal(sys.stdout)):
        _print(shell, _read(shell))
        return
    with suppress(KeyboardInterrupt):
        if shell.json:
            while True:
                _print(shell, _read(shell))
                time.sleep(interval)
        _show_live(shell, interval)


def _read(shell: Shell) -> Overview:
    if is_service(shell.store):
        from perdure.cli.remote.access import read_overview

        return read_overview(shell)
    with read_store(shell) as tx:
        return store_overview(tx, worker_locks(shell, tx).life)


def _print(shell: Shell, found: Overview) -> None:
    if shell.json:
        shell.echo_json(found)
    else:
        shell.echo(*overview_lines(found, shell.width))


def _show_live(shell: Shell, interval: float) -> None:
    """Draw frames until Ctrl-C. A store that is unavailable for a time is reported in the frame."""
    from rich.live import Live
    from rich.text import Text

    found = _read(shell)
    with Live(auto_refresh=False, screen=True) as live:
        while True:
            try:
                found, note = _read(shell), ""
            except StoreUnavailable as error:
                note = f"\n\n{error.message} This is the last frame that could be read."
            live.update(Text("\n".join(overview_lines(found, shell.width)) + note, no_wrap=True), refresh=True)
            time.sleep(interval)
