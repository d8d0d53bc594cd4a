"""Artifacts in a folder: `artifacts/ab/abcdef...`, written once, never changed.

    temp       write the bytes under a temporary name
    sync       the bytes are durable
    rename     the file has its name: it appears complete or not at all
    sync       the name is durable
    index      a row in the store claims it for a session

A crash before the last line leaves a file that no row claims: an orphan, which only costs space. A row never claims
bytes that are missing. Every read checks the digest.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from hashlib import file_digest, sha256
from pathlib import Path
from typing import BinaryIO

from perdure import faults
from perdure.domain.artifact import Artifact, Retention
from perdure.durable import FULL, create, make_folder, move_into_place, sync_file, sync_folder
from perdure.errors import Damaged, NotFound, StoreFull, StoreUnavailable
from perdure.ids import digest, new_uid
from perdure.store.move import StoreTransaction
from perdure.store.moves import artifact, session
from perdure.store.store import Store

CHUNK = 1 << 20
CHECKED = 10_000  # files whose digest is not checked again


class Directory:
    """A folder of artifacts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._temporary = folder / "temp"
        self._checked: dict[str, tuple[int, ...]] = {}  # the files whose digest was found right, as they were then

    def put(self, content: bytes | Iterable[bytes]) -> tuple[str, int]:
        """Store bytes and return their digest and size. Bytes that are stored already are not written again."""
        chunks: Iterable[bytes] = [content] if isinstance(content, bytes) else content
        if isinstance(content, bytes) and self._is_whole(path := self._path(name := digest(content)), len(content)):
            return name, path.stat().st_size
        try:
            return self._write(chunks)
        except OSError as error:
            if error.errno in FULL:
                raise StoreFull("The disk is full; the artifact was not stored.") from error
            raise StoreUnavailable(f"The artifact cannot be written: {error.strerror}.") from error

    def _write(self, chunks: Iterable[bytes]) -> tuple[str, int]:
        make_folder(self._temporary)
        temporary = self._temporary / new_uid()
        hashing, size = sha256(), 0
        try:
            with create(temporary) as file:
                for chunk in chunks:
                    file.write(chunk)
                    hashing.update(chunk)
                    size += len(chunk)
                sync_file(file, "artifact.temp")
            faults.point("artifact.synced")
            name = hashing.hexdigest()
            path = self._path(name)
            make_folder(path.parent)
            move_into_place(temporary, path, "artifact")
            return name, size
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise

    def get(self, name: str) -> bytes:
        """The bytes, checked against their digest."""
        try:
            content = self._path(name).read_bytes()
        except FileNotFoundError:
            raise NotFound(f"Artifact {name[:12]} is not here.") from None
        if digest(content) != name:
            raise Damaged(f"Artifact {name[:12]} does not match its digest.")
        return content

    def open(self, name: str) -> Iterator[bytes]:
        """The bytes in chunks; the digest is checked at the end, and a mismatch raises an error there."""
        hashing = sha256()
        try:
            with open(self._path(name), "rb") as file:
                while chunk := file.read(CHUNK):
                    hashing.update(chunk)
                    yield chunk
        except FileNotFoundError:
            raise NotFound(f"Artifact {name[:12]} is not here.") from None
        if hashing.hexdigest() != name:
            raise Damaged(f"Artifact {name[:12]} does not match its digest.")

    def open_checked(self, name: str) -> tuple[BinaryIO, int]:
        """The open file and its size. The digest is checked when this process first opens it, and after a change."""
        try:
            file = self._path(name).open("rb")
        except FileNotFoundError:
            raise NotFound(f"Artifact {name[:12]} is not here.") from None
        try:
            found = os.fstat(file.fileno())
            state = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
            if self._checked.get(name) != state:
                if file_digest(file, "sha256").hexdigest() != name:
                    raise Damaged(f"Artifact {name[:12]} does not match its digest.")
                if len(self._checked) >= CHECKED:
                    self._checked.clear()
                self._checked[name] = state
        except BaseException:
            file.close()
            raise
        return file, found.st_size

    def has(self, name: str) -> bool:
        return self._path(name).is_file()

    def size(self, name: str) -> int:
        """Its size in bytes; raises `OSError` if it does not exist."""
        return self._path(name).stat().st_size

    def names(self) -> Iterator[str]:
        """Every artifact in the folder, claimed or not."""
        for folder in sorted(self.folder.glob("[0-9a-f][0-9a-f]")):
            for path in sorted(folder.iterdir()):
                yield path.name

    def remove(self, name: str) -> None:
        self._path(name).unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        if len(name) != 64 or not set(name) <= set("0123456789abcdef"):
            raise NotFound(f"{name[:20]!r} is not the digest of an artifact.")
        return self.folder / name[:2] / name

    def _is_whole(self, path: Path, size: int) -> bool:
        """Whether the file exists in full, with a durable name: its content was synced before it got its name."""
        if not path.is_file() or path.stat().st_size != size:
            return False
        sync_folder(path.parent)
        return True


def directory_of(store: Store) -> Directory:
    """The artifact folder that belongs to a store on this machine."""
    if store.folder is None:
        raise NotFound("This store has no folder for artifacts.", hint="Set `artifacts` in the settings.")
    return Directory(store.folder / "artifacts")


async def save(
    store: Store,
    directory: Directory,
    uid: str,
    content: bytes,
    *,
    by: str,
    kind: str = "application/octet-stream",
    retention: Retention = Retention.SESSION,
) -> str:
    """Store bytes for a session: the bytes first, then the row that claims them."""
    name, size = directory.put(content)
    await store.write(
        artifact.index(uid, by, name, kind=kind, size=size, location=name[:2] + "/" + name, retention=retention)
    )
    return name


def orphans(tx: StoreTransaction, directory: Directory) -> list[str]:
    """Files that no row claims, left by a crash between writing the bytes and the row."""
    claimed, after = set[str](), ""
    while page := artifact.digests(tx, after=after):
        claimed.update(page)
        after = page[-1]
    return [name for name in directory.names() if name not in claimed]


def missing(tx: StoreTransaction, directory: Directory, uid: str) -> list[Artifact]:
    """Rows whose bytes are missing; a crash never causes this."""
    session.get(tx, uid)
    return [row for row in artifact.of_session(tx, uid) if not directory.has(row.digest)]
