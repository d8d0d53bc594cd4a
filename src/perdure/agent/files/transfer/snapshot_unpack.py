"""Takes the snapshots of a bundle into the store of a folder. The pack may come from anyone.

    index      in a git dir of its own, beside the store: `index-pack --strict` checks every object and every link
    measure    the trees: names, depth, number of paths, and how many bytes a checkout would write
    copy       only what the named snapshots hold, as a pack of our own, synced
    remove     the git dir

Until `copy` nothing of the pack is in the store; a crash before it leaves a folder that the next import removes, and a
crash within it leaves objects that nothing names.
"""

from __future__ import annotations

import os
import shutil
from array import array
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from perdure.agent.files.object_store import STAGING, LockedStore
from perdure.agent.files.objects import copy_borrowed, read_objects
from perdure.agent.files.snapshot import Snapshots
from perdure.agent.git.command_line import run
from perdure.errors import BundleInvalid, Conflict, StoreError, StoreFull
from perdure.interchange.session_files import SessionFiles

TREE, NESTED, LINK = "40000", "160000", "120000"
MODES = {TREE, NESTED, LINK, "100644", "100755"}
MOST_PATHS, MOST_BYTES, DEEPEST = 1_000_000, 32 << 30, 200
MOST_TREE_BYTES = 2 << 30  # of all trees together: they are read here
IMPOSSIBLE = (b"", b".", b"..", STAGING.encode())
LONGEST_NAME, LONGEST_LINK = 255, 4095  # bytes: no file system here can hold more


class TreeSize(NamedTuple):
    """What a checkout of a tree would write."""

    paths: int  # files, folders, links and nested repositories
    bytes: int
    depth: int


def take_in(snapshots: Snapshots, about: SessionFiles, pieces: Iterable[bytes]) -> int:
    """Store the snapshots of a pack beside those of a folder; raises `BundleInvalid` for what no honest pack holds.

    Returns how many bytes a checkout of the newest snapshot would write.
    """
    with snapshots.lock() as store:
        if store.object_format != about.object_format:
            raise Conflict(
                f"The files have {about.object_format} names, and the snapshots of this folder {store.object_format}.",
                hint="Name a clone of the repository that the session worked in.",
            )
        for left in store.path.parent.glob("import-*"):
            shutil.rmtree(left, ignore_errors=True)
        with TemporaryDirectory(prefix="import-", dir=store.path.parent) as made:
            quarantine = _index(store, Path(made), about, pieces)
            names = _list_objects(quarantine, about)
            size = _measure(quarantine, about, names)
            borrowed, store.borrowed_objects = store.borrowed_objects, quarantine.path / "objects"
            copy_borrowed(store, names)
            store.borrowed_objects = borrowed
            store.sync()
        for name in about.snapshots:
            store.tree(name)
    return size


def _index(store: LockedStore, folder: Path, about: SessionFiles, pieces: Iterable[bytes]) -> LockedStore:
    """Index the pack in a git dir of its own, which sees the user's objects only if the pack needs them."""
    path = folder / "git"
    run("init", "--quiet", "--bare", "--template=", f"--object-format={about.object_format}", str(path), cwd=folder)
    if about.base is not None and store.borrowed_objects is not None:
        (path / "objects" / "info").mkdir(exist_ok=True)
        (path / "objects" / "info" / "alternates").write_bytes(os.fsencode(store.borrowed_objects) + b"\n")
    (path / "objects" / "pack").mkdir(exist_ok=True)
    pack = path / "objects" / "pack" / "pack-import.pack"
    with pack.open("wb") as file:
        file.writelines(pieces)
    quarantine = store.beside(path)
    try:
        quarantine.out("index-pack", "--strict", str(pack))
    except StoreFull:
        raise
    except StoreError as error:
        raise BundleInvalid(f"The files of the bundle are refused: {error.message}") from None
    return quarantine


def _list_objects(quarantine: LockedStore, about: SessionFiles) -> list[str]:
    stdin = "".join(f"{name}\n" for name in about.snapshots).encode()
    kinds = quarantine.out("cat-file", "--batch-check=%(objecttype)", stdin=stdin).decode().splitlines()
    if kinds != ["commit"] * len(about.snapshots):
        raise BundleInvalid("A snapshot that the bundle names is not among its files.")
    for content in read_objects(quarantine, about.snapshots, "commit"):
        if b"\nparent " in b"".join(content).partition(b"\n\n")[0]:
            raise BundleInvalid("A snapshot in the bundle has a history, which no snapshot has.")
    try:
        out = quarantine.out("rev-list", "--objects", "--no-object-names", "--stdin", stdin=stdin)
    except StoreFull:
        raise
    except StoreError as error:
        raise BundleInvalid(f"The files of the bundle are not complete: {error.message}") from None
    return out.decode().split()


