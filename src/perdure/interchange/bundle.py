"""A bundle: one session in transportable form, as a folder or a .zip of the same files.

    manifest.json           format, version, origin, and the digest of every other file
    signature.json          who made it, if it is signed (`signature`); the one file that the manifest does not list
    SUMMARY.md              the session for people; it is never read back
    events.jsonl            the log of each session of the lineage, as stored: erased events too
    tables/NAME.jsonl       the rows of the other tables, as stored
    artifacts/DIGEST        large values, each under the digest of its content
    files/                  the snapshots of its folder, since version 1.1 and where it has some (`session_files`)

A session is bundled with its lineage: `line` lists the sessions it was forked from, and the session itself last. In a
*copy* all of them are history, and `copy` is the uid of the branch that continues from their end; it is created at
export, so importing twice is importing once. In a *move* the last session itself continues, under its own uid and with
its own keys.

The version is `major.minor`. A reader accepts every minor version of its major version: unknown files, fields and
columns are checked and ignored. It refuses another major version. Digests and chains reveal damage, but not a forgery
of everything; a signature shows who made it. A bundle gives no rights, signed or not (`distrust`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Protocol

import msgspec

from perdure.errors import BundleInvalid
from perdure.ids import NAME

FORMAT = "perdure-bundle"
MAJOR, MINOR = 1, 1
COPY, MOVE = "copy", "move"
MANIFEST, SIGNATURE, SUMMARY, EVENTS = "manifest.json", "signature.json", "SUMMARY.md", "events.jsonl"
TABLE, ARTIFACT = "tables/{}.jsonl", "artifacts/{}"

UID = re.compile(r"[0-9a-f]{32}\Z")
DIGEST = re.compile(r"[0-9a-f]{64}\Z")
FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}(/[A-Za-z0-9][A-Za-z0-9._-]{0,99}){0,3}\Z")


class Artifacts(Protocol):
    """Where large values are stored; the folder of a store is one."""

    def put(self, content: bytes | Iterable[bytes]) -> tuple[str, int]: ...
    def open(self, name: str) -> Iterator[bytes]: ...
    def has(self, name: str) -> bool: ...


class Part(msgspec.Struct, frozen=True):
    """One file of a bundle."""

    sha256: str
    size: int


class Member(msgspec.Struct, frozen=True):
    """One session of the lineage, and where its log ends."""

    uid: str
    id: str
    cursor: int
    chain: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a bundle declares about itself."""

    format: str
    version: str
    mode: str
    store: str
    session: Member
    line: list[Member]
    copy: str | None
    counts: dict[str, int]
    notes: list[str]
    created_at: int
    by: str
    files: dict[str, Part]

    def encode(self) -> bytes:
        """For people as well: sorted and indented."""
        return msgspec.json.format(msgspec.json.encode(self, order="sorted"), indent=2) + b"\n"


class _Kind(msgspec.Struct):
    format: str
    version: str


def read_manifest(content: bytes) -> Manifest:
    """Read a manifest, or raise what is wrong with it. The version is checked first: a later major may differ."""
    try:
        kind = msgspec.json.decode(content, type=_Kind)
        if kind.format != FORMAT:
            raise BundleInvalid(f"This is a {kind.format[:40]!r} and not a bundle of Perdure.")
        _check_version(kind.version)
        manifest = msgspec.json.decode(content, type=Manifest)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise BundleInvalid(f"The manifest cannot be read: {error}.") from None
    _check(manifest)
    return manifest


def _check_version(version: str) -> None:
    match = re.fullmatch(r"(\d{1,6})\.(\d{1,6})", version)
    if match is None:
        raise BundleInvalid(f"{version[:40]!r} is not the version of a bundle.")
    if int(match[1]) != MAJOR:
        raise BundleInvalid(
            f"The bundle has version {version}, and this version of Perdure reads {MAJOR}.x.",
            hint="Install the version of Perdure that wrote it, or a newer one.",
        )


def _check(manifest: Manifest) -> None:
    """What must hold whatever else is in the bundle."""
    members = [*manifest.line, manifest.session]
    uids = [one.uid for one in manifest.line]
    wrong = (
        "has no such mode" if manifest.mode not in (COPY, MOVE)
        else "copies without a uid, or moves with one" if (manifest.mode == COPY) != (manifest.copy is not None)
        else "does not end its line with its session" if manifest.line[-1:] != [manifest.session]
        else "names a session twice" if len(uids) != len(set(uids)) or manifest.copy in uids
        else "has a uid that is none" if not all(map(UID.match, [*uids, manifest.copy or uids[0]]))
        else "has a session whose id is none" if not all(NAME.match(one.id) for one in members)
        else "names a file as none may be named" if not all(map(FILE.match, manifest.files))
        else "has a digest that is none" if not all(DIGEST.match(one.sha256) for one in manifest.files.values())
        else None
    )  # fmt: skip
    if wrong:
        raise BundleInvalid(f"The manifest {wrong}.")
