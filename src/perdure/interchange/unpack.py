"""Reading a bundle that may come from anyone. Nothing is ever unpacked to disk: files are read by name, within limits.

Names are checked before anything is read; only plain files are accepted, and links are never followed. No more is read
than the bundle declares and the limits allow, and it is used only if its digest is the one in the manifest.
"""

from __future__ import annotations

import os
import stat
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import IO

import msgspec

from perdure.errors import BundleInvalid, NotFound
from perdure.interchange.bundle import FILE, MANIFEST, SIGNATURE, Manifest, read_manifest

CHUNK = SMALL = 1 << 20


class BundleLimits(msgspec.Struct, frozen=True):
    """How large a bundle may be. `ratio` is how much larger than its size in a .zip a file may be that is not small."""

    files: int = 200_000
    file: int = 4 << 30
    manifest: int = 64 << 20  # room for the largest number of files
    signature: int = 4 << 10
    rows: int = 1 << 30  # all files of rows together: they are held in memory
    total: int = 64 << 30
    ratio: int = 200


NO_MANIFEST = "There is no manifest.json: this is not a bundle, or it is torn."


class BundleFiles(ABC):
    """The files of a bundle, by name, with their sizes."""

    sizes: dict[str, int]

    @abstractmethod
    def open(self, name: str) -> IO[bytes]: ...


class FolderFiles(BundleFiles):
    """A bundle as a folder."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.sizes = {}
        if not os.path.lexists(path / MANIFEST):  # any other folder: its names are not checked
            raise BundleInvalid(NO_MANIFEST)
        waiting = [""]
        while waiting:
            under = waiting.pop()
            for entry in os.listdir(path / under):
                name = f"{under}/{entry}" if under else entry
                _check_name(name)
                found = os.lstat(path / name)
                if stat.S_ISDIR(found.st_mode):
                    waiting.append(name)
                elif stat.S_ISREG(found.st_mode):
                    self.sizes[name] = found.st_size
                else:
                    raise BundleInvalid(f"{name} in the bundle is a link or a device, and not a file.")

    def open(self, name: str) -> IO[bytes]:
        return os.fdopen(os.open(self._path / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb")


class ZipFiles(BundleFiles):
    """A bundle as a .zip."""

    def __init__(self, file: zipfile.ZipFile, limits: BundleLimits) -> None:
        self._file = file
        self.sizes = {}
        for info in file.infolist():
            _check_name(info.orig_filename.rstrip("/") if info.is_dir() else info.orig_filename)
            kind = stat.S_IFMT(info.external_attr >> 16)
            if kind not in (0, stat.S_IFDIR if info.is_dir() else stat.S_IFREG):
                raise BundleInvalid(f"{info.filename} in the bundle is a link or a device, and not a file.")
            if info.is_dir():
                continue
            if info.flag_bits & 1 or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise BundleInvalid(f"{info.filename} in the bundle is encrypted, or packed in an unknown way.")
            if info.filename in self.sizes:
                raise BundleInvalid(f"{info.filename} is in the bundle twice.")
            if info.file_size > max(SMALL, limits.ratio * info.compress_size):
                raise BundleInvalid(
                    f"{info.filename} in the bundle would grow to more than {limits.ratio} times its size."
                )
            self.sizes[info.filename] = info.file_size

    def open(self, name: str) -> IO[bytes]:
        return self._file.open(name)


def _check_name(name: str) -> None:
    if not FILE.match(name):
        raise BundleInvalid(f"{name[:80]!r} cannot be the name of a file in a bundle.")


class BundleReader:
    """An open bundle whose names, sizes and manifest are consistent."""

    def __init__(self, source: BundleFiles, limits: BundleLimits) -> None:
        self._source = source
        self._limits = limits
        self._held = 0
        sizes = source.sizes
        if len(sizes) > limits.files or max(sizes.values(), default=0) > limits.file or _total(sizes) > limits.total:
            raise BundleInvalid("The bundle is larger than the limits allow.", hint="Raise them if you trust it.")
        if MANIFEST not in sizes:
            raise BundleInvalid(NO_MANIFEST)
        content = b"".join(self._pieces(MANIFEST, limits.manifest))
        self.manifest: Manifest = read_manifest(content)
        self.digest = sha256(content).hexdigest()
        signed = SIGNATURE in sizes
        self.signature = b"".join(self._pieces(SIGNATURE, limits.signature)) if signed else None
        declared = {name: part.size for name, part in self.manifest.files.items()}
        found = {name: size for name, size in sizes.items() if name not in (MANIFEST, SIGNATURE)}
        for name in sorted(declared.keys() | found.keys()):
            if declared.get(name) != found.get(name):
                what = (
                    "is missing"
                    if name not in found
                    else "is not in the manifest"
                    if name not in declared
                    else "is torn"
                )
                raise BundleInvalid(f"{name} {what}.")

    def content(self, name: str) -> bytes:
        """A whole file, checked against its digest. The sizes of all files read this way are added up."""
        self._held += self.manifest.files[name].size
        if self._held > self._limits.rows:
            raise BundleInvalid(
                f"With {name} the rows are larger than the limits allow.", hint="Raise them if you trust it."
            )
        whole = BytesIO()  # joining pieces would hold it twice
        for piece in self.pieces(name):
            whole.write(piece)
        return whole.getvalue()

    def pieces(self, name: str) -> Iterator[bytes]:
        """A file in pieces; its digest is checked at the end, and a mismatch raises there."""
        hashing = sha256()
        for piece in self._pieces(name, self.manifest.files[name].size):
            hashing.update(piece)
            yield piece
        if hashing.hexdigest() != self.manifest.files[name].sha256:
            raise BundleInvalid(f"{name} does not match its digest.")

    def _pieces(self, name: str, most: int) -> Iterator[bytes]:
        with _read_errors(name), self._source.open(name) as file:
            while piece := file.read(CHUNK):
                most -= len(piece)
                if most < 0:
                    raise BundleInvalid(f"{name} is longer than it says, or than the limits allow.")
                yield piece


def _total(sizes: dict[str, int]) -> int:
    return sum(sizes.values())


@contextmanager
def _read_errors(name: str) -> Iterator[None]:
    try:
        yield
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        raise BundleInvalid(f"{name} cannot be read from the bundle: {error}.") from None
    except OSError as error:
        raise BundleInvalid(f"{name} cannot be read from the bundle: {error.strerror}.") from None


@contextmanager
def open_bundle(path: Path, limits: BundleLimits = BundleLimits()) -> Iterator[BundleReader]:  # noqa: B008  (frozen)
    """Open a bundle, or raise why it is none."""
    if path.is_dir():
        with _read_errors("A file"):
            source = FolderFiles(path)
        yield BundleReader(source, limits)
        return
    if not path.is_file():
        raise NotFound(f"There is no bundle at {path}.", hint="`perdure export ID` makes one.")
    with _read_errors(path.name):
        file = zipfile.ZipFile(path)
    try:
        with _read_errors(path.name):
            packed = ZipFiles(file, limits)
        yield BundleReader(packed, limits)
    finally:
        with suppress(OSError):
            file.close()
