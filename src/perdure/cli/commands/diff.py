"""`perdure diff`: what the session of an agent changed in its files."""

from __future__ import annotations

from collections.abc import Iterator

import click

from perdure.cli.shell import Shell, command
from perdure.cli.store_access import run_with_runtime
from perdure.cli.text.plain import safe
from perdure.errors import ConfigError

HEADERS = ("diff ", "index ", "--- ", "+++ ", "new ", "deleted ", "old ", "similarity ", "rename ", "Binary ")
COLOURS = {"+": "green", "-": "red", "@": "cyan"}


@command
@click.argument("id")
@click.option("--from", "first", type=click.IntRange(1), metavar="N", help="Compare from the files at event N.")
@click.option(
    "--to", "last", type=click.IntRange(1), metavar="M", help="Compare to the files at event M (default: the last)."
)
@click.option("--parent", is_flag=True, help="Compare a branch with the newest files of its parent.")
@click.option("--stat", is_flag=True, help="Only show how many lines changed in each file.")
def diff(shell: Shell, id: str, first: int | None, last: int | None, parent: bool, stat: bool) -> None:
    """Show what an agent changed in its files.

    By default a session is compared with its start, and a branch with its fork. With --from and --to, the files at two
    events are compared. The command compares the snapshots that were recorded with the events; later changes by hand
    are not included.
    """
    if parent and first is not None:
        raise ConfigError("--parent and --from both set what to compare with.", hint="Give one of them.")
    found = run_with_runtime(shell, lambda runtime: runtime.diff(id, first=first, last=last, parent=parent, stat=stat))
    if shell.json:
        shell.echo_json(found)
    elif not found.text:
        shell.echo(
            f"No file differs between event {found.before.event} of {found.before.session}"
            f" and event {found.after.event} of {found.after.session}."
        )
    else:
        shell.echo(*(stat_lines(found.text) if stat else diff_lines(found.text)))
    for one in dict.fromkeys([*found.before.not_kept, *found.after.not_kept]):
        shell.note(f"not compared: {safe(one)}, not in the snapshot")


def diff_lines(text: str) -> Iterator[str]:
    """A unified diff, escaped and coloured. Inside a hunk, a line that looks like a header is not one."""
    in_hunk = False
    for line in text.removesuffix("\n").split("\n"):
        shown = safe(line, keep="\t")
        if line.startswith("diff "):
            in_hunk = False
        elif line.startswith("@@ "):
            in_hunk = True
        if not in_hunk and line.startswith(HEADERS):
            yield click.style(shown, bold=True)
        elif line[:1] in COLOURS:
            yield click.style(shown, fg=COLOURS[line[0]])
        else:
            yield shown


def stat_lines(text: str) -> Iterator[str]:

    yield from (safe(line) for line in text.removesuffix("\n").split("\n"))
