"""Reads contents from our git dir, many in one run and none of them whole in memory, and copies borrowed objects.

While a snapshot is made, git can read the objects of the user's repository, so that it does not write them again.
Borrowing ends before the snapshot is returned: objects that it names and we do not have are copied, a few one by one
and many as one pack. So a commit of the user can be amended away and garbage-collected afterwards; no snapshot needs
it. Only the differences from the folder's last snapshot are checked, because that one is complete.
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterable, Iterator
from tempfile import TemporaryFile

from perdure.agent.files.object_store import NO_SYNC, GitView, LockedStore
from perdure.agent.git.command_line import LIMIT, stop
from perdure.errors import Damaged

CHUNK = 1 << 20


def read_blobs(store: LockedStore, names: Iterable[str]) -> Iterator[Iterator[bytes]]:
    """The content of each blob, in pieces, in the given order. Each must be read to its end before the next."""
    return read_objects(store, names, "blob")


def read_objects(store: LockedStore, names: Iterable[str], kind: str) -> Iterator[Iterator[bytes]]:
    """The content of each object of a kind, as `read_blobs`."""
    names = list(names)
    with TemporaryFile() as wanted:
        wanted.write("".join(f"{name}\n" for name in names).encode())
        wanted.seek(0)
        process = store.start("cat-file", "--batch", "--buffer", stdin=wanted.fileno())
    watch = threading.Timer(LIMIT, stop, [process])
    watch.daemon = True
    watch.start()
    try:
        for name in names:
            yield _content(process, name, kind)
    finally:
        watch.cancel()
        stop(process)


def _content(process: subprocess.Popen[bytes], name: str, kind: str) -> Iterator[bytes]:
    assert process.stdout is not None
    header = process.stdout.readline().decode().split()
    if len(header) != 3 or header[1] != kind:
        raise Damaged(f"Content {name[:12]} is missing from the snapshots.")
    left = int(header[2])
    while left:
        if not (chunk := process.stdout.read(min(CHUNK, left))):
            raise Damaged(f"Content {name[:12]} is cut short.")
        left -= len(chunk)
        yield chunk
    process.stdout.read(1)  # the line break after each content


FEW = 100  # up to this many stay loose, as git does after a fetch: one pack each time would make many packs
TREE, NESTED, NOTHING = "040000", "160000", "000000"


def changed_objects(store: LockedStore, view: GitView, before: str | None, tree: str) -> tuple[int, list[str]]:
    """How many files differ between two trees, and every object that only the second one names."""
    empty = before or store.out("mktree").decode().strip()
    words = ("diff-tree", "-r", "-t", "-z", "--raw", "--no-renames", "--no-abbrev", empty, tree)
    fields = store.out(*words, view=view, borrow=True).split(b"\0")[:-1]
    entries = [about[1:].decode().split(" ") for about in fields[::2]]
    files = sum(TREE not in (old_mode, mode) for old_mode, mode, *_ in entries)
    names = [new for _, mode, _, new, _ in entries if mode not in (NESTED, NOTHING)]
    return files, list(dict.fromkeys([tree, *names]))


def copy_borrowed(store: LockedStore, names: list[str]) -> None:
    """Copy those of these objects that only the user's repository has."""
    loose = store.path / "objects"
    maybe = [one for one in names if not os.path.exists(loose / one[:2] / one[2:])]
    if not maybe or store.borrowed_objects is None:
        return
    answers = store.out("cat-file", "--batch-check=%(objectname)", stdin=_lines(maybe)).decode().splitlines()
    lent = [one for one, line in zip(maybe, answers, strict=True) if " " in line]
    pack = ("pack-objects", "-q", "--window=0")  # keeps the packing of the source
    if len(lent) > FEW:
        store.out(*pack, str(loose / "pack" / "pack"), stdin=_lines(lent), borrow=True)
    elif lent:
        content = store.out(*pack, "--stdout", stdin=_lines(lent), borrow=True)
        store.out("unpack-objects", "-q", stdin=content, settings=NO_SYNC)


def _lines(names: list[str]) -> bytes:
    return "".join(f"{one}\n" for one in names).encode()
