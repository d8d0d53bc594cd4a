"""Fault points: named places at which a test can kill, stop or fail the process. They do nothing unless armed.

They are in the shipped code on purpose, so that tests sweep the code that users run. A point costs one global read.
Perdure itself never arms a point.
"""

from __future__ import annotations

from collections.abc import Callable

POINTS: dict[str, str] = {
    "move.before": "a move is about to run inside an open transaction",
    "move.after": "a move has run and its transaction is still open",
    "commit.before": "everything is written, nothing is committed",
    "commit.after": "the commit returned, no caller has an answer",
    "answer.after": "the callers have their answers",
    "act.before": "the dispatch is durable, the deadline of the lease is not checked yet",
    "act.begun": "the deadline was checked, the tool is about to run",
    "act.after": "the tool has returned or raised, the outcome is not recorded",
    "probe.after": "the probe has answered, the answer is not recorded",
    "notification.claimed": "a notification is claimed, nothing is sent",
    "notification.sent": "a notification was sent or was not, the outcome is not recorded",
    "command.folder": "the folder of a command exists, its lock is not taken",
    "command.locked": "the command's lock is taken, it has no runner yet",
    "command.begun": "the command has its runner, which holds the lock",
    "command.ended": "the runner has ended, the outcome is not recorded",
    "artifact.temp": "the bytes are in a temporary file, not synced",
    "artifact.synced": "the bytes are synced under a temporary name",
    "artifact.renamed": "the file has its name, the folder is not synced",
    "artifact.durable": "the folder is synced, the index has no row",
    "file.temp": "a tool has written a temporary file next to its target, not synced",
    "file.synced": "the temporary file is synced, the file is still the old one",
    "file.renamed": "the file is the new one, the folder is not synced",
    "git.before": "a git command is about to start, with its lock held",
    "git.after": "a git command has ended, its outcome is not reported",
    "bundle.temp": "a file of a bundle is written under a temporary name, not synced",
    "bundle.synced": "the bundle is complete and synced under a temporary name",
    "bundle.renamed": "the bundle has its name, the folder is not synced",
    "bundle.durable": "the folder is synced",
    "migrate.before": "a migration is about to run",
    "migrate.after": "a migration has run and its transaction is still open",
    "create.before": "the database is open and has no tables",
    "create.after": "the tables exist, the folder is not synced",
    "log.before": "files: a line is about to be written",
    "log.written": "files: the line is written, not synced",
    "log.synced": "files: the line is synced, memory is not committed",
}

_handler: Callable[[str], None] | None = None


def point(name: str) -> None:
    """Report that execution has reached `name`."""
    if _handler is not None:
        _handler(name)


def arm(handler: Callable[[str], None]) -> None:
    """Call `handler` at every point from now on, in whichever thread reaches it."""
    global _handler
    _handler = handler


def disarm() -> None:
    """Make every point do nothing again."""
    global _handler
    _handler = None
