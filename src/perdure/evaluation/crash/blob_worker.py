"""The process under test: a session blob. It is one JSON document, written whole under flock: a temporary file, fsync
and an atomic rename. It uses nothing of the runtime.

    result-only     after each effect, its result is written; before it, nothing
    intent          before each effect a marker is written and synced; a marker without a result means: unknown
    intent+key      the same, and the marker holds a key or a marker that is sent along

A process that finds a marker without a result uses what the sink can do, as carefully as Perdure does: it waits until a
request in flight has landed, then it looks, undoes, or sends again with the same key; otherwise it asks. So a blob with
an intent is a ledger inside a blob.

Two strengths are planted mistakes: `record-first` writes the result before the effect, `forgets-intent` writes the
marker and does not read it.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import secrets
import time
from pathlib import Path

import msgspec

from perdure.durable import write_whole
from perdure.evaluation.crash import outside, worker_arguments

RESULT_ONLY, INTENT, INTENT_KEY = "result-only", "intent", "intent+key"
RECORD_FIRST, FORGETS = "record-first", "forgets-intent"


class Document(msgspec.Struct):
    """The whole session: results, and markers of what was begun. Keys are the numbers of effects."""

    results: dict[str, int] = {}
    intents: dict[str, str | None] = {}


class LockedDocument:
    """The document of one session, held under a lock by one process."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._lock = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)  # until the process ends, however it ends
        self.document = read(path)

    def write(self) -> None:
        write_whole(self._path, msgspec.json.encode(self.document))


def read(path: Path) -> Document:
    """The document as it is on disk; one that was never written is empty."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Document)
    except FileNotFoundError:
        return Document()


class Question(Exception):
    """Only a person can say whether an effect happened."""


def perform(session: LockedDocument, given: argparse.Namespace, n: int) -> None:
    """Do effect `n` once, as far as this strength allows."""
    document, name, strength = session.document, str(n), given.configuration
    if name in document.results:
        return
    if name in document.intents and strength != FORGETS and resolve(document, given, n):
        document.results[name] = n
        session.write()
        return
    key = None
    if strength == INTENT_KEY:
        key = document.intents.get(name) or secrets.token_hex(16)
    if strength in (INTENT, INTENT_KEY, FORGETS):
        document.intents[name] = key
        session.write()
    if strength == RECORD_FIRST:
        document.results[name] = n
        session.write()
    outside.post(given.ability, n, key)
    document.results[name] = n
    session.write()


def resolve(document: Document, given: argparse.Namespace, n: int) -> bool:
    """Whether an effect that was begun has happened. It has not if it can be done again."""
    key, verdict = document.intents[str(n)], given.verdicts.get(str(n))
    if verdict is not None:
        return bool(verdict == "happened")
    if given.ability == "key" and key is not None:
        return False  # the same key again
    if given.ability not in ("lookup", "undo"):
        raise Question
    time.sleep(given.inflight)
    if given.ability == "lookup":
        return outside.is_there(n, key)
    outside.undo(n, key)
    return False


def main() -> None:
    given = worker_arguments.parse()
    worker_arguments.pause(given, "start")
    session = LockedDocument(Path(given.state))
    for n in range(1, given.effects + 1):
        try:
            perform(session, given, n)
        except Question:
            worker_arguments.end([n])
        if n == 1:
            worker_arguments.pause(given, "middle")
    worker_arguments.end([])


if __name__ == "__main__":
    main()
