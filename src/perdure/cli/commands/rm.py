"""`perdure rm`: remove the content of a session."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click

from perdure.cli.shell import Shell, by_option, command, is_terminal
from perdure.cli.store_access import run_with_runtime
from perdure.cli.text.plain import count, safe
from perdure.errors import ConfigError
from perdure.store.moves.session_removal import Removal


@command
@click.argument("id")
@click.option("--yes", is_flag=True, help="Remove it without asking.")
@click.option(
    "--because", metavar="TEXT", default="no longer needed", show_default=True, help="The reason, for the log."
)
@by_option
def rm(shell: Shell, id: str, yes: bool, because: str) -> None:
    """Remove the content of a session for good; its id is not used again.

    Shows first what is forgotten, and asks. Its messages, effects, steps and answers are deleted, and its events lose
    what they say. Their digests stay, with who removed it and why, so that the log still verifies and no effect can be
    repeated under this id. Refused while the session runs, has unsettled effects, or has branches or children.
    """
    forgets = run_with_runtime(shell, lambda runtime: runtime.removal(id))
    if not yes:
        if shell.json or not is_terminal(sys.stdin):
            raise ConfigError("Nothing was removed: no one can be asked here.", hint="Add --yes to remove it.")
        shell.echo(*removal_lines(forgets))
        if not click.confirm("Remove it for good?"):
            shell.echo("Nothing was removed.")
            return
    removed = run_with_runtime(shell, lambda runtime: runtime.remove(forgets.id, because=because, by=shell.by))
    if shell.json:
        shell.echo_json(removed)
    else:
        shell.echo(f"Session {safe(removed.id)} is removed: {_counts(removed)}. Its id is not used again.")


def removal_lines(forgets: Removal) -> Iterator[str]:
    """What a removal forgets."""
    yield f"Session {safe(forgets.id)}: {_counts(forgets)} would be forgotten."
    if forgets.snapshots_of is not None:
        yield f"`perdure prune` then removes its snapshots of {safe(forgets.snapshots_of)}. The files there stay."


def _counts(forgets: Removal) -> str:
    counts = [count(forgets.events, "event"), count(forgets.effects, "effect"), count(forgets.messages, "message")]
    own = f"{count(forgets.artifacts, 'artifact')} of its own ({forgets.artifact_bytes:,} bytes)"
    return ", ".join([*counts, own])
