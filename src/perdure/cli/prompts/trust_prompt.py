"""Trust in the settings of a folder: every command that reads them requires it, and asks at a terminal."""

from __future__ import annotations

import sys
from difflib import unified_diff
from pathlib import Path

import click

from perdure.cli.shell import Shell, is_terminal
from perdure.cli.text.plain import safe
from perdure.config import refuse_untrusted
from perdure.control import trust


def require_trust(shell: Shell, path: Path, text: str) -> None:
    """Use the settings of a folder only if the user trusts them: ask at a terminal, refuse elsewhere."""
    if trust.is_trusted(path, text):
        return
    if not can_ask(shell) or not confirm_trust(path, text):
        refuse_untrusted(path, text)
    trust.trust(path, text)


def can_ask(shell: Shell) -> bool:
    """Whether a question can be shown to the user and answered."""
    return not shell.json and is_terminal(sys.stdin) and is_terminal(sys.stderr)


def confirm_trust(path: Path, text: str) -> bool:
    """Show the content, or what changed in it since it was trusted, and ask the user."""
    for line in content_lines(path, text):
        click.echo(line, err=True)
    click.echo("It can run code, and it can set the store, the model and the address of the model.", err=True)
    return click.confirm("Trust exactly this content?", default=False, err=True)


def content_lines(path: Path, text: str) -> list[str]:
    """The content of a settings file, or what changed in it since it was trusted."""
    before = trust.trusted(path)
    if before is None:
        head, lines = f"{path} is not trusted yet. Its content:", text.splitlines()
    else:
        head = f"{path} has changed since you trusted it:"
        lines = list(unified_diff(before.text.splitlines(), text.splitlines(), "trusted", "now", lineterm=""))
    return [safe(head), "", *(f"  {safe(line)}" for line in lines), ""]
