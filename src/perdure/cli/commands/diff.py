"""`perdure diff`: what an agent's session changed in its files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from perdure.cli.shell import Shell, command

if TYPE_CHECKING:
    from collections.abc import Iterator

HEADERS = ("diff ", "index ", "--- ", "+++ ", "new ", "deleted ", "old ", "similarity ", "rename ", "Binary ")
COLOURS = {"+": "green", "-": "red", "@": "cyan"}


@command
@click.argument("id")
@click.option("--from", "first", type=click.IntRange(1), metavar="N", help="From the files of event N.")
@click.option("--to", "last", type=click.IntRange(1), metavar="M", help="To the files of event M; by default the last.")
@click.option("--parent", is_flag=True, help="A branch against the newest files of what it was branched from.")
@click.option("--stat", is_flag=True, help="Only how many lines of which files.")
def diff(shell: Shell, id: str, first: int | None, last: int | None, parent: bool, stat: bool) -> None:
    """Show what an agent changed in its files.

    A session is compared with its start, a branch with its fork; with --from and --to, the files of one event with
    those of another. What is compared are the files as they were kept with the events; what was changed by hand since
    is not among them.
    """
    from perdure.cli.store_access import run_with_runtime
    from perdure.cli.text.plain import safe
    from perdure.control.branches.files import diff as differing
    from perdure.errors import ConfigError

    if parent and first is not None:
        raise ConfigError("--parent and --from each say what to compare with.", hint="Give one of them.")
    found = run_with_runtime(
        shell, lambda runtime: differing(runtime, id, first=first, last=last, parent=parent, stat=stat)
    )
    if shell.json:
        shell.echo_json(found)
    elif not found.text:
        shell.echo(
            f"No file differs between event {found.before.event} of {found.before.session}"
            f" and event {found.after.event} of {found.after.session}."
        )
    else:
        shell.echo(*(counted(found.text) if stat else coloured(found.text)))
    for one in dict.fromkeys([*found.before.not_kept, *found.after.not_kept]):
        shell.note(f"not compared: {safe(one)}, which is not in the snapshot")


def coloured(text: str) -> Iterator[str]:
    """A unified diff, harmless, each line in its colour; a line that only looks like a header is in a hunk."""
    from perdure.cli.text.plain import safe

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


def counted(text: str) -> Iterator[str]:
    from perdure.cli.text.plain import safe

    yield from (safe(line) for line in text.removesuffix("\n").split("\n"))
