"""`perdure completion`: a script that makes a shell complete commands, options and session ids."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from perdure.cli import perdure
from perdure.cli.shell import Shell, command

VARIABLE = "_PERDURE_COMPLETE"


@command
@click.argument("name", type=click.Choice(["bash", "zsh", "fish"]), metavar="bash|zsh|fish")
def completion(shell: Shell, name: str) -> None:
    """Print a completion script for a shell.

    It completes commands, options and session ids. For bash, add eval "$(perdure completion bash)" to ~/.bashrc; for
    zsh, likewise to ~/.zshrc. For fish: perdure completion fish > ~/.config/fish/completions/perdure.fish.
    """
    made = get_completion_class(name)
    assert made is not None
    source = made(perdure, {}, "perdure", VARIABLE).source()
    if shell.json:
        shell.echo_json({"shell": name, "source": source})
    else:
        shell.echo(source)