def _measure(quarantine: LockedStore, about: SessionFiles, names: list[str]) -> int:
    """Refuse names that no folder can hold, and trees that would fill a disk with few objects.

    Returns the number of bytes in the newest snapshot.
    """
    stdin = "".join(f"{name}\n" for name in names).encode()
    out = quarantine.out("cat-file", "--batch-check=%(objecttype) %(objectsize)", stdin=stdin)
    kinds = dict(zip(names, (line.split() for line in out.decode().splitlines()), strict=True))
    sizes = {name: int(found[1]) for name, found in kinds.items() if found[0] == "blob"}
    trees = [name for name, found in kinds.items() if found[0] == "tree"]
    if {one[0] for one in kinds.values()} - {"blob", "tree", "commit"}:
        raise BundleInvalid("The files of the bundle hold an object that is no file and no folder.")
    if sum(int(kinds[name][1]) for name in trees) > MOST_TREE_BYTES:
        raise BundleInvalid("The folders in the files of the bundle are larger than the limits allow.")
    numbers = {name: number for number, name in enumerate(trees)}
    links: set[str] = set()
    listed = [
        _listing(_entries(b"".join(content), len(name) // 2), sizes, numbers, links)
        for name, content in zip(trees, read_objects(quarantine, trees, "tree"), strict=True)
    ]
    _check_links(quarantine, links, sizes)
    known: dict[int, TreeSize] = {}
    tops = [numbers[quarantine.tree(commit)] for commit in about.snapshots]
    for top in tops:
        _check_size(top, listed, known)
    return known[tops[-1]].bytes


class TreeListing(NamedTuple):
    """The entries of one tree, counted, and the numbers of the trees below it: a bundle may have many millions."""

    entries: int
    bytes: int
    below: array[int]


def _listing(
    entries: Iterable[tuple[str, str]], sizes: dict[str, int], numbers: dict[str, int], links: set[str]
) -> TreeListing:
    count, total, below = 0, 0, array("I")
    for mode, name in entries:
        count += 1
        if mode == TREE:
            below.append(numbers[name])
        elif mode != NESTED:
            total += sizes[name]
        if mode == LINK:
            links.add(name)
    return TreeListing(count, total, below)


def _check_links(quarantine: LockedStore, links: set[str], sizes: dict[str, int]) -> None:
    """Refuse a link that no folder can hold."""
    if not all(0 < sizes[name] <= LONGEST_LINK for name in links) or any(
        b"\0" in b"".join(content) for content in read_objects(quarantine, links, "blob")
    ):
        raise BundleInvalid("The files of the bundle hold an impossible link.")


def _entries(content: bytes, digest_size: int) -> Iterable[tuple[str, str]]:
    """Mode and object name of each entry of a tree; a name that no folder can hold is refused."""
    at = 0
    while at < len(content):
        middle, end = content.index(b" ", at), content.index(b"\0", at)
        mode, name = content[at:middle].decode(), content[middle + 1 : end]
        at = end + 1 + digest_size
        is_path = name not in IMPOSSIBLE and b"/" not in name and len(name) <= LONGEST_NAME and name.lower() != b".git"
        if mode not in MODES or not is_path:
            raise BundleInvalid(f"The files of the bundle hold an impossible path: {os.fsdecode(name)[:100]!r}.")
        yield mode, content[end + 1 : at].hex()


def _check_size(tree: int, listed: list[TreeListing], known: dict[int, TreeSize]) -> None:
    """Refuse a tree that is too large. Each tree is counted once, however often it occurs."""
    waiting = [tree]
    while waiting:
        own = listed[waiting[-1]]
        if waiting[-1] in known:
            waiting.pop()
        elif missing := {one for one in own.below if one not in known}:
            waiting += missing
        else:
            below = [known[one] for one in own.below]
            known[waiting.pop()] = size = TreeSize(
                own.entries + sum(one.paths for one in below),
                own.bytes + sum(one.bytes for one in below),
                1 + max((one.depth for one in below), default=0),
            )
            _check(size)


def _check(size: TreeSize) -> None:
    if size.paths > MOST_PATHS or size.bytes > MOST_BYTES or size.depth > DEEPEST:
        raise BundleInvalid(
            f"The files of the bundle are refused: a snapshot would have {size.paths} paths, {size.bytes} bytes and "
            f"{size.depth} folders inside each other."
        )
