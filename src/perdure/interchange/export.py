"""Export: write one session as a bundle, as a copy or as a move.

A copy changes nothing here. It gets a uid of its own now, so that importing it twice is importing it once.

A move, in this order:

    1 check     that everything it needs can be read, and that the path is free
    2 note      which acts are known to have ended: their processes are dead, and only this machine can find out
    3 seal      one transaction; from now on no process moves the session here
    4 write     temp, sync, rename, sync

Before 3 nothing has happened. After 3 the session is sealed and its bundle may be missing: exporting it again writes
the same bundle, byte for byte, because everything in it follows from the sealed log. The seal is part of the exported
log, so the target continues from it, and the session can come back. A bundle that exists is of a sealed session: at no
time two stores would move it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import msgspec

from perdure.domain.effect import Attempt
from perdure.domain.session import Status
from perdure.domain.wait import WaitKind
from perdure.domain.worker import Liveness
from perdure.errors import ConfigError, Conflict, Damaged, IllegalMove, NotFound
from perdure.ids import digest, new_uid
from perdure.interchange import rows
from perdure.interchange.bundle import (
    ARTIFACT,
    COPY,
    EVENTS,
    FORMAT,
    MAJOR,
    MANIFEST,
    MINOR,
    MOVE,
    SIGNATURE,
    SUMMARY,
    TABLE,
    Artifacts,
    Manifest,
    Member,
    Part,
)
from perdure.interchange.distrust import refuse_folder_program, refuse_open_folder_changes
from perdure.interchange.pack import Content, digest_of, write
from perdure.interchange.session_files import DESCRIPTION, PACK, PackedFiles, snapshots_of
from perdure.interchange.signature import SigningKey, check_maker
from perdure.interchange.summary import summary
from perdure.store.inspection import damage
from perdure.store.move import StoreTransaction
from perdure.store.moves import doubt, meta, restore, session
from perdure.store.store import Store
from perdure.store.transfer import session_export
from perdure.store.transfer.session_export import TABLES, Columns, StoredSession


class Exported(msgspec.Struct, frozen=True, kw_only=True):
    """What was written."""

    path: str
    mode: str
    session: Member
    copy: str | None
    sha256: str
    manifest_sha256: str
    counts: dict[str, int]
    notes: list[str]
    signed_with: str | None = None  # the public key


class BundleOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """What a bundle records beside the rows: copy or move, the store it comes from, who exported it and when."""

    mode: str
    copy: str | None
    store: str
    by: str
    at: int


def export(
    store: Store,
    uid: str,
    path: Path,
    *,
    by: str,
    move: bool = False,
    artifacts: Artifacts | None = None,
    key: SigningKey | None = None,
    life_of: Callable[[Attempt], Liveness] = lambda _: Liveness.CANNOT_TELL,
    pack: Callable[[list[str]], PackedFiles | None] = lambda _: None,
) -> Exported:
    """Write a session as a bundle: a .zip if the path says so, a folder otherwise. With a key it is signed by `by`.

    `pack` packs the snapshots that the log names, as far as they are here.
    """
    if not path.parent.is_dir():
        raise NotFound(f"There is no folder {path.parent}.", hint="Make it, or name another place with --to.")
    if key is not None:
        check_maker(by)
    line, origin = store.read_now(_read_line, uid)
    again = move and origin is not None
    if os.path.lexists(path) and not again:
        raise Conflict(f"{path} is there already.", hint="Name another place with --to, or move it away.")
    _check_artifacts(line, artifacts)
    refuse_folder_program(line[-1])
    if move:
        refuse_open_folder_changes(line[-1])
    named = snapshots_of(line)
    packed = pack(named) if named else None  # before it is sealed: it may fail, and a seal adds no snapshot
    if move and not again:
        _seal(store, uid, by, life_of)
        line, origin = store.read_now(_read_line, uid)
    if not move:
        source = store.read_now(meta.get, "store_id") or ""
        origin = BundleOrigin(mode=COPY, copy=new_uid(), store=source, by=by, at=store.clock.now())
    assert origin is not None
    files, manifest = compose(line, origin, artifacts, packed, len(named))
    return _write(path, files, manifest, by, key, again=again)


def _write(
    path: Path, files: dict[str, Content], manifest: Manifest, by: str, key: SigningKey | None, *, again: bool
) -> Exported:
    """Write the files of a bundle, signed if there is a key."""
    manifest_digest = digest(manifest.encode())
    if key is not None:
        files = {MANIFEST: files.pop(MANIFEST), SIGNATURE: key.sign(manifest_digest, by)} | files
    sha256 = write(path, files, again=again)
    return Exported(
        path=str(path), mode=manifest.mode, session=manifest.session, copy=manifest.copy, sha256=sha256,
        manifest_sha256=manifest_digest, counts=manifest.counts, notes=manifest.notes,
        signed_with=None if key is None else key.public,
    )  # fmt: skip


def _read_line(tx: StoreTransaction, uid: str) -> tuple[list[StoredSession], BundleOrigin | None]:
    """The lineage in one read, and the origin of the move if the session was sealed here for one."""
    _refuse_damaged(tx, uid)
    line = session_export.read_lineage(tx, uid)
    _refuse_children(line)
    if restore.unreleased_for(tx, uid) is not None:
        raise IllegalMove(
            "This store was put back to an earlier time, and what this session did since is not known.",
            hint="Look at what was lost, then `perdure restores --release --because TEXT`.",
        )
    sealed, source = session_export.sealed_by(tx, uid), meta.get(tx, "store_id") or ""
    if sealed is not None and (sealed.body or {}).get("store") == source:
        return line, BundleOrigin(mode=MOVE, copy=None, store=source, by=sealed.actor, at=sealed.at)
    return line, None


def _refuse_damaged(tx: StoreTransaction, uid: str | None) -> None:
    """Without the damaged row the bundle would be of a session that did something else, so it is refused."""
    while uid is not None:
        if found := damage.of_session(tx, uid):
            raise Damaged(
                f"This session cannot be exported: {found[0]}",
                hint="Other sessions can be. `perdure doctor --deep` names every damaged row.",
            )
        uid = session.get(tx, uid).forked_from


def _refuse_children(line: list[StoredSession]) -> None:
    """A child that has not ended is not exported, and the session would wait for it for ever."""
    through = 2**62
    for kept in reversed(line):
        for one in kept.tables["wait"]:
            if one["kind"] == WaitKind.CHILD and one["resolved_at"] is None and one["number"] <= through:
                raise IllegalMove(
                    f"Session {kept.session['id']} waits for its child {one['ref']}.",
                    hint="Export it when the child has ended.",
                )
        through = kept.session["forked_at"] or 0


def _check_artifacts(line: list[StoredSession], artifacts: Artifacts | None) -> None:
    names = {one["digest"] for kept in line for one in kept.tables["artifact"]}
    if names and artifacts is None:
        raise ConfigError("This session has artifacts, and this store names no folder for them.",
                          hint="Name it in the setting `artifacts`.")  # fmt: skip
    for name in sorted(names):
        if artifacts is not None and not artifacts.has(name):
            raise NotFound(f"Artifact {name[:12]} is not here.", hint="Restore it from a backup, then export again.")


def _seal(store: Store, uid: str, by: str, life_of: Callable[[Attempt], Liveness]) -> None:
    for one in store.read_now(session_export.acts_under_way, uid):
        if life_of(one) is Liveness.DEAD:
            because = f"worker {one.worker} was found dead"
            store.write_now(doubt.record_end(uid, by, one.effect_id, one.number, because=because))
    store.write_now(session_export.seal(uid, by, store=store.read_now(meta.get, "store_id") or ""))


def compose(
    line: list[StoredSession], origin: BundleOrigin, artifacts: Artifacts | None, packed: PackedFiles | None = None,
    snapshots: int = 0,
) -> tuple[dict[str, Content], Manifest]:  # fmt: skip
    """The files of a bundle, in their order, and its manifest, which is the first of them."""
    for kept in line:
        kept.tables = {table: rows.in_order(table, found) for table, found in kept.tables.items()}
    notes = _notes(line, origin) + _file_notes(packed, snapshots)
    files: dict[str, Content] = {
        SUMMARY: summary(line[-1], mode=origin.mode, copy=origin.copy, notes=notes),
        EVENTS: rows.write(one for kept in line for one in kept.events),
        TABLE.format("session"): rows.write(_without_lease(kept.session) for kept in line),
    }
    counts = {"session": len(line), "event": sum(len(kept.events) for kept in line)}
    for table in TABLES:
        found = [one for kept in line for one in kept.tables[table]]
        files[TABLE.format(table)] = rows.write(found)
        counts[table] = len(found)
    parts = {name: Part(digest(one), len(one)) for name, one in files.items() if isinstance(one, bytes)}
    for name, size in sorted({(one["digest"], one["size"]) for kept in line for one in kept.tables["artifact"]}):
        assert artifacts is not None
        files[ARTIFACT.format(name)] = (size, artifacts.open(name))
        parts[ARTIFACT.format(name)] = Part(name, size)
    if packed is not None:
        counts["snapshot"] = len(packed.about.snapshots)
        about, size = msgspec.json.encode(packed.about), packed.pack.stat().st_size
        files |= {DESCRIPTION: about, PACK: (size, packed.pieces())}
        parts |= {DESCRIPTION: Part(digest(about), len(about)), PACK: Part(digest_of(packed.pack), size)}
    members = [_member(kept) for kept in line]
    manifest = Manifest(
        format=FORMAT, version=f"{MAJOR}.{MINOR}", mode=origin.mode, store=origin.store, session=members[-1],
        line=members, copy=origin.copy, counts=counts, notes=notes, created_at=origin.at, by=origin.by, files=parts,
    )  # fmt: skip
    return {MANIFEST: manifest.encode()} | files, manifest


def _file_notes(packed: PackedFiles | None, snapshots: int) -> list[str]:
    """What of its files is in the bundle."""
    if packed is None:
        return [f"Its {snapshots} snapshots of files are not in the bundle."] if snapshots else []
    left, base = packed.about.left_out, packed.about.base
    notes = [f"{left} of its {snapshots} snapshots are not in the bundle."] if left else []
    return notes + ([f"Its files need a clone that has commit {base[:12]}."] if base else [])


def _member(kept: StoredSession) -> Member:
    row = kept.session
    return Member(uid=row["uid"], id=row["id"], cursor=row["cursor"], chain=row["chain"])


def _without_lease(row: Columns) -> Columns:
    """A lease is not exported: its holder is of no use elsewhere, and its nonce is a key."""
    status = Status.READY if row["status"] == Status.RUNNING else row["status"]
    return row | {"status": status, "lease_holder": None, "lease_nonce": None, "lease_until": None}


def _notes(line: list[StoredSession], origin: BundleOrigin) -> list[str]:
    last, notes = line[-1], []
    if last.session["parent_uid"] is not None:
        notes.append(f"It is a child of session {last.session['parent_uid']}, which is not in the bundle.")
    if len(line) > 1:
        notes.append(f"It is a branch; the {len(line) - 1} it was forked from are in the bundle, as history.")
    unsettled = [one for one in last.tables["effect"] if one["settled_at"] is None]
    if unsettled and origin.mode == COPY:
        notes.append(f"{len(unsettled)} of its effects are unsettled: they stay with the original, and the copy waits.")
    return notes
