"""The acknowledged commits of this process: in memory, and in a file that survives its death.

A PostgreSQL server that lost acknowledged commits in a failover cannot detect that; the clients can. Each connection
notes its last commit, which implies all its earlier ones. The file has a slot for each connection and is mapped into
memory, so that a note costs no system call: it survives the process, and after a power cut of this host it may be
unreadable, which proves nothing.
The file is locked while the process lives, so that the next process on this host can find the files of dead ones. How
they are used is in `failover`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from mmap import mmap
from pathlib import Path
from zlib import crc32

import msgspec

from perdure.domain.worker import Liveness
from perdure.domain.writer import Acknowledgment
from perdure.ids import new_uid
from perdure.store.writer.lock import Presence, life_of

ROOM = 512


class Acknowledgments:
    """The last acknowledged commit of each of `places` connections. `folder` is None where no file can be written."""

    def __init__(self, folder: Path | None, places: int = 1) -> None:
        self.folder = folder
        self._size = places * ROOM
        self._begin()

    def _begin(self) -> None:
        self.id = new_uid()
        self.registered = False
        self._noted: dict[int, Acknowledgment] = {}
        self._file: Presence | None = None
        self._content: mmap | None = None

    def open_file(self) -> None:
        """Create the file, if that is possible here."""
        if self._file is not None or self.folder is None:
            return
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._file = Presence(self.folder, self.id)
            os.posix_fallocate(self._file.descriptor, 0, self._size)
            self._content = mmap(self._file.descriptor, self._size)
        except OSError:
            self.remove()
            self.folder = None

    def note(self, place: int, one: Acknowledgment) -> None:
        self._noted[place] = one
        if self._content is not None:
            line = msgspec.json.encode(one)
            start = place * ROOM
            self._content[start : start + ROOM] = b"%08x %b" % (crc32(line), line.ljust(ROOM - 9))

    def all(self) -> list[Acknowledgment]:
        return list(self._noted.values())

    def begin_again(self) -> None:
        """Start as another writer: the notes of this one were checked, and its row has the result."""
        self.remove()
        self._begin()

    def remove(self) -> None:
        """Remove the file: this writer needs no confirmation any more."""
        if self._content is not None:
            self._content.close()
        if self._file is not None:
            self._file.close()
        self._file = self._content = None

    def leave(self) -> None:
        """Close the file and leave it to the next process on this host."""
        if self._content is not None:
            self._content.close()
        if self._file is not None:
            os.close(self._file.descriptor)
        self._file = self._content = None

    def of_the_dead(self) -> Iterator[tuple[str, list[Acknowledgment]]]:
        """The dead writers on this host and what each had noted; an empty list where it cannot be read."""
        if self.folder is None or not self.folder.is_dir():
            return
        for path in sorted(self.folder.glob("[!.]*")):
            if path.name != self.id and life_of(self.folder, path.name) is Liveness.DEAD:
                yield path.name, read(path)

    def forget(self, id: str) -> None:
        """Remove the file of a dead writer."""
        if self.folder is not None:
            (self.folder / id).unlink(missing_ok=True)


def read(path: Path) -> list[Acknowledgment]:
    """What a writer had noted; an empty list if any of it cannot be read."""
    try:
        content = path.read_bytes()
    except OSError:
        return []
    found = []
    for start in range(0, len(content), ROOM):
        check, _, line = content[start : start + ROOM].strip(b"\0 \n").partition(b" ")
        if not check:
            continue  # a connection that has not written
        if b"%08x" % crc32(line) != check:
            return []
        found.append(msgspec.json.decode(line, type=Acknowledgment))
    return found
