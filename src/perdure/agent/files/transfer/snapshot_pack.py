"""Packs the snapshots that a bundle carries: each object once, and the same bytes for the same snapshots.

If the pack would be larger than allowed, it holds only the first and the newest snapshot, then only the newest, and
then there is none. Without reusing stored deltas and with one thread, git makes the same pack again.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from perdure.agent.files.object_store import NO_SYNC, LockedStore
from perdure.agent.files.snapshot import Snapshots
from perdure.agent.files.transfer.clone import head, published_commit, remotes, root_commits
from perdure.agent.git.command_line import find
from perdure.errors import ConfigError
from perdure.interchange.session_files import PackedFiles, SessionFiles

PACKING = ("pack-objects", "-q", "--threads=1", "--no-reuse-delta", "--no-reuse-object", "--window=10", "--depth=50")


def pack_snapshots(
    snapshots: Snapshots, names: list[str], target: Path, *, most: int, thin: bool = False, own: Collection[Path] = ()
) -> PackedFiles | None:
    """Pack these snapshots into a folder, as many as `most` bytes allow; None if there is none to pack.

    `own` are Perdure's own files in the folder: snapshots that hold one are refused.
    """
    repository = find(snapshots.folder)
    base = published_commit(repository) if thin and repository is not None else None
    if thin and base is None:
        raise ConfigError(
            "No commit of this repository is known to be on a remote, so all files must be packed.",
            hint="Push or fetch first, or leave --thin out.",
        )
    with snapshots.lock() as store:
        there = _existing(store, names)
        for wanted in _choices(there):
            pack = _pack(store, wanted, target, base, own)
            if pack.stat().st_size <= most:
                return PackedFiles(
                    SessionFiles(
                        object_format=store.object_format, snapshots=wanted, left_out=len(names) - len(wanted),
                        base=base, commit=None if repository is None else head(repository),
                        roots=[] if repository is None else root_commits(repository),
                        remotes=[] if repository is None else remotes(repository),
                        prefix="" if repository is None else repository.prefix,
                    ),
                    pack,
                )  # fmt: skip
            pack.unlink()
    return None


def _choices(names: list[str]) -> Iterator[list[str]]:
    chosen = [names, [names[0], names[-1]], names[-1:]] if names else []
    for nth, one in enumerate(chosen):
        if one not in chosen[:nth]:
            yield one


def _existing(store: LockedStore, names: list[str]) -> list[str]:
    stdin = "".join(f"{name}\n" for name in names).encode()
    answers = store.out("cat-file", "--batch-check=%(objecttype)", stdin=stdin).decode().splitlines()
    return [name for name, kind in zip(names, answers, strict=True) if kind == "commit"]


def _pack(store: LockedStore, names: list[str], target: Path, base: str | None, own: Collection[Path]) -> Path:
    wanted = "".join(f"{name}\n" for name in names) + ("" if base is None else f"^{base}\n")
    listed = store.out("rev-list", "--objects", "--stdin", stdin=wanted.encode(), borrow=base is not None)
    _refuse_own(listed, own)
    for left in store.path.parent.glob("export-*"):  # of a process that was killed: the lock is held
        shutil.rmtree(left, ignore_errors=True)
    with TemporaryDirectory(prefix="export-", dir=store.path.parent) as folder:  # git renames it on one file system
        place = Path(folder) / "files"
        made = store.out(*PACKING, str(place), stdin=listed, settings=NO_SYNC, borrow=base is not None)
        return Path(shutil.move(f"{place}-{made.decode().strip()}.pack", target / "snapshots.pack"))


def _refuse_own(listed: bytes, own: Collection[Path]) -> None:
    """Refuse to pack a store: it holds every session, and only one is exported."""
    paths = (Path(os.fsdecode(line.partition(b" ")[2])) for line in listed.splitlines()) if own else ()
    found = next((one for one in paths if one in own or any(above in own for above in one.parents)), None)
    if found is not None:
        raise ConfigError(
            f"The snapshots hold Perdure's own files, such as {found}, and with them other sessions.",
            hint="Add --without-files. For new sessions, move the store out of the folder or ignore it in .gitignore.",
        )
