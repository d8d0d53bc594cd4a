"""Operations on whole sessions and stores, as verbs of `Runtime`.

Each method calls the function that the command of the same name calls. `Runtime` imports this module when one of them
is first used, because it is below this layer and must not depend on it otherwise.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, TYPE_CHECKING

from perdure.agent.files.branch import storage_folder
from perdure.control import receipts
from perdure.control.audit import head
from perdure.control.audit.head import AuditHead
from perdure.control.audit.head_check import HeadReport, compare
from perdure.control.audit.report import gather
from perdure.control.audit.report_page import page
from perdure.control.branches import files, in_place_rewind, merge, prune, rewind
from perdure.control.branches.files import FileDiff
from perdure.control.branches.in_place_rewind import InPlaceRewind, RewindPlan
from perdure.control.branches.merge import MergeResult
from perdure.control.branches.prune import PruneReport
from perdure.control.branches.rewind import RewindResult
from perdure.control.brief import Brief, make_brief
from perdure.control.doctor.examination import diagnose
from perdure.control.doctor.report import DoctorReport
from perdure.control.roles import RoleReport, apply_roles, examine_roles
from perdure.control.session_files import ImportedSession, export_session, import_session, parse_size
from perdure.control.verification import Verification, verify_sessions
from perdure.domain.permission import NAMES
from perdure.durable import write_whole
from perdure.errors import ConfigError
from perdure.interchange.export import Exported
from perdure.interchange.import_ import open_checked
from perdure.interchange.signing_keys import require, signer_of, signing_key
from perdure.runtime.audit import Moment, read_range
from perdure.store.move import StoreTransaction
from perdure.store.moves import session

if TYPE_CHECKING:
    from perdure.runtime.runtime import Runtime

Place = str | Path | IO[bytes]


class Operations:
    """The operations of one runtime."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._store = runtime.store

    async def export(
        self, name: str, to: str | Path | IO[bytes] | None = None, *, move: bool = False, sign: bool = False,
        files: bool = True, max_files_size: str | int = "1G", thin: bool = False, by: str | None = None,
    ) -> Exported:  # fmt: skip
        """Write a session as a bundle: a .zip file, a folder, or into a binary stream; ID.zip without `to`.

        A copy changes nothing here. A move seals the session here; it continues where the bundle is imported. The
        bundle of an agent carries the snapshots of its folder, unless `files` is false; `thin` leaves out what a remote
        has.
        """
        key = signing_key() if sign else None  # before anything is sealed
        most = parse_size(str(max_files_size))
        found = await self._store.read(session.find, name)
        await self._runtime.queries.access.note("export", found.uid, detail="move" if move else "copy")

        async def write(path: Path) -> Exported:
            return await export_session(
                self._runtime, found.uid, _absolute(path), by=by or self._runtime.by, move=move, key=key, files=files,
                thin=thin, most=most,
            )  # fmt: skip

        if to is None or isinstance(to, str | Path):
            done = await write(Path(bundle_name(found.id) if to is None else to))
        else:
            with TemporaryDirectory(prefix="perdure-export-") as folder:
                done = await write(path := Path(folder, bundle_name(found.id)))
                await asyncio.to_thread(_copy, path, to)
        receipts.keep(done.manifest_sha256)
        return done

    async def import_(
        self, source: str | Path | IO[bytes], *, id: str | None = None, take_back: bool = False,
        keep: Collection[str] | None = None, signed_by: str | None = None, into: str | Path | None = None,
        files: bool = True, keep_owner: bool = False, by: str | None = None,
    ) -> ImportedSession:  # fmt: skip
        """Import a bundle. `keep` names the permissions of the bundle that are not dropped, or `all`.

        Without `keep`, a bundle that this user exported keeps them, and any other loses them. `signed_by` is the name
        of a known key that must have signed the bundle, or `any-known`. `into` is the folder that the session works in
        here: a clone of its repository, or a new folder for its files. You own the session, unless `keep_owner`, which
        an owner of the store may say.
        """
        with ExitStack() as opened:
            path = await asyncio.to_thread(opened.enter_context, _as_path(source))
            bundle = await asyncio.to_thread(opened.enter_context, open_checked(path, signed_by=signed_by))
            own = NAMES if receipts.has(bundle.digest) else ()
            return await import_session(
                self._runtime, bundle, by=by or self._runtime.by, id=id, take_back=take_back, files=files,
                keep_owner=keep_owner,
                keep=own if keep is None else check_permissions(keep),
                into=None if into is None else _absolute(into),
            )  # fmt: skip

    async def merge(self, name: str, *, mark: bool = False) -> MergeResult:
        """Merge the files of a branch into the folder of its parent; with `mark`, conflicts between markers."""
        return await merge.merge(self._runtime, name, mark=mark)

    async def rewind(self, name: str, *, to: int, id: str | None = None) -> RewindResult:
        """Branch an agent's session at event `to`, with the files as they were; it waits for the next message."""
        return await rewind.rewind(self._runtime, name, to=to, id=id)

    async def plan_rewind(self, name: str, *, to: int | None = None, snapshot: str | None = None) -> RewindPlan:
        """What a rewind of the session's own folder would change; nothing but a snapshot of what is there is made."""
        return await in_place_rewind.plan_rewind(self._runtime, name, to=to, snapshot=snapshot)

    async def rewind_in_place(self, plan: RewindPlan) -> InPlaceRewind:
        """Put the files of a session's own folder back as planned; a path that changed meanwhile is left alone."""
        return await in_place_rewind.rewind_in_place(self._runtime, plan)

    async def diff(
        self, name: str, *, first: int | None = None, last: int | None = None, parent: bool = False, stat: bool = False
    ) -> FileDiff:
        """What an agent changed in its files: since its start, between two events, or against its parent."""
        uid = (await self._store.read(session.find, name)).uid
        await self._runtime.queries.access.note("artifact", uid, subject="diff")
        return await files.diff(self._runtime, name, first=first, last=last, parent=parent, stat=stat)

    async def brief(self, name: str) -> Brief:
        """A handover summary of a session, made from its record."""
        beside = storage_folder(self._runtime)
        uid = (await self._store.read(session.find, name)).uid
        await self._runtime.queries.access.note("transcript", uid, detail="brief")

        def read(tx: StoreTransaction) -> Brief:
            return make_brief(tx, session.find(tx, name), beside)

        return await self._store.read(read)

    async def prune(
        self, *, ended: str | float | None = None, access: str | float | None = None, plan: bool = False
    ) -> PruneReport:
        """Remove snapshots that no session refers to, and folders of branches that have ended.

        With `ended`, also the snapshots of sessions that ended longer ago than that; with `access`, also the lines of
        the access log that are older than that; with `plan`, only report.
        """
        return await prune.prune_all(self._runtime, ended=ended, access=access, plan=plan)

    async def verify(self, name: str | None = None) -> Verification:
        """Check that the log of one session, or of all, is complete, and that the rows agree with it."""
        return await self._store.read(verify_sessions, name, lambda _: None)

    async def audit_head(
        self, to: str | Path | None = None, *, sign: bool = False, by: str | None = None
    ) -> AuditHead:  # fmt: skip
        """The end of every log of the store, to be kept elsewhere; `to` writes it to a file and records that."""
        name = by or self._runtime.by
        made = await self._store.read(head.take, signing_key() if sign else None, name)
        if to is not None:
            await asyncio.to_thread(write_whole, _absolute(to), made.file())
            await self._store.write(head.record(made, by=name))
        return made

    async def audit_verify(self, against: str | Path, *, signed_by: str | None = None) -> HeadReport:
        """Compare the store with a head of it; `signed_by`: the name of the key that must have signed the head."""
        kept = await asyncio.to_thread(head.read, _absolute(against))
        if signed_by is not None:
            require(signer_of(kept.signature), signed_by, "head")
        return await self._store.read(compare, kept)

    async def audit_report(self, *, since: Moment = "7d", until: Moment = None) -> str:
        """A report on a range of time as one HTML page, with plots and tables and without scripts."""
        span = read_range(since, until, self._store.clock.now())
        return page(await self._store.read(gather, span))

    async def roles(self) -> RoleReport:
        """The roles of a store on PostgreSQL, and whether their rights in the database are the declared ones."""
        if self._store.database.dialect != "postgres":
            raise ConfigError(f"{self._store.target} has no roles.", hint="Roles need a store on PostgreSQL.")
        return await self._store.read(examine_roles)

    async def apply_roles(self, prefix: str | None = None) -> RoleReport:
        """Make these roles, and give them their rights; this needs the owner of the tables, or a superuser."""
        return await asyncio.to_thread(apply_roles, self._store.target, prefix)

    async def doctor(self, *, deep: bool = False) -> DoctorReport:
        """The condition of the store, which guarantees hold, and what to do; `deep` reads all of it."""
        return await asyncio.to_thread(diagnose, self._store.target, deep=deep)


def bundle_name(id: str) -> str:
    """A session id as the name of a bundle; an id may contain characters that have a meaning in a path."""
    return "".join(one if one.isascii() and (one.isalnum() or one in "._-") else "-" for one in id) + ".zip"


def check_permissions(keep: Collection[str]) -> frozenset[str]:
    """The permissions to keep, by name; `all` names all of them."""
    named = frozenset([keep] if isinstance(keep, str) else keep)
    if "all" in named:
        return frozenset(NAMES)
    if unknown := named - frozenset(NAMES):
        raise ConfigError(f"{min(unknown)!r} is not a permission.", hint=f"The permissions are {', '.join(NAMES)}.")
    return named


def _absolute(path: str | Path) -> Path:
    return Path(path).expanduser().absolute()


def _copy(path: Path, stream: IO[bytes]) -> None:
    with path.open("rb") as file:
        shutil.copyfileobj(file, stream)


@contextmanager
def _as_path(source: Place) -> Iterator[Path]:
    if isinstance(source, str | Path):
        yield Path(source)
        return
    with TemporaryDirectory(prefix="perdure-import-") as folder:
        path = Path(folder, "bundle.zip")
        with path.open("xb") as file:
            shutil.copyfileobj(source, file)
        yield path
