"""Commands that change many failed sessions by a filter: `perdure retry --all`, `perdure archive --all`."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from perdure.cli.shell import Shell, is_terminal
from perdure.cli.store_access import run_with_runtime
from perdure.cli.text.plain import count, error, safe
from perdure.errors import ConfigError

if TYPE_CHECKING:
    from perdure.domain.session import SessionRecord
    from perdure.runtime.runtime import Runtime
    from perdure.runtime.start.failed_sessions import BulkEdit

F = TypeVar("F", bound=Callable[..., Any])
FILTERS = ("queue", "program", "owner", "error", "since")
SHOWN = 20  # sessions that are listed before a question


def bulk_options(function: F) -> F:
    """The options that select failed sessions."""
    options = [
        click.option("--all", "everything", is_flag=True, help="Every failed session, or those of the filters below."),
        click.option("--queue", metavar="NAME", help="With --all: only sessions of this queue."),
        click.option("--program", metavar="NAME", help="With --all: only sessions of this program."),
        click.option("--owner", metavar="NAME", help="With --all: only sessions of this owner."),
        click.option("--error", metavar="CODE", help="With --all: only sessions that ended with this code or type."),
        click.option(
            "--since", metavar="DURATION", help='With --all: only sessions that failed within this time: "2h".'
        ),
        click.option("--dry-run", is_flag=True, help="With --all: only list the sessions."),
        click.option("--yes", is_flag=True, help="With --all: do not ask."),
    ]
    for option in reversed(options):
        function = option(function)
    return function


def check_bulk(id: str | None, everything: bool, given: dict[str, Any], **others: Any) -> None:
    """Refuse an id beside --all, neither of them, and options that belong to the other."""
    if (id is None) != everything:
        raise ConfigError("Name one session, or give --all.", hint="`perdure ls --failed` lists the failed sessions.")
    wrong = [name for name, value in (others if everything else given).items() if value]
    if wrong:
        named = f"--{wrong[0].replace('_', '-')}"
        raise ConfigError(f"{named} {'cannot be used with' if everything else 'needs'} --all.")


def edit_in_bulk(
    shell: Shell, verb: str, given: dict[str, Any], change: Callable[[Runtime, dict[str, Any]], Awaitable[BulkEdit]]
) -> int:
    """List the sessions, ask, change them, and name those that were refused; returns the exit code."""
    filters = {name: given[name] for name in FILTERS}

    async def find(runtime: Runtime) -> list[SessionRecord]:
        return [one async for one in runtime.failed(**filters)]

    found = run_with_runtime(shell, find)
    if not found and not shell.json:
        shell.echo("No failed session matches.")
        return 0
    if given["dry_run"]:
        if shell.json:
            for one in found:
                shell.echo_json(one)
        else:
            shell.echo(*(_line(one) for one in found), f"{count(len(found), 'session')} would be {verb}.")
        return 0
    if found and not given["yes"] and not _is_confirmed(shell, verb, found):
        shell.echo("Nothing was changed.")
        return 0
    done = run_with_runtime(shell, lambda runtime: change(runtime, filters))
    if shell.json:
        shell.echo_json(done)
    else:
        shell.echo(f"{count(len(done.changed), 'session')} {'is' if len(done.changed) == 1 else 'are'} {verb}.")
        for id, why in done.refused.items():
            shell.note(f"{safe(id)}: {safe(why)}")
    return 1 if done.refused else 0


def _is_confirmed(shell: Shell, verb: str, found: list[SessionRecord]) -> bool:
    if shell.json or not is_terminal(sys.stdin):
        said = f"Nothing was changed: {count(len(found), 'session')} would be {verb}, and no one can be asked here."
        raise ConfigError(said, hint="Add --yes, or --dry-run to list them.")
    shell.echo(*(_line(one) for one in found[:SHOWN]))
    if len(found) > SHOWN:
        shell.echo(f"and {len(found) - SHOWN} more")
    return click.confirm(f"{count(len(found), 'session')} will be {verb}. Continue?")


def _line(one: SessionRecord) -> str:
    return f"{safe(one.id)}  {safe(one.program)}  {error(one.error)}"
