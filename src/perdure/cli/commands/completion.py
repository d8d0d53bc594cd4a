"""`perdure completion`, and the session ids that a shell completes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from perdure.cli.shell import Shell, command

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

VARIABLE = "_PERDURE_COMPLETE"
MOST = 50


@command
@click.argument("name", type=click.Choice(["bash", "zsh", "fish"]), metavar="bash|zsh|fish")
def completion(shell: Shell, name: str) -> None:
    """Print what makes a shell complete commands, options and session ids.

    For bash: eval "$(perdure completion bash)" in ~/.bashrc; zsh likewise in ~/.zshrc. For fish: perdure completion
    fish > ~/.config/fish/completions/perdure.fish.
    """
    from click.shell_completion import get_completion_class

    from perdure.cli import perdure

    made = get_completion_class(name)
    assert made is not None
    source = made(perdure, {}, "perdure", VARIABLE).source()
    if shell.json:
        shell.echo_json({"shell": name, "source": source})
    else:
        shell.echo(source)


def ids(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The sessions whose id begins so, for any command that takes one; nothing, if the store cannot be read."""
    from click.shell_completion import CompletionItem

    from perdure.cli.store_access import read_store
    from perdure.cli.text.plain import short
    from perdure.errors import PerdureError
    from perdure.store.moves import session

    try:
        with read_store(Shell(context.params.get("store"), json=True)) as tx:
            found = session.with_prefix(tx, incomplete, limit=MOST)
    except (PerdureError, OSError):
        return []
    return [CompletionItem(one.id, help=short(one.title or one.program, 60)) for one in found]
