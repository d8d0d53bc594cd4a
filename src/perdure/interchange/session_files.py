"""The files of a session in a bundle: the snapshots that its log names, as one git pack, and what they belong to.

    files/files.json        object format, snapshots, and how to recognize a clone of the same repository
    files/snapshots.pack    the objects of the snapshots, each once

A pack is self-contained, or it leaves out what the commit `base` has: then a clone that has this commit is needed. Both
files are listed in the manifest like every other, so digests and signatures cover them. A bundle without them is read
as before.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from perdure.errors import BundleInvalid
from perdure.interchange.git_pack import DIGEST_SIZE, check_pack
from perdure.interchange.unpack import CHUNK, BundleReader
from perdure.store.transfer.session_export import StoredSession

DESCRIPTION, PACK = "files/files.json", "files/snapshots.pack"
NAMES = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?\Z")
PREFIX = re.compile(r"([^/\0]+/)*\Z")
MOST = 1 << 20  # bytes of the description


class SessionFiles(msgspec.Struct, frozen=True, kw_only=True):
    """What the pack of a bundle holds, and which repository it belongs to."""

    object_format: str
    snapshots: list[str]  # in the order of the log
    left_out: int = 0  # snapshots that the log names and that are not in the pack
    base: str | None = None  # the commit whose objects are not in the pack
    commit: str | None = None  # the commit that was checked out at the export
    roots: list[str] = []  # the first commits of the repository; none outside git
    remotes: list[str] = []  # the addresses of its remotes, without credentials
    prefix: str = ""  # the folder of the session below the top of the repository


class PackedFiles(msgspec.Struct, frozen=True):
    """A description and the pack that it describes, in a file."""

    about: SessionFiles
    pack: Path

    def pieces(self) -> Iterator[bytes]:
        with self.pack.open("rb") as file:
            while piece := file.read(CHUNK):
                yield piece


def snapshots_of(line: Iterable[StoredSession]) -> list[str]:
    """The snapshots that the log of a lineage names, up to each fork, in order and each once."""
    line = list(line)
    ends = [one.session["forked_at"] or 0 for one in line[1:]] + [2**62]
    found: dict[str, None] = {}
    for kept, end in zip(line, ends, strict=True):
        for one in kept.events:
            if one["kind"] != "message" or one["number"] > end or not one["body"]:
                continue
            body = msgspec.json.decode(one["body"])
            for name in ("before", "snapshot"):
                if isinstance(body, dict) and isinstance(value := body.get(name), str) and NAMES.match(value):
                    found[value] = None
    return list(found)


def read_files(bundle: BundleReader, line: list[StoredSession]) -> SessionFiles | None:
    """The description of the files of a bundle, checked together with the pack; None if it has none."""
    listed = bundle.manifest.files
    if DESCRIPTION not in listed and PACK not in listed:
        return None
    if DESCRIPTION not in listed or PACK not in listed or listed[DESCRIPTION].size > MOST:
        raise BundleInvalid("The files of the bundle and their description do not belong together.")
    try:
        about = msgspec.json.decode(bundle.content(DESCRIPTION), type=SessionFiles)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise BundleInvalid(f"The description of the files cannot be read: {error}.") from None
    digits = 2 * DIGEST_SIZE.get(about.object_format, 0)
    names = [*about.snapshots, *about.roots, *(one for one in (about.base, about.commit) if one is not None)]
    if not about.snapshots or not all(NAMES.match(one) and len(one) == digits for one in names):
        raise BundleInvalid("The description of the files names an object that is none.")
    if not PREFIX.match(about.prefix) or any(part.lower() in (".", "..", ".git") for part in about.prefix.split("/")):
        raise BundleInvalid("The description of the files names a folder that is none.")
    if set(about.snapshots) - set(snapshots_of(line)):
        raise BundleInvalid("The bundle holds files that its log does not name.")
    check_pack(bundle.pieces(PACK), about.object_format)
    return about
