"""`perdure archive`: hide a session from the list."""

from __future__ import annotations

from typing import Any

import click

from perdure.cli.options.bulk_edit import bulk_options, check_bulk, edit_in_bulk
from perdure.cli.shell import Shell, by_option, command
from perdure.cli.store_access import run_with_runtime
from perdure.cli.text.plain import safe


@command
@click.argument("id", required=False)
@click.option("--undo", is_flag=True, help="Show it in the list again.")
@bulk_options
@by_option
def archive(shell: Shell, id: str | None, undo: bool, everything: bool, **given: Any) -> int:
    """Hide a session from the list; a message or `resume` brings it back.

    Only a session that has ended, or that waits for the next message, is hidden. `perdure ls --archived` lists the
    archived sessions. Nothing is deleted. With --all, failed sessions are archived.
    """
    check_bulk(id, everything, given, undo=undo)
    if id is None:
        return edit_in_bulk(
            shell, "archived", given, lambda runtime, wanted: runtime.archive_all(**wanted, by=shell.by)
        )
    name = id
    changed = run_with_runtime(shell, lambda runtime: runtime.archive(name, undo=undo, by=shell.by))
    if shell.json:
        shell.echo_json(changed)
    elif changed.archived_at is None:
        shell.echo(f"Session {safe(changed.id)} is in the list.")
    else:
        back = shell.suggest("archive", changed.id, "--undo")
        shell.echo(f"Session {safe(changed.id)} is archived. `{back}` shows it in the list again.")
    return 0
