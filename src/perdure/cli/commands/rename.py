"""`perdure rename`: another title for a session."""

from __future__ import annotations

import click

from perdure.cli.shell import Shell, by_option, command
from perdure.cli.store_access import run_with_runtime
from perdure.cli.text.plain import safe, short


@command
@click.argument("id")
@click.argument("title")
@by_option
def rename(shell: Shell, id: str, title: str) -> None:
    """Give a session another title.

    Its id stays, because logs, bundles and other sessions refer to it.
    """
    renamed = run_with_runtime(shell, lambda runtime: runtime.rename(id, title, by=shell.by))
    if shell.json:
        shell.echo_json(renamed)
    else:
        shell.echo(f"Session {safe(renamed.id)} is titled: {short(renamed.title or '')}")
