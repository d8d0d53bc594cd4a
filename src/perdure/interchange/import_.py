"""Import: take a bundle into a store, completely or not at all.

    1 check      names, limits, version, the signature, every digest, every row, every chain, and the rows against
                 the log; nothing is written before all of it holds
    2 artifacts  each synced under its digest; a crash here leaves files that no row claims
    3 take in    every row in one transaction

A crash before the commit of 3 leaves no trace of the session; after it, all of it is there. Importing again finds what
is there and changes nothing.

A bundle gives no rights. The permissions of its sessions, and votes of people elsewhere on effects that are not
settled, are dropped unless the caller names them in `keep` (`domain.permission`). A signature does not change that: it
only shows who made the bundle.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from perdure.domain import event as event_domain
from perdure.domain.effect import EffectState
from perdure.domain.fact import private_scope
from perdure.domain.permission import APPROVALS, REPOSITORY
from perdure.domain.session import TERMINAL, SessionRecord, Status
from perdure.errors import BundleInvalid, ConfigError, Conflict, Damaged, IllegalMove
from perdure.ids import decode
from perdure.interchange import rows
from perdure.interchange.bundle import ARTIFACT, EVENTS, MOVE, TABLE, Artifacts, Manifest, Member
from perdure.interchange.distrust import (
    check_rows,
    granted_to,
    reduced,
    refuse_folder_program,
    refuse_open_folder_changes,
    unsettled_votes,
)
from perdure.interchange.session_files import PACK, SessionFiles, read_files
from perdure.interchange.signature import verified
from perdure.interchange.signing_keys import Signer, require, signer_of
from perdure.interchange.unpack import BundleLimits, BundleReader, open_bundle
from perdure.store.statements import RECORDS
from perdure.store.store import Store
from perdure.store.transfer.arrival import ImportResult, SessionImport
from perdure.store.transfer.session_export import TABLES, Columns, StoredSession
from perdure.store.transfer.session_import import import_sessions, set_folder


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """The session that continues here, where it came from, and whether anything changed."""

    session: SessionRecord
    mode: str
    source: Member
    changed: bool
    counts: dict[str, int]
    signer: Signer
    dropped: dict[str, Any] = {}  # permissions by name, with what they were


def import_bundle(
    store: Store,
    path: Path,
    *,
    by: str,
    id: str | None = None,
    take_back: bool = False,
    artifacts: Artifacts | None = None,
    keep: Collection[str] = (),
    signed_by: str | None = None,
    limits: BundleLimits = BundleLimits(),  # noqa: B008  (frozen)
) -> Imported:
    """Take a bundle into a store. A bundle with any defect is refused, and nothing of it is stored.

    `keep` names the permissions that are not dropped. `signed_by` is the name of a known key that must have signed the
    bundle, or `any-known`.
    """
    with open_checked(path, limits, signed_by=signed_by) as bundle:
        return bundle.into(store, by=by, id=id, take_back=take_back, artifacts=artifacts, keep=keep)


@contextmanager
def open_checked(
    path: Path,
    limits: BundleLimits = BundleLimits(),  # noqa: B008  (frozen)
    *,
    signed_by: str | None = None,
) -> Iterator[CheckedBundle]:
    """Open a bundle and check all of it, or raise what is wrong with it. No store is needed for that."""
    with open_bundle(path, limits) as bundle:
        signer = signer_of(None if bundle.signature is None else verified(bundle.signature, bundle.digest))
        if signed_by is not None:
            require(signer, signed_by)
        line = read_line(bundle)
        _check_artifacts(bundle, line)
        for kept in line:
            check_rows(kept, bundle)
        _refuse_folder_changes(line, bundle.manifest.mode)
        yield CheckedBundle(bundle, line, signer, read_files(bundle, line))


class CheckedBundle:
    """An open bundle that was checked completely."""

    def __init__(
        self, bundle: BundleReader, line: list[StoredSession], signer: Signer, files: SessionFiles | None = None
    ) -> None:
        self._bundle = bundle
        self._line = line
        self.signer = signer
        self.files = files

    @property
    def repository(self) -> str | None:
        """The folder that its newest session worked in, elsewhere."""
        found = self._line[-1].session["repository"]
        return None if found is None else str(found)

    @property
    def uid(self) -> str:
        """The uid of the session that continues from it."""
        return self._bundle.manifest.copy or self._bundle.manifest.session.uid

    @property
    def name(self) -> str:
        """The id of its session."""
        return self._bundle.manifest.session.id

    def pack(self) -> Iterator[bytes]:
        """The pack of its files, in pieces."""
        return self._bundle.pieces(PACK)

    @property
    def digest(self) -> str:
        """The digest of its manifest, which has the digest of everything else."""
        return self._bundle.digest

    @property
    def by(self) -> str:
        """Who made it, as the bundle claims."""
        return self._bundle.manifest.by

    @property
    def permissions(self) -> dict[str, Any]:
        """What its sessions may do without approval, by name; those of the newest session where several have one."""
        found = {name: value for kept in self._line for name, value in granted_to(kept, self._bundle).items()}
        voted = sorted(id for kept in self._line for id in unsettled_votes(kept))
        return found | ({APPROVALS: voted} if voted else {})

    def into(
        self, store: Store, *, by: str, id: str | None = None, take_back: bool = False,
        artifacts: Artifacts | None = None, keep: Collection[str] = (), folder: str | None = None,
        place: Mapping[str, Any] | None = None, keep_owner: bool = False,
    ) -> Imported:  # fmt: skip
        """Take it into a store: artifacts first, then every row in one transaction.

        `folder` is where its sessions work here, if they worked in a folder, and `place` what is known of its
        repository. Who imports owns the session, unless the bundle's owner is kept.
        """
        manifest, found = self._bundle.manifest, self.permissions
        dropped = {name: value for name, value in found.items() if name not in keep}
        if folder is not None:
            dropped.pop(REPOSITORY, None)
        line = [reduced(kept, self._bundle, frozenset(dropped), folder) for kept in self._line]
        _keep_artifacts(self._bundle, line, artifacts)
        last, was = line[-1].session, self._line[-1].session
        changed = {name: last[name] for name in ("arguments", REPOSITORY) if last[name] != was[name]}
        arrival = SessionImport(
            line=line, source=manifest.store, copy_uid=manifest.copy, exported_at=manifest.created_at, id=id,
            take_back=take_back, keep_approvals=APPROVALS in keep,
            reduced={name: decode(one) if name == "arguments" else one for name, one in changed.items()},
            signed_by=_noted(self.signer), place=place or {}, keeps_owner=keep_owner,
        )  # fmt: skip
        arrived = _take_in(store, arrival, by)
        if folder is not None and not arrived.changed:
            uids = [arrived.session.uid, *(kept.uid for kept in line)]
            arrived = store.write_now(set_folder(uids, folder, place or {}, by=by))
        if not arrived.voided:
            dropped.pop(APPROVALS, None)
        return Imported(
            session=arrived.session, mode=manifest.mode, source=manifest.session, changed=arrived.changed,
            counts=manifest.counts, signer=self.signer, dropped=dropped if arrived.changed else {},
        )  # fmt: skip


def _refuse_folder_changes(line: list[StoredSession], mode: str) -> None:
    try:
        for kept in line:
            refuse_folder_program(kept)
        if mode == MOVE:
            refuse_open_folder_changes(line[-1])
    except IllegalMove as error:
        raise BundleInvalid(error.message) from None


def _noted(signer: Signer) -> dict[str, str | None]:
    """What the log records of a signature: the key, and the name by which it was known."""
    return {} if signer.key is None else {"key": signer.key, "name": signer.name}


def _take_in(store: Store, arrival: SessionImport, by: str) -> ImportResult:
    try:
        return store.write_now(import_sessions(arrival, by=by))
    except (Conflict, IllegalMove) as error:
        if "session" in error.details:
            raise
        raise BundleInvalid(f"The rows of the bundle contradict each other. {error.message}") from error


def read_line(bundle: BundleReader) -> list[StoredSession]:
    """Every session of a bundle, each row checked, each log verified, all of it as the manifest says."""
    manifest = bundle.manifest
    found = {name: _rows(bundle, name) for name in ("session", "event", *TABLES)}
    counts = {name: len(some) for name, some in found.items()}
    if wrong := {name: number for name, number in manifest.counts.items() if counts.get(name, number) != number}:
        raise BundleInvalid(f"The bundle does not hold as many rows of {min(wrong)} as its manifest says.")
    by_uid = {one["uid"]: StoredSession(one, [], {name: [] for name in TABLES}) for one in found["session"]}
    if [one["uid"] for one in found["session"]] != [one.uid for one in manifest.line]:
        raise BundleInvalid("The bundle does not hold the sessions that its manifest names.")
    for table in ("event", *TABLES):
        for row in found[table]:
            kept = by_uid.get(_owner(table, row))
            if kept is None:
                raise BundleInvalid(f"The bundle holds a row of {table} that belongs to none of its sessions.")
            (kept.events if table == "event" else kept.tables[table]).append(row)
    line = list(by_uid.values())
    for kept, member in zip(line, manifest.line, strict=True):
        _check_session(kept, member)
    _check_line(line, manifest)
    return line


def _rows(bundle: BundleReader, table: str) -> list[Columns]:
    name = EVENTS if table == "event" else TABLE.format(table)
    if name not in bundle.manifest.files:
        raise BundleInvalid(f"{name} is missing.")
    return rows.read(table, bundle.content(name))


def _owner(table: str, row: Columns) -> str:
    uid = str(row["session_uid"])
    return uid if table != "fact" or row["scope"] == private_scope(uid) else ""


def _check_session(kept: StoredSession, member: Member) -> None:
    row = kept.session
    if (row["uid"], row["id"], row["cursor"], row["chain"]) != (member.uid, member.id, member.cursor, member.chain):
        raise BundleInvalid(f"Session {member.id} is not as the manifest says.")
    columns = RECORDS["event"].columns()
    try:
        chain = event_domain.verify(member.uid, (tuple(one[name] for name in columns) for one in kept.events))
    except Damaged as error:
        raise BundleInvalid(error.message) from None
    if (chain, len(kept.events)) != (member.chain, member.cursor) or not kept.events:
        raise BundleInvalid(f"The log of session {member.id} does not end where it should.")
    unended = any(one["state"] == EffectState.DISPATCHED for one in kept.tables["effect"])
    if row["status"] == Status.RUNNING or row["lease_nonce"] is not None or (row["status"] in TERMINAL and unended):
        raise BundleInvalid(f"Session {member.id} cannot be {row['status']} and travel.")


def _check_line(line: list[StoredSession], manifest: Manifest) -> None:
    for before, kept in zip([None, *line], line, strict=False):
        forked = (kept.session["forked_from"], kept.session["forked_at"])
        expected = None if before is None else before.uid
        if forked[0] != expected or (before is not None and not 1 <= (forked[1] or 0) <= len(before.events)):
            raise BundleInvalid(f"Session {kept.session['id']} is not a branch of the one before it.")
    last = line[-1]
    if manifest.mode == MOVE and (last.session["sealed_at"] is None or last.events[-1]["kind"] != "session.sealed"):
        raise BundleInvalid("The bundle is a move of a session that was not sealed.")


def _check_artifacts(bundle: BundleReader, line: list[StoredSession]) -> None:
    """Every artifact is there and has its digest, and every file is read to its end, also those no row claims."""
    claimed = {ARTIFACT.format(one["digest"]): one for kept in line for one in kept.tables["artifact"]}
    for name, row in claimed.items():
        part = bundle.manifest.files.get(name)
        if part is None or (part.sha256, part.size) != (row["digest"], row["size"]):
            raise BundleInvalid(f"{name} is missing, or is not what its name says.")
    known = {EVENTS, *(TABLE.format(table) for table in ("session", *TABLES))}
    for name in bundle.manifest.files.keys() - known:
        for _ in bundle.pieces(name):
            pass


def _keep_artifacts(bundle: BundleReader, line: list[StoredSession], artifacts: Artifacts | None) -> None:
    names = sorted({one["digest"] for kept in line for one in kept.tables["artifact"]})
    if not names:
        return
    if artifacts is None:
        raise ConfigError(
            "The bundle holds artifacts, and this store names no folder for them.",
            hint="Name one in the setting `artifacts`.",
        )
    for name in names:
        artifacts.put(bundle.pieces(ARTIFACT.format(name)))
