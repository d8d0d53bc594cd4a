"""`perdure completion`: a script that makes a shell complete commands, options and ids."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from perdure.cli import COMPLETION, bash_completion, perdure
from perdure.cli.shell import Shell, command


@command
@click.argument("name", type=click.Choice(["bash", "zsh", "fish"]), metavar="bash|zsh|fish")
def completion(shell: Shell, name: str) -> None:
    """Print a completion script for a shell.

    It completes commands, options, files, and ids of sessions, effects, approvals and questions. For bash, add
    eval "$(perdure completion bash)" to ~/.bashrc; for zsh, likewise to ~/.zshrc. For fish:
    perdure completion fish > ~/.config/fish/completions/perdure.fish.
    """
    made = bash_completion.BashCompletion if name == "bash" else get_completion_class(name)
    assert made is not None
    source = made(perdure, {}, "perdure", COMPLETION).source()
    if shell.json:
        shell.echo_json({"shell": name, "source": source})
    else:
        shell.echo(source)
