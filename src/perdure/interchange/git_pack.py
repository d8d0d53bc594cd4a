"""Reads a git pack that may come from anyone, before git sees it: what it would grow to must be within limits.

Git checks the content of a pack when it indexes it. It does not bound the size of an object, which a few bytes of
compressed data or of deltas can make as large as they declare. So every object is inflated here once, in pieces and no
further than it declares, and the sizes that the deltas declare are added up.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import msgspec

from perdure.errors import BundleInvalid

OFFSET_DELTA, REFERENCE_DELTA = 6, 7
DIGEST_SIZE = {"sha1": 20, "sha256": 32}
PIECE = 1 << 16


class PackLimits(msgspec.Struct, frozen=True):
    """How large a pack may be: the number of its objects, the size of one, and of all together."""

    objects: int = 2_000_000
    object: int = 256 << 20
    total: int = 32 << 30


def check_pack(pieces: Iterator[bytes], object_format: str, limits: PackLimits = PackLimits()) -> int:  # noqa: B008  (frozen)
    """Read a whole pack and return the number of its objects; raises what is wrong with it."""
    source = _Source(pieces)
    if source.read(4) != b"PACK" or int.from_bytes(source.read(4), "big") not in (2, 3):
        raise BundleInvalid("The files of the bundle are not a git pack.")
    count, total = int.from_bytes(source.read(4), "big"), 0
    if count > limits.objects:
        raise BundleInvalid(f"The files of the bundle have {count} objects, more than the limits allow.")
    for _ in range(count):
        size = _object_size(source, DIGEST_SIZE[object_format], limits)
        total += size
        if size > limits.object or total > limits.total:
            raise BundleInvalid("The files of the bundle would grow to more than the limits allow.")
    source.read(DIGEST_SIZE[object_format])
    if source.more():
        raise BundleInvalid("The pack in the bundle has bytes after its end.")
    return count


def _object_size(source: _Source, digest_size: int, limits: PackLimits) -> int:
    """Read one object; returns the size that it has in the end."""
    byte = source.byte()
    kind, size, shift = (byte >> 4) & 7, byte & 15, 4
    while byte & 0x80:
        byte = source.byte()
        size |= (byte & 0x7F) << shift
        shift += 7
        if shift > 63:
            raise BundleInvalid("The pack in the bundle has an object of an impossible size.")
    if kind in (0, 5):
        raise BundleInvalid("The pack in the bundle has an object of an unknown kind.")
    if kind == OFFSET_DELTA:
        while source.byte() & 0x80:
            pass
    elif kind == REFERENCE_DELTA:
        source.read(digest_size)
    if size > limits.object:
        raise BundleInvalid("The files of the bundle would grow to more than the limits allow.")
    start = source.inflate(size)
    return _delta_result(start) if kind in (OFFSET_DELTA, REFERENCE_DELTA) else size


def _delta_result(start: bytes) -> int:
    """The size of what a delta makes: the second number at its start."""
    numbers, value, shift = [], 0, 0
    for byte in start:
        value |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            numbers.append(value)
            value = shift = 0
        if len(numbers) == 2:
            return numbers[1]
    raise BundleInvalid("The pack in the bundle has a delta without a size.")


class _Source:
    """Bytes that arrive in pieces."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._held = b""
        self._at = 0

    def more(self) -> bool:
        while self._at >= len(self._held):
            piece = next(self._pieces, None)
            if piece is None:
                return False
            self._held, self._at = piece, 0
        return True

    def byte(self) -> int:
        if not self.more():
            raise BundleInvalid("The pack in the bundle is cut short.")
        self._at += 1
        return self._held[self._at - 1]

    def read(self, size: int) -> bytes:
        return bytes(self.byte() for _ in range(size))

    def inflate(self, size: int) -> bytes:
        """Inflate one compressed stream that must have this size; returns its first bytes."""
        inflating, start, found = zlib.decompressobj(), b"", 0
        waiting = b""
        try:
            while not inflating.eof:
                if not waiting:
                    if not self.more():
                        raise BundleInvalid("The pack in the bundle is cut short.")
                    waiting = self._held[self._at : self._at + PIECE]
                    self._at += len(waiting)
                out = inflating.decompress(waiting, PIECE)
                waiting = inflating.unconsumed_tail
                found += len(out)
                start = start if len(start) >= 20 else (start + out)[:20]
                if found > size:
                    raise BundleInvalid("The pack in the bundle has an object that is larger than it declares.")
        except zlib.error as error:
            raise BundleInvalid(f"The pack in the bundle cannot be read: {error}.") from None
        self._at -= len(inflating.unused_data)
        if found != size:
            raise BundleInvalid("The pack in the bundle has an object that is smaller than it declares.")
        return start
