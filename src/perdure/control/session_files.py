"""Export and import of sessions with their files: a bundle carries the snapshots of the session's folder.

    export     pack the snapshots that the log names, then write the bundle
    import     check the bundle; choose the folder; take the snapshots in; then the rows, in one transaction

A kill before the rows leaves snapshots that no session names, or a folder with files; importing again completes it.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from collections.abc import Collection
from errno import EEXIST, ENOTEMPTY
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from perdure.agent.commands.own_files import own_files
from perdure.agent.files.branch import session_folder, snapshot_folder, storage_folder
from perdure.agent.files.object_store import sync_all
from perdure.agent.files.snapshot import Snapshots
from perdure.agent.files.transfer.clone import clone_at, has_commit
from perdure.agent.files.transfer.snapshot_pack import pack_snapshots
from perdure.agent.files.transfer.snapshot_unpack import take_in
from perdure.agent.git.command_line import find
from perdure.domain.permission import REPOSITORY
from perdure.durable import write_whole
from perdure.errors import ConfigError, Conflict, NotFound, StoreFull
from perdure.ids import new_uid
from perdure.interchange.export import Exported, export
from perdure.interchange.import_ import CheckedBundle, Imported
from perdure.interchange.session_files import PackedFiles, SessionFiles
from perdure.interchange.signature import SigningKey
from perdure.runtime.policy.repository_policy import look_at
from perdure.runtime.runtime import Runtime
from perdure.store.move import StoreTransaction
from perdure.store.moves import session as sessions

MOST_FILES = 1 << 30  # bytes of the pack, unless another limit is given
FILLED = "filled-by"  # beside the snapshots of a folder that an import made: the digest of the bundle
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def parse_size(text: str) -> int:
    """A size such as `500M`, in bytes."""
    found = re.fullmatch(r"(\d{1,12})\s*([KMG]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    if found is None:
        raise ConfigError(f"{text[:40]!r} is not a size.", hint='Write it as "500M" or "2G".')
    return int(found[1]) * UNITS[found[2].upper()]


async def export_session(
    runtime: Runtime, name: str, path: Path, *, by: str, move: bool = False, key: SigningKey | None = None,
    files: bool = True, thin: bool = False, most: int = MOST_FILES,
) -> Exported:  # fmt: skip
    """Write a session as a bundle, with the snapshots of its folder unless `files` is false.

    `thin` leaves out what a remote has: the import then needs a clone with that commit. If the pack would be larger
    than `most` bytes, it holds fewer snapshots or none, and the notes of the bundle say so.
    """
    session = await runtime.store.read(sessions.find, name)
    there = await runtime.store.read(session_folder, session)
    home = None if there is None else snapshot_folder(there.repository, storage_folder(runtime))

    def work() -> Exported:
        beside = path.parent if path.parent.is_dir() else None  # a kill leaves it where the bundle would be
        with TemporaryDirectory(prefix=f".{path.name[:100]}.", suffix=".part", dir=beside) as made:

            def pack(names: list[str]) -> PackedFiles | None:
                if not files or there is None or home is None or not home.is_dir():
                    return None
                if not (folder := Path(there.repository)).is_dir():
                    return None
                shots = Snapshots(folder, home)
                top = shots.folder
                own = {one.relative_to(top) for one in own_files(runtime, top) if top in one.parents}
                return pack_snapshots(shots, names, Path(made), most=most, thin=thin, own=own)

            return export(
                runtime.store, session.uid, path, by=by, move=move, artifacts=runtime.values.directory,
                life_of=runtime.life_of, key=key, pack=pack,
            )  # fmt: skip

    return await asyncio.to_thread(work)


class ImportedSession(msgspec.Struct, frozen=True):
    """An imported session, and what became of its files."""

    imported: Imported
    files: SessionFiles | None = None  # what the bundle has
    folder: str | None = None  # where the session works here, if its files were taken in
    is_new: bool = False  # the folder was made by the import


async def import_session(
    runtime: Runtime, bundle: CheckedBundle, *, by: str, id: str | None = None, take_back: bool = False,
    keep: Collection[str] = (), into: Path | None = None, files: bool = True, keep_owner: bool = False,
) -> ImportedSession:  # fmt: skip
    """Take a checked bundle into the store, with its files.

    `into` is a clone of the same repository, or a folder that does not exist or is empty: it gets the newest files.
    Without it the files are taken in only if the session keeps its folder (`keep`) and that exists here.
    """
    about = bundle.files if files else None
    if into is not None and about is None:
        raise ConfigError("The bundle has no files, so it cannot be imported into a folder.", hint="Leave --into out.")
    there = await runtime.store.read(_existing_folder, bundle.uid)

    def work() -> ImportedSession:
        wanted = into if there is None else _same_folder(bundle, there, into)
        place, is_new = (None, False) if about is None else _place(runtime, bundle, about, wanted, REPOSITORY in keep)
        if place is not None and about is not None:
            _take_files(runtime, bundle, about, place, is_new)
        imported = bundle.into(
            runtime.store, by=by, id=id, take_back=take_back, artifacts=runtime.values.directory, keep=keep,
            folder=None if place is None else str(place), keep_owner=keep_owner,
            place=None if place is None else look_at(str(place)),
        )  # fmt: skip
        return ImportedSession(imported, about, None if place is None else str(place), is_new)

    return await asyncio.to_thread(work)


def _existing_folder(tx: StoreTransaction, uid: str) -> str | None:
    """The folder in which the session of a bundle works here already."""
    try:
        found = sessions.get(tx, uid)
    except NotFound:
        return None
    return None if found.sealed_at is not None else found.repository


def _same_folder(bundle: CheckedBundle, there: str, into: Path | None) -> Path:
    """The folder of a session that was imported before; it does not change by importing it again."""
    own = Path(there)
    if into is not None and own not in (into.resolve(), *into.resolve().parents) and into.resolve() not in own.parents:
        raise Conflict(f"Session {bundle.name} works in {there} already.", hint="Leave --into out.")
    return own


def _place(
    runtime: Runtime, bundle: CheckedBundle, about: SessionFiles, into: Path | None, kept: bool
) -> tuple[Path | None, bool]:
    """The folder that the session works in here, and whether it must be made."""
    if into is None:
        own = Path(bundle.repository or "") if kept and bundle.repository else None
        return (own if own is not None and own.is_dir() else None), False
    folder = into.resolve() if into.is_dir() else into.absolute()
    if folder.is_dir() and any(folder.iterdir()):
        if _filled_by(runtime, folder) == bundle.digest:
            return folder.resolve(), False
        if (clone := clone_at(folder, about)) is None:
            raise Conflict(
                f"{folder} is not empty, and is not a clone of the repository that the session worked in.",
                hint=_clone_hint(about),
            )
        if clone != clone.resolve():  # a bundle may name any folder: it must be one of the clone itself
            raise Conflict(f"{clone} is reached through a link, so the session cannot work in it.")
        if not clone.is_dir():
            raise NotFound(f"{clone} does not exist; the session worked in this folder of the repository.")
        return clone.resolve(), False
    if os.path.lexists(folder) and not folder.is_dir():
        raise Conflict(f"{folder} is not a folder.")
    if not folder.parent.is_dir():
        raise NotFound(f"There is no folder {folder.parent}.", hint="Make it first.")
    return folder.parent.resolve() / folder.name, True


def _filled_by(runtime: Runtime, folder: Path) -> str | None:
    """The digest of the bundle whose import made this folder."""
    home = snapshot_folder(str(folder), storage_folder(runtime))
    try:
        return None if home is None else (home / FILLED).read_text()
    except OSError:
        return None


def _clone_hint(about: SessionFiles) -> str:
    if about.remotes:
        return f"Clone {about.remotes[0]} and name the clone, or name a new folder."
    return "Name a new folder."


def _take_files(runtime: Runtime, bundle: CheckedBundle, about: SessionFiles, place: Path, is_new: bool) -> None:
    """Store the snapshots beside this store, and fill a new folder with the newest of them."""
    home = snapshot_folder(str(place), storage_folder(runtime))
    if home is None:
        raise ConfigError(
            "This store has no folder for the files of the session outside that folder.",
            hint="Set `artifacts` (PERDURE_ARTIFACTS), or name another folder.",
        )
    repository = None if is_new else find(place)
    if about.base is not None and (repository is None or not has_commit(repository, about.base)):
        raise Conflict(
            f"The files of the bundle need a clone that has commit {about.base[:12]}.", hint=_clone_hint(about)
        )
    beside = place.parent / f".{place.name[:100]}.{new_uid()}.part" if is_new else place
    try:
        beside.mkdir(exist_ok=not is_new)
        shots = Snapshots(beside, home)
        size = take_in(shots, about, bundle.pack())
        if is_new:
            if size > (free := shutil.disk_usage(beside).free):
                raise StoreFull(f"The files of the bundle have {size} bytes, and {free} are free in {place.parent}.")
            shots.check_out(about.snapshots[-1])
            sync_all(beside)
            write_whole(home / FILLED, bundle.digest.encode())  # first: a second import recognizes the folder
            os.rename(beside, place)  # over an empty folder, or where nothing is
    except OSError as error:
        if error.errno in (EEXIST, ENOTEMPTY):
            raise Conflict(f"{place} was made meanwhile.", hint="Import again.") from None
        raise
    finally:
        if is_new:
            shutil.rmtree(beside, ignore_errors=True)
