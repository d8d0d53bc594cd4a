"""`perdure artifacts`: list, copy and print what is stored outside the database."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from perdure.cli.commands.effect_details import artifact_folder
from perdure.cli.shell import Shell, command, is_terminal
from perdure.cli.subcommands import ListingCommand
from perdure.config import is_service

if TYPE_CHECKING:
    from perdure.artifacts.directory import Directory

HEADINGS = ("digest", "session", "kind~", "size", "stored", "here")
SHOWN = 16  # characters of a digest in the table


@command
@click.argument("id", required=False)
@click.option(
    "--limit", type=click.IntRange(1, 100_000), default=100, show_default=True, help="Maximum number to list."
)
def ls(shell: Shell, id: str | None, limit: int) -> None:
    """List artifacts of one session or of all, the newest first.

    The column `here` tells whether the bytes are in the folder for artifacts of this machine.
    """
    from perdure.artifacts.directory import Directory
    from perdure.cli.store_access import read_store
    from perdure.cli.text.grid import grid
    from perdure.cli.text.plain import safe
    from perdure.clock import span
    from perdure.store.moves import artifact, session

    folder = artifact_folder(shell)
    with read_store(shell) as tx:
        uid = None if id is None else session.find(tx, id).uid
        found, now = artifact.listing(tx, uid, limit=limit + 1), tx.now
        names = {one.session_uid: session.get(tx, one.session_uid).id for one in found}
    here = {one.digest: folder is not None and Directory(folder).has(one.digest) for one in found}
    if shell.json:
        for one in found[:limit]:
            shell.echo_json(one.to_dict() | {"session": names[one.session_uid], "here": here[one.digest]})
        return
    if not found:
        shell.echo("There are no artifacts.")
        return
    rows = [
        [
            one.digest[:SHOWN], safe(names[one.session_uid]), safe(one.kind), f"{one.size:,}",
            f"{span(now - one.created_at)} ago", "yes" if here[one.digest] else "no",
        ]
        for one in found[:limit]
    ]  # fmt: skip
    shell.echo(*grid(HEADINGS, rows, width=shell.width))
    if len(found) > limit:
        shell.echo("", f"These are the newest {limit}. Use --limit to list more.")


@command
@click.argument("digest")
@click.argument("file", required=False)
def get(shell: Shell, digest: str, file: str | None) -> None:
    """Copy an artifact to FILE, which must not exist; by default to a file named by its digest.

    DIGEST may be a unique prefix.
    """
    from perdure.cli.text.plain import count, safe
    from perdure.errors import ConfigError
    from perdure.ids import new_uid

    name, content = _open(shell, digest)
    target = Path(file if file is not None else name[:SHOWN])
    if os.path.lexists(target):
        raise ConfigError(f"{target} exists already; nothing was written.", hint="Name another file.")
    partial = target.with_name(f".{target.name}.{new_uid()[:8]}.part")
    size = 0
    try:
        with open(partial, "xb") as output:
            for chunk in content:
                size += output.write(chunk)
        partial.rename(target)
    finally:
        partial.unlink(missing_ok=True)
    if shell.json:
        shell.echo_json({"digest": name, "file": str(target), "size": size})
    else:
        shell.echo(f"Wrote {count(size, 'byte')} to {safe(str(target))}.")


@command
@click.argument("digest")
def cat(shell: Shell, digest: str) -> None:
    """Print an artifact. DIGEST may be a unique prefix.

    On a terminal, control characters are shown as escapes. Into a file or a pipe, the bytes are written unchanged.
    """
    name, content = _open(shell, digest, is_checked=True)
    if shell.json:
        shell.echo_json({"digest": name} | _as_json(b"".join(content)))
    elif is_terminal(sys.stdout):
        shell.echo(*_visible_lines(content))
    else:
        shell.echo_bytes(content)


def _open(shell: Shell, digest: str, *, is_checked: bool = False) -> tuple[str, Iterator[bytes]]:
    """The digest and the bytes of an artifact; with `is_checked`, the digest is checked before the first byte."""
    if is_service(shell.store):
        from hashlib import sha256

        from perdure.cli.store_access import run_with_runtime

        content = run_with_runtime(shell, lambda runtime: runtime.artifact(digest))
        return sha256(content).hexdigest(), iter([content])
    directory, name = _find(shell, digest)
    if is_checked:
        for _ in directory.open(name):
            pass
    return name, directory.open(name)


def _find(shell: Shell, digest: str) -> tuple[Directory, str]:
    from perdure.artifacts.directory import Directory
    from perdure.cli.store_access import read_logged
    from perdure.errors import NotFound
    from perdure.store.moves import artifact

    with read_logged(shell, "artifact", lambda tx: (None, artifact.find_digest(tx, digest))) as tx:
        name = artifact.find_digest(tx, digest)
    if (folder := artifact_folder(shell)) is None:
        raise NotFound(
            f"Artifact {name[:12]} is not here: this store has no folder for artifacts.",
            hint="Name the folder in the setting `artifacts` (PERDURE_ARTIFACTS).",
        )
    return Directory(folder), name


def _as_json(content: bytes) -> dict[str, object]:
    from base64 import b64encode

    try:
        return {"size": len(content), "text": content.decode()}
    except UnicodeDecodeError:
        return {"size": len(content), "base64": b64encode(content).decode()}


def _visible_lines(chunks: Iterator[bytes]) -> Iterator[str]:
    from perdure.cli.text.plain import safe

    for line in b"".join(chunks).decode(errors="replace").split("\n"):
        yield safe(line, keep="\t")


artifacts = ListingCommand(ls, {"ls": ls, "get": get, "cat": cat})
artifacts.name = "artifacts"
