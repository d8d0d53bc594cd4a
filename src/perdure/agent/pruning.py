"""Drops snapshots that nobody keeps, and what only they hold.

    refs       one for every kept commit, and for what each folder's index names; the others go
    repack     what is kept into one pack, with what was borrowed from a person's repository until now
    prune      the rest, unless it is younger than the grace: its snapshot may not be recorded yet

A crash between the lines leaves more than is needed, never less. What is kept no longer depends on any repository.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

import msgspec

from perdure.agent.gitstore import Area, Held
from perdure.errors import StoreError


class Pruned(msgspec.Struct, frozen=True):
    """What is left. `missing` names what was to be kept and is not here."""

    kept: int
    missing: tuple[str, ...]
    bytes_before: int
    bytes_after: int


def prune(held: Held, keep: Iterable[str], grace: int) -> Pruned:
    """Keep these snapshots, commits or trees, and what the folders stand on; drop the rest."""
    before = _size(held.path)
    wanted = list(dict.fromkeys(keep))
    lines = held.out("cat-file", "--batch-check=%(objectname)", stdin="".join(f"{one}\n" for one in wanted).encode())
    missing = tuple(one for one, line in zip(wanted, lines.decode().splitlines(), strict=True) if " " in line)
    roots = (set(wanted) - set(missing)) | _standing(held)
    there = set(held.out("for-each-ref", "--format=%(refname)").decode().split())
    refs = {f"refs/keep/{name}": name for name in roots}
    orders = [f"create {ref} {name}\n" for ref, name in refs.items() if ref not in there]
    orders += [f"delete {ref}\n" for ref in there - refs.keys()]
    held.out("update-ref", "--stdin", stdin="".join(sorted(orders)).encode())
    held.out("pack-refs", "--all")
    since = f"{grace}.seconds.ago" if grace > 0 else "now"
    held.out("repack", "-q", "-A", "-d", f"--unpack-unreachable={since}")
    held.out("prune", f"--expire={since}")
    held.sync()
    return Pruned(len(wanted) - len(missing), missing, before, _size(held.path))


def _standing(held: Held) -> set[str]:
    """What the folders' records and indexes name. A folder that is gone is forgotten."""
    found = set()
    for record in held.path.parent.glob("folders/*/record.json"):
        about = msgspec.json.decode(record.read_bytes(), type=dict[str, object])
        folder = Path(os.fsdecode(msgspec.convert(about["folder"], bytes)))
        if not folder.is_dir():
            shutil.rmtree(record.parent)
            continue
        found.add(str(about["commit"]))
        area = Area(held.path, held.path, "", record.with_name("index"))
        try:
            found.add(held.out("write-tree", area=area).decode().strip())
        except StoreError:
            area.index.unlink(missing_ok=True)  # it is a cache of the folder
    return found


def _size(folder: Path) -> int:
    return sum(os.lstat(os.path.join(root, name)).st_size for root, _, names in os.walk(folder) for name in names)
