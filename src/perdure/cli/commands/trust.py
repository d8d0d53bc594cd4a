"""`perdure trust`: show the settings of a folder and trust exactly that content; other commands ask with it too."""

from __future__ import annotations

import sys
from difflib import unified_diff
from pathlib import Path

import click

from perdure.cli.shell import Shell, command, is_terminal


@command
@click.option("--digest", metavar="DIGEST", help="Trust the content with this digest, without a question.")
@click.option("--forget", is_flag=True, help="Stop trusting the file of this folder.")
def trust(shell: Shell, digest: str | None, forget: bool) -> int:
    """Show the settings of this folder, and trust them.

    perdure.toml can name code to run, the store, the model and its address, so it is used only after you trusted its
    exact content. Where there is no terminal, name the content by the digest that this command prints.
    """
    from perdure.config import FILE, current_folder, read_file
    from perdure.control import trust as trusting
    from perdure.errors import ConfigError, NotFound

    path = current_folder() / FILE
    if forget:
        if not trusting.forget(path):
            raise NotFound(f"{path} was not trusted.")
        return _say(shell, path, None, "is not trusted any more")
    text = read_file(path)
    if not text:
        raise NotFound(f"There is no {FILE} in this folder.", hint="Change to the folder that has one.")
    if trusting.is_trusted(path, text):
        return _say(shell, path, text, "is trusted")
    if digest is not None:
        if digest != trusting.digest_of(text):
            raise ConfigError(f"{path} has another digest now.", hint="Read the file again: `perdure trust`.")
    elif not can_ask(shell):
        if not shell.json:
            shell.echo(*shown(path, text), f"digest {trusting.digest_of(text)}")
        return _say(shell, path, text, "is not trusted", 3)
    elif not ask(path, text):
        return _say(shell, path, text, "is not trusted", 1)
    trusting.trust(path, text)
    return _say(shell, path, text, "is trusted")


def _say(shell: Shell, path: Path, text: str | None, state: str, code: int = 0) -> int:
    from perdure.control.trust import digest_of

    if shell.json:
        content = {} if text is None else {"text": text, "digest": digest_of(text)}
        shell.echo_json({"path": str(path), "trusted": state == "is trusted"} | content)
    else:
        shell.echo(f"{path} {state}.")
    return code


def require(shell: Shell, path: Path, text: str) -> None:
    """Use a folder's settings only if they are trusted: ask at a terminal, refuse elsewhere."""
    from perdure.config import refuse_untrusted
    from perdure.control import trust as trusting

    if trusting.is_trusted(path, text):
        return
    if not can_ask(shell) or not ask(path, text):
        refuse_untrusted(path, text)
    trusting.trust(path, text)


def can_ask(shell: Shell) -> bool:
    return not shell.json and is_terminal(sys.stdin) and is_terminal(sys.stderr)


def ask(path: Path, text: str) -> bool:
    """Show the whole text, or what changed in it since it was trusted, and ask."""
    for line in shown(path, text):
        click.echo(line, err=True)
    click.echo("It can run code, and choose the store, the model and the model's address.", err=True)
    return click.confirm("Trust exactly this content?", default=False, err=True)


def shown(path: Path, text: str) -> list[str]:
    from perdure.cli.text.plain import safe
    from perdure.control.trust import trusted

    before = trusted(path)
    if before is None:
        head, lines = f"{path} has not been trusted yet. It says:", text.splitlines()
    else:
        head = f"{path} has changed since you trusted it:"
        lines = list(unified_diff(before.text.splitlines(), text.splitlines(), "trusted", "now", lineterm=""))
    return [safe(head), "", *(f"  {safe(line)}" for line in lines), ""]
