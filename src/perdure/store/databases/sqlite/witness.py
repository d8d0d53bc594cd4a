"""The witness: a small file beside a store on this machine that names the last event committed to it.

A file can be replaced by an older copy of itself, by hand or by git, and its content cannot show that. The witness can:
it names an event that the older copy does not have. It is written after every commit and never synced, so it costs a
few microseconds and survives the death of a process. After a power cut it may be older than the store, which proves
nothing. It is newer than the store only if the store was restored. A restore of both files together is not detected.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from perdure.domain.restore import Cause
from perdure.ids import digest
from perdure.store.databases.sqlite.engine import SQLiteEngine
from perdure.store.move import StoreTransaction
from perdure.store.moves import meta, restore

ROOM = 512  # one sector, so that a reader never sees a mix of two writes


class LastEvent(msgspec.Struct, frozen=True):
    """The last committed event, and its move."""

    store_id: str
    session_uid: str
    number: int
    move_id: str
    restore_epoch: int


class LostEvent(msgspec.Struct, frozen=True):
    """An event that was committed and is no longer there: its description, and the restore epoch at that time."""

    what: str
    epoch: int


class Witness:
    """The file; `folder` is the one beside the database."""

    def __init__(self, folder: Path) -> None:
        self._file = os.open(folder / "witness", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._store_id = ""
        self._epoch = 0

    def lost_event(self, tx: StoreTransaction) -> LostEvent | None:
        """The event that a restore lost; None if there was no restore, or it is recorded already."""
        self._store_id = meta.get(tx, "store_id") or ""
        self._epoch = int(meta.get(tx, "restore_epoch") or 0)
        return find_lost_event(tx, _decoded(os.pread(self._file, ROOM, 0)))

    def check_restore(self, engine: SQLiteEngine) -> None:
        """Begin a restore epoch if the store was replaced by an older copy of itself."""
        if self.lost_event(engine.transaction("open")) is None:
            return
        engine.begin()
        tx = engine.transaction("restore")
        if (lost := self.lost_event(tx)) is not None:  # unless another process recorded it first
            restore.begin(tx, Cause.WITNESS, lost.what, after=lost.epoch)
        engine.commit()
        self.lost_event(tx)

    def note(self, session_uid: str, number: int, move_id: str) -> None:
        """Record an event that is durable."""
        line = msgspec.json.encode(LastEvent(self._store_id, session_uid, number, move_id, self._epoch))
        content = digest(line)[:16].encode() + b" " + line
        os.pwrite(self._file, content.ljust(ROOM - 1) + b"\n", 0)

    def close(self) -> None:
        os.close(self._file)


def read(folder: Path) -> LastEvent | None:
    """The event that the witness names, without opening the store. Read it before the store: otherwise an event that
    is committed in between would seem lost."""
    try:
        with open(folder / "witness", "rb") as file:
            return _decoded(file.read(ROOM))
    except OSError:
        return None


def _decoded(content: bytes) -> LastEvent | None:
    check, _, line = content.strip().partition(b" ")
    if not line or digest(line)[:16].encode() != check:
        return None
    return msgspec.json.decode(line, type=LastEvent)


def find_lost_event(tx: StoreTransaction, seen: LastEvent | None) -> LostEvent | None:
    """The event of the witness that is missing in the store; None if none is, or the restore is recorded already."""
    if seen is None or seen.store_id != meta.get(tx, "store_id"):
        return None
    if tx.one("event.of_move", uid=seen.session_uid, number=seen.number, move_id=seen.move_id):
        return None
    what = f"event {seen.number} of session {seen.session_uid} (move {seen.move_id}) is no longer there"
    known = restore.newest(tx)
    if known is not None and (known.cause, known.detail) == (Cause.WITNESS, what):
        return None
    return LostEvent(what, seen.restore_epoch)
