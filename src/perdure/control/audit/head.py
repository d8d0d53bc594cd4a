"""A head: the end of every log of a store at one time, to be kept where the store's owners cannot change it.

It is a text file of JSON lines:

    {"format": "perdure audit head", "version": 1, "store": ..., "taken_at": ..., "control": [number, chain]}
    [uid, cursor, chain]            a line for each session, by uid
    {"root": ..., "signature": ...} the root is the SHA-256 of all bytes before this line

Each line of a session is a commitment to its whole log up to that event, so the lines need not be of the same moment,
and no lock is taken. Without a signature, the file proves something only if it was kept where it could not be replaced.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from perdure.errors import BundleInvalid, ConfigError
from perdure.interchange.signature import BundleSignature, SigningKey, check_signature
from perdure.store.move import Move, StoreTransaction
from perdure.store.moves import control_log, meta

FORMAT, VERSION = "perdure audit head", 1
DOMAIN = "perdure audit head signature 1"
KIND = "audit.head"  # the line of the control log that a head leaves which was written to a file
PAGE = 1000


class HeadStart(msgspec.Struct, frozen=True):
    """The first line of a head."""

    format: str
    version: int
    store: str
    taken_at: int
    control: tuple[int, str]


class HeadEnd(msgspec.Struct, frozen=True):
    """The last line of a head."""

    root: str
    signature: BundleSignature | None = None


class AuditHead(msgspec.Struct, frozen=True, kw_only=True):
    """A head that was taken or read. `content` is the file without its last line."""

    store: str
    taken_at: int
    control: tuple[int, str]
    sessions: int
    root: str
    signature: BundleSignature | None = None
    content: bytes = b""

    def ends(self) -> Iterator[tuple[str, int, str]]:
        """The uid, the last event and the chain of each session."""
        for line in self.content.splitlines()[1:]:
            yield msgspec.json.decode(line, type=tuple[str, int, str])

    def file(self) -> bytes:
        """The whole file."""
        return self.content + msgspec.json.encode(HeadEnd(self.root, self.signature)) + b"\n"

    def to_dict(self) -> dict[str, Any]:
        return {
            "store": self.store, "taken_at": self.taken_at, "control": list(self.control), "sessions": self.sessions,
            "root": self.root, "key": None if self.signature is None else self.signature.key,
        }  # fmt: skip


def take(tx: StoreTransaction, key: SigningKey | None = None, by: str = "") -> AuditHead:
    """The head of a store as it is now. With a key it is signed, under the name `by`."""
    start = HeadStart(FORMAT, VERSION, meta.get(tx, "store_id") or "", tx.now, control_log.end(tx))
    lines, after = [msgspec.json.encode(start)], ""
    while page := tx.all("audit.session_ends", after=after, limit=PAGE):
        lines += [msgspec.json.encode(tuple(row)) for row in page]
        after = page[-1][0]
    content = b"\n".join(lines) + b"\n"
    root = sha256(content).hexdigest()
    signature = None if key is None else key.attest(DOMAIN, root, by)
    return AuditHead(
        store=start.store, taken_at=start.taken_at, control=start.control, sessions=len(lines) - 1, root=root,
        signature=signature, content=content,
    )  # fmt: skip


def record(head: AuditHead, *, by: str) -> Move[None]:
    """Record in the control log that a head was written to a file."""

    def run(tx: StoreTransaction) -> None:
        if not control_log.was_written(tx):
            control_log.append(tx, KIND, by, {"identity": tx.identity, **head.to_dict()})

    return Move("audit.head", "plain", run)


def read(path: Path) -> AuditHead:
    """Read a head from a file. One that was changed, or whose signature is wrong, is refused."""
    try:
        content = path.read_bytes()
    except OSError as error:
        hint = "`perdure audit head --to FILE` writes one."
        raise ConfigError(f"{path} cannot be read: {error.strerror}.", hint=hint) from None
    return parse(content, str(path))


def parse(content: bytes, path: str) -> AuditHead:
    """A head from the bytes of a file, which is named in errors."""
    place = content.rstrip(b"\n").rfind(b"\n") + 1
    try:
        start = msgspec.json.decode(content.split(b"\n", 1)[0], type=HeadStart)
        end = msgspec.json.decode(content[place:], type=HeadEnd)
    except msgspec.MsgspecError as error:
        raise BundleInvalid(f"{path} is not a head of an audit: {error}.", hint="It may be incomplete.") from None
    if (start.format, start.version) != (FORMAT, VERSION):
        raise BundleInvalid(f"{path} is not a head that this version of Perdure knows.")
    body = content[:place]
    if sha256(body).hexdigest() != end.root:
        raise BundleInvalid(f"{path} was changed: its lines do not match its root.", hint="Use another copy of it.")
    if end.signature is not None:
        check_signature(end.signature, DOMAIN, end.root, "the head")
    return AuditHead(
        store=start.store, taken_at=start.taken_at, control=start.control, sessions=body.count(b"\n") - 1,
        root=end.root, signature=end.signature, content=body,
    )  # fmt: skip
