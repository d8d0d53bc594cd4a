"""Deletes snapshots that are no longer needed, and the objects that only they hold.

    refs       one for every kept commit, and for each folder's last snapshot; the others are deleted
    repack     pack what is kept
    prune      delete the rest, unless it is younger than the grace period: its snapshot may not be recorded yet

A crash between the lines leaves more than is needed, never less.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

import msgspec

from perdure.agent.files.object_store import LockedStore, signature


class PruneResult(msgspec.Struct, frozen=True):
    """What is left, or would be. `missing` names wanted snapshots that do not exist; `dropped` counts deleted ones."""

    kept: int
    missing: tuple[str, ...]
    bytes_before: int
    bytes_after: int
    dropped: int = 0


def prune(store: LockedStore, keep: Iterable[str], grace: int) -> PruneResult:
    """Keep these snapshots, given by commit or tree, and the last snapshot of each folder; delete the rest."""
    before, commits = size_of(store.path), _commits(_objects(store))
    wanted, missing = _find_kept(store, keep)
    roots = (set(wanted) - set(missing)) | _folder_commits(store)
    there = set(store.out("for-each-ref", "--format=%(refname)").decode().split())
    refs = {f"refs/keep/{name}": name for name in roots}
    orders = [f"create {ref} {name}\n" for ref, name in refs.items() if ref not in there]
    orders += [f"delete {ref}\n" for ref in there - refs.keys()]
    store.out("update-ref", "--stdin", stdin="".join(sorted(orders)).encode())
    store.out("pack-refs", "--all")
    since = f"{grace}.seconds.ago" if grace > 0 else "now"
    store.out("repack", "-q", "-A", "-d", f"--unpack-unreachable={since}")
    store.out("prune", f"--expire={since}")
    store.sync()
    dropped = len(commits - _commits(_objects(store)))
    return PruneResult(len(wanted) - len(missing), missing, before, size_of(store.path), dropped)


def plan(store: LockedStore, keep: Iterable[str], grace: int, now: float) -> PruneResult:
    """What `prune` would leave; savings from better packing are not counted."""
    before, there = size_of(store.path), _objects(store)
    wanted, missing = _find_kept(store, keep)
    young = {name for name in _commits(there) if _age(store, name, now) < grace}
    roots = (set(wanted) - set(missing)) | _folder_commits(store, forget=False) | young
    stdin = "".join(f"{name}\n" for name in sorted(roots)).encode()
    reached = store.out("rev-list", "--objects", "--no-object-names", "--stdin", stdin=stdin).decode() if roots else ""
    rest = {name: about for name, about in there.items() if name not in set(reached.split())}
    freed = sum(size for _, size in rest.values())
    return PruneResult(len(wanted) - len(missing), missing, before, before - freed, len(_commits(rest)))


def _find_kept(store: LockedStore, keep: Iterable[str]) -> tuple[list[str], tuple[str, ...]]:
    """What is to be kept, and which of it does not exist."""
    wanted = list(dict.fromkeys(keep))
    lines = store.out("cat-file", "--batch-check=%(objectname)", stdin="".join(f"{one}\n" for one in wanted).encode())
    return wanted, tuple(one for one, line in zip(wanted, lines.decode().splitlines(), strict=True) if " " in line)


def _objects(store: LockedStore) -> dict[str, tuple[str, int]]:
    """Every object by name, with its type and its bytes on disk."""
    words = ("cat-file", "--batch-all-objects", "--batch-check=%(objectname) %(objecttype) %(objectsize:disk)")
    lines = (line.split(" ") for line in store.out(*words).decode().splitlines())
    return {name: (kind, int(size)) for name, kind, size in lines}


def _commits(objects: dict[str, tuple[str, int]]) -> set[str]:
    return {name for name, (kind, _) in objects.items() if kind == "commit"}


def _age(store: LockedStore, name: str, now: float) -> float:
    """Seconds; a packed object is as young as the youngest pack."""
    loose, packs = store.path / "objects" / name[:2] / name[2:], store.path.glob("objects/pack/*.pack")
    times = [one.stat().st_mtime for one in ([loose] if loose.exists() else packs)]
    return now - max(times, default=now)


def _folder_commits(store: LockedStore, *, forget: bool = True) -> set[str]:
    """The last snapshot of each folder. Removes records of missing folders, and an index newer than its record."""
    found = set()
    for record in store.path.parent.glob("folders/*/record.json"):
        about = msgspec.json.decode(record.read_bytes(), type=dict[str, object])
        if not Path(os.fsdecode(msgspec.convert(about["folder"], bytes))).is_dir():
            if forget:
                shutil.rmtree(record.parent)
            continue
        found.add(str(about["commit"]))
        if forget and signature(index := record.with_name("index")) != about["index"]:
            index.unlink(missing_ok=True)  # it may name deleted objects; it is a cache of the folder
    return found


def size_of(folder: Path) -> int:
    return sum(os.lstat(os.path.join(root, name)).st_size for root, _, names in os.walk(folder) for name in names)
