"""The messages that this user typed at any terminal, for the up key: a small private file in the data folder."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import msgspec

from perdure.config import data_folder

MOST = 500  # messages
LONGEST = 10_000  # characters of a message that is kept


def history_file() -> Path:
    return data_folder() / "history.jsonl"


def read_history() -> list[str]:
    """The messages, the newest last. A file that cannot be read is empty: it only makes typing easier."""
    with suppress(OSError), _open() as file:
        return _decode(file.read())[-MOST:]
    return []


def add_to_history(text: str) -> None:
    """Append a message, and drop the oldest ones."""
    if not text.strip() or len(text) > LONGEST:
        return
    with suppress(OSError), _open() as file:
        kept = _decode(file.read())
        if kept[-1:] == [text]:
            return
        line = msgspec.json.encode(text) + b"\n"
        if len(kept) < 2 * MOST:
            file.write(line)  # at the end
            return
        file.seek(0)
        file.truncate()
        file.write(b"".join(msgspec.json.encode(one) + b"\n" for one in kept[-MOST + 1 :]) + line)


@contextmanager
def _open() -> Iterator[IO[bytes]]:
    """The file, locked against other terminals."""
    path = history_file()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    with os.fdopen(os.open(path, flags, 0o600), "r+b", buffering=0) as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # a stopped process may hold it
        yield file


def _decode(content: bytes) -> list[str]:
    """The messages of the file, without lines that are damaged."""
    found = []
    for line in content.splitlines():
        with suppress(msgspec.DecodeError):
            found.append(msgspec.json.decode(line, type=str))
    return found
