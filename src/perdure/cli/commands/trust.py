"""`perdure trust`: show the settings of a folder, and trust exactly that content."""

from __future__ import annotations

from pathlib import Path

import click

from perdure.cli.prompts.trust_prompt import can_ask, confirm_trust, content_lines
from perdure.cli.shell import Shell, command
from perdure.config import FILE, current_folder, read_file
from perdure.control import trust as trust_records
from perdure.control.trust import digest_of
from perdure.errors import ConfigError, NotFound


@command
@click.option("--digest", metavar="DIGEST", help="Trust the content with this digest, without asking.")
@click.option("--forget", is_flag=True, help="Stop trusting the file of this folder.")
def trust(shell: Shell, digest: str | None, forget: bool) -> int:
    """Show the settings of this folder, and trust them.

    perdure.toml can name code to run, the store, the model and its address, so it is used only after you have trusted
    its exact content. Without a terminal, give the digest that this command prints.
    """
    path = current_folder() / FILE
    if forget:
        if not trust_records.forget(path):
            raise NotFound(f"{path} was not trusted.")
        return _show(shell, path, None, "is no longer trusted")
    text = read_file(path)
    if not text:
        raise NotFound(f"There is no {FILE} in this folder.", hint="Change to the folder that contains it.")
    if trust_records.is_trusted(path, text):
        return _show(shell, path, text, "is trusted")
    if digest is not None:
        if digest != digest_of(text):
            raise ConfigError(f"{path} has another digest now.", hint="Read the file again: `perdure trust`.")
    elif not can_ask(shell):
        if not shell.json:
            shell.echo(*content_lines(path, text), f"digest {digest_of(text)}")
        return _show(shell, path, text, "is not trusted", 3)
    elif not confirm_trust(path, text):
        return _show(shell, path, text, "is not trusted", 1)
    trust_records.trust(path, text)
    return _show(shell, path, text, "is trusted")


def _show(shell: Shell, path: Path, text: str | None, state: str, code: int = 0) -> int:
    """Print the state of trust, and return the exit code."""
    if shell.json:
        content = {} if text is None else {"text": text, "digest": digest_of(text)}
        shell.echo_json({"path": str(path), "trusted": state == "is trusted"} | content)
    else:
        shell.echo(f"{path} {state}.")
    return code
