"""Perdure's own files as an agent's tools see them: where the output of commands goes, and what no tool may write."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from perdure.agent.files.branch import storage_folder
from perdure.config import configured_stores, data_folder, default_store, user_file
from perdure.durable import make_folder
from perdure.runtime.workers.private_folder import runtime_folder
from perdure.store.store import open_places, place_of

if TYPE_CHECKING:
    from perdure.runtime.runtime import Runtime


def scratch_folder(beside: Path | None, root: Path) -> Path | None:
    """The folder for the output of commands: beside the store, unless commands may write there."""
    if beside is None:
        return None
    inside = beside.resolve() == root.resolve() or root.resolve() in beside.resolve().parents
    return (default_store().parent if inside else beside) / "commands"


def own_files(runtime: Runtime, root: Path) -> Iterator[Path]:
    """Perdure's own files: its folders of this user, and every store that this process knows of, with its journal.

    SQLite would play back a rollback journal that a command left beside a store. An empty one is created first, so that
    a command cannot.
    """
    top = root.resolve()
    for given in sorted(open_places() | {place for one in configured_stores() if (place := place_of(one)) is not None}):
        path = given.resolve()
        if top in path.parents and path.is_file():
            with suppress(OSError):
                os.close(os.open(f"{path}-journal", os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        for file in path.parent.glob(f"{glob.escape(path.name)}*"):
            yield from _without(file, top)
    for folder in (storage_folder(runtime), data_folder(), user_file().parent, runtime_folder()):
        if folder is not None and top in folder.resolve().parents:
            make_folder(folder.resolve())  # a command could make one that is missing, and fill it
        if folder is not None and folder.is_dir():
            yield from _without(folder.resolve(), top)


def _without(folder: Path, root: Path) -> Iterator[Path]:
    """The entries of `folder` that are not on the path to `root`; the folder itself when `root` is elsewhere."""
    if root != folder and folder not in root.parents:
        yield folder
        return
    while folder != root:
        step = folder / root.relative_to(folder).parts[0]
        yield from (one for one in folder.iterdir() if one != step)
        folder = step
