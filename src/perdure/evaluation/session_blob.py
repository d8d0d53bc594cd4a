"""A session as one JSON document: the design that the source paper argues against, built as well as it can be.

    change     take the lock, read the whole document, change it, write all of it to a temporary file, sync the file,
               rename it over the old one, sync the folder, release the lock
    read       read the whole document; a rename is atomic, so a reader sees one version

It is durable, atomic and, with the lock, loses no update. What it cannot do is change a part. Without the lock it is
the control of the workload `actors`: two writers that read the same version lose one of their updates. To lose one in
every trial, the first changes of two processes can be made to meet between reading and writing.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from perdure.durable import sync_folder
from perdure.testing.proxy import wait_until

T = TypeVar("T")


class SessionBlob:
    """One document; every process that uses it opens its own."""

    def __init__(self, path: Path, *, lock: bool = True, meeting: Path | None = None) -> None:
        self.path = path
        self._meeting = meeting
        self.waits = 0  # how often the lock was not free
        self.written = 0  # bytes
        self._lock = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC) if lock else None

    def read(self) -> Any:
        """The whole document."""
        return msgspec.json.decode(self.path.read_bytes())

    def write(self, document: Any) -> None:
        """Replace the whole document, whether or not it has changed since it was read."""
        temporary = self.path.with_suffix(f".{os.getpid()}.new")
        body = msgspec.json.encode(document)
        with temporary.open("wb") as file:
            file.write(body)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self.path)
        sync_folder(self.path.parent)
        self.written += len(body)

    def change(self, act: Callable[[Any], T]) -> T:
        """Read, change and write. An error of `act` writes nothing."""
        self._take()
        try:
            document = self.read()
            self._meet()
            result = act(document)
            self.write(document)
            return result
        finally:
            if self._lock is not None:
                fcntl.flock(self._lock, fcntl.LOCK_UN)

    def close(self) -> None:
        if self._lock is not None:
            os.close(self._lock)

    def _take(self) -> None:
        if self._lock is None:
            return
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.waits += 1
            fcntl.flock(self._lock, fcntl.LOCK_EX)

    def _meet(self) -> None:
        """The planted race: the first change in each of two processes writes only after both have read."""
        if self._meeting is None:
            return
        meeting, self._meeting = self._meeting, None
        (meeting / str(os.getpid())).touch()
        wait_until(lambda: sum(1 for _ in meeting.iterdir()) >= 2, "another process has read the document")
