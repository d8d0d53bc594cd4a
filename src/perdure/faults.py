"""Named points at which a test may kill, stop or fail the process. Inert unless armed.

They stand in shipped code on purpose: what is swept in tests is what runs. A point costs one global read.
Perdure never arms anything itself.
"""

from __future__ import annotations

from collections.abc import Callable

POINTS: dict[str, str] = {
    "move.before": "a move is about to run inside an open transaction",
    "move.after": "a move has run and its transaction is still open",
    "commit.before": "everything is written, nothing is committed",
    "commit.after": "the commit returned, nobody has been told",
    "answer.after": "the callers have been told",
    "act.before": "the dispatch is durable, the lease's deadline is not looked at yet",
    "act.begun": "the deadline was looked at, the tool is about to run",
    "act.after": "the tool has returned or raised, nothing of that is recorded",
    "probe.after": "the probe has answered, nothing of that is recorded",
    "command.folder": "a command's folder is there, its lock is not taken",
    "command.locked": "the command's lock is taken, it has no shepherd yet",
    "command.begun": "the command has its shepherd, which holds the lock",
    "command.ended": "the shepherd has ended, nothing of that is recorded",
    "artifact.temp": "the bytes are in a temporary file, not synced",
    "artifact.synced": "the bytes are synced under a temporary name",
    "artifact.renamed": "the file has its name, the folder is not synced",
    "artifact.durable": "the folder is synced, the index knows nothing",
    "file.temp": "a tool has written a temporary file beside its own, not synced",
    "file.synced": "the temporary file is synced, the file is still the old one",
    "file.renamed": "the file is the new one, the folder is not synced",
    "git.before": "a git command is about to begin, with its lock held",
    "git.after": "a git command has ended, nothing of that is told",
    "bundle.temp": "a file of a bundle is written under a temporary name, not synced",
    "bundle.synced": "the bundle is whole and synced under a temporary name",
    "bundle.renamed": "the bundle has its name, the folder is not synced",
    "bundle.durable": "the folder is synced",
    "migrate.before": "a migration is about to run",
    "migrate.after": "a migration has run and its transaction is still open",
    "create.before": "the database is open and has no tables",
    "create.after": "the tables are there, the folder is not synced",
    "log.before": "files: a line is about to be written",
    "log.written": "files: the line is written, not synced",
    "log.synced": "files: the line is synced, memory is not committed",
}

_handler: Callable[[str], None] | None = None


def point(name: str) -> None:
    """Say that execution has reached `name`."""
    if _handler is not None:
        _handler(name)


def arm(handler: Callable[[str], None]) -> None:
    """Call `handler` at every point from now on, in whichever thread reaches it."""
    global _handler
    _handler = handler


def disarm() -> None:
    """Make every point inert again."""
    global _handler
    _handler = None
