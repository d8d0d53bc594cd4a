"""Writing a bundle: completely or not at all, and the same bytes for the same content.

    temp      everything is written beside its final path, under a hidden name
    sync      every file is durable
    rename    the bundle has its name
    sync      the name is durable

A crash before the last line leaves hidden files that only take up space.
"""

from __future__ import annotations

import os
import shutil
import stat
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path

from perdure import faults
from perdure.durable import FULL, create, move_into_place, sync_file, sync_folder
from perdure.errors import Conflict, StoreFull, StoreUnavailable
from perdure.ids import new_uid
from perdure.interchange.bundle import MANIFEST, SIGNATURE
from perdure.interchange.unpack import CHUNK, BundleLimits

RATIO = BundleLimits().ratio // 2
Content = bytes | tuple[int, Iterable[bytes]]  # all of it, or its size and its pieces


def write(path: Path, files: Mapping[str, Content], *, again: bool = False) -> str:
    """Write a bundle and return its digest. With `again`, the same bundle may be there already."""
    temporary = path.parent / f".{path.name}.{new_uid()}.part"
    try:
        return _write(path, temporary, files, again)
    except OSError as error:
        if error.errno in FULL:
            raise StoreFull("The disk is full; the bundle was not written.") from error
        raise StoreUnavailable(f"The bundle cannot be written to {path.parent}: {error.strerror}.") from error
    finally:
        _remove(temporary)


def _write(path: Path, temporary: Path, files: Mapping[str, Content], again: bool) -> str:
    if path.suffix == ".zip":
        _write_zip(temporary, files)
    else:
        _write_folder(temporary, files)
    faults.point("bundle.synced")
    made = digest_of(temporary)
    if os.path.lexists(path):
        if again and digest_of(path) == made:
            sync_folder(path.parent)
            return made
        raise Conflict(f"{path} is there already.", hint="Name another place with --to, or move it away.")
    move_into_place(temporary, path, "bundle")
    return made


def digest_of(path: Path) -> str:
    """The digest of a bundle: of a .zip as a whole; of a folder that of its manifest, which has the other digests.

    The signature of a folder counts too: the manifest does not list it.
    """
    hashing = sha256()
    signature = [path / SIGNATURE] if (path / SIGNATURE).is_file() else []
    for part in [path] if path.is_file() else [path / MANIFEST, *signature]:
        with open(part, "rb") as file:
            while piece := file.read(CHUNK):
                hashing.update(piece)
    return hashing.hexdigest()


def _write_zip(path: Path, files: Mapping[str, Content]) -> None:
    with create(path) as file:
        with zipfile.ZipFile(file, "w") as made:
            for name, content in files.items():
                info = zipfile.ZipInfo(name)  # with the earliest possible time
                info.create_system, info.external_attr = 3, (stat.S_IFREG | 0o600) << 16
                info.file_size = len(content) if isinstance(content, bytes) else content[0]
                info.compress_type = zipfile.ZIP_DEFLATED if _is_compressible(content) else zipfile.ZIP_STORED
                with made.open(info, "w", force_zip64=info.file_size >= 1 << 31) as entry:
                    for piece in _pieces(content):
                        entry.write(piece)
        sync_file(file, "bundle.temp")


def _is_compressible(content: Content) -> bool:
    """Rows are compressed and artifacts are not. What compresses too well would be refused as a bomb."""
    return isinstance(content, bytes) and len(content) < RATIO * len(zlib.compress(content, 1))


def _write_folder(path: Path, files: Mapping[str, Content]) -> None:
    path.mkdir(mode=0o700)
    for name, content in files.items():
        place = path / name
        place.parent.mkdir(mode=0o700, exist_ok=True)
        with create(place) as file:
            for piece in _pieces(content):
                file.write(piece)
            sync_file(file, "bundle.temp")
    for folder in sorted({place.parent for place in map(path.joinpath, files)} | {path}, reverse=True):
        sync_folder(folder)


def _pieces(content: Content) -> Iterator[bytes]:
    if isinstance(content, bytes):
        yield content
    else:
        yield from content[1]


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
