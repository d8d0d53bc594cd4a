"""Operations on whole sessions and stores: what `Runtime` offers and this layer does.

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
        self, name: str, to: Place | None, *, move: bool, sign: bool, files: bool, max_files_size: str | int,
        thin: bool, by: str | None,
    ) -> Exported:  # fmt: skip
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
        self, source: Place, *, id: str | None, take_back: bool, keep: Collection[str] | None, signed_by: str | None,
        into: str | Path | None, files: bool, keep_owner: bool, by: str | None,
    ) -> ImportedSession:  # fmt: skip
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

    async def merge(self, name: str, *, mark: bool) -> MergeResult:
        return await merge.merge(self._runtime, name, mark=mark)

    async def rewind(self, name: str, *, to: int, id: str | None) -> RewindResult:
        return await rewind.rewind(self._runtime, name, to=to, id=id)

    async def plan_rewind(self, name: str, *, to: int | None, snapshot: str | None) -> RewindPlan:
        return await in_place_rewind.plan_rewind(self._runtime, name, to=to, snapshot=snapshot)

    async def rewind_in_place(self, plan: RewindPlan) -> InPlaceRewind:
        return await in_place_rewind.rewind_in_place(self._runtime, plan)

    async def diff(self, name: str, *, first: int | None, last: int | None, parent: bool, stat: bool) -> FileDiff:
        uid = (await self._store.read(session.find, name)).uid
        await self._runtime.queries.access.note("artifact", uid, subject="diff")
        return await files.diff(self._runtime, name, first=first, last=last, parent=parent, stat=stat)

    async def brief(self, name: str) -> Brief:
        beside = storage_folder(self._runtime)
        uid = (await self._store.read(session.find, name)).uid
        await self._runtime.queries.access.note("transcript", uid, detail="brief")

        def read(tx: StoreTransaction) -> Brief:
            return make_brief(tx, session.find(tx, name), beside)

        return await self._store.read(read)

    async def prune(
        self, *, ended: str | float | None, access: str | float | None, plan: bool
    ) -> PruneReport:  # fmt: skip
        return await prune.prune_all(self._runtime, ended=ended, access=access, plan=plan)

    async def verify(self, name: str | None) -> Verification:
        return await self._store.read(verify_sessions, name, lambda _: None)

    async def audit_head(self, to: str | Path | None, *, sign: bool, by: str | None) -> AuditHead:
        name = by or self._runtime.by
        made = await self._store.read(head.take, signing_key() if sign else None, name)
        if to is not None:
            await asyncio.to_thread(write_whole, _absolute(to), made.file())
            await self._store.write(head.record(made, by=name))
        return made

    async def audit_verify(self, against: str | Path, *, signed_by: str | None) -> HeadReport:
        kept = await asyncio.to_thread(head.read, _absolute(against))
        if signed_by is not None:
            require(signer_of(kept.signature), signed_by, "head")
        return await self._store.read(compare, kept)

    async def audit_report(self, since: Moment, until: Moment) -> str:
        span = read_range(since, until, self._store.clock.now())
        return page(await self._store.read(gather, span))

    async def roles(self) -> RoleReport:
        if self._store.database.dialect != "postgres":
            raise ConfigError(f"{self._store.target} has no roles.", hint="Roles need a store on PostgreSQL.")
        return await self._store.read(examine_roles)

    async def apply_roles(self, prefix: str | None) -> RoleReport:
        return await asyncio.to_thread(apply_roles, self._store.target, prefix)

    async def doctor(self, *, deep: bool) -> DoctorReport:
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
