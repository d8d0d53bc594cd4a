"""The files of live text: the output of a model that is not recorded yet, for watchers on this machine.

The record never depends on it.

    begin      with the first piece: a new file for the session, locked, then its header
    append     each piece is appended, up to a limit; nothing is synced
    recorded   the message is recorded: the file is removed
    broke off  the lock is free and the file still exists: the worker died, or the call failed
    retry      the model is asked again later: a file with a header only, removed when it is asked

The header names the event that the text follows, so a watcher never shows a piece of a message that it has already
shown whole. A watcher tests the lock, so it shows nothing that a dead worker left. Errors here are ignored: then there
is no live text, and the message comes whole. A crash leaves at most one file for each session, which the next call of
that session or the next worker removes.

On PostgreSQL a watcher may be on another machine. While there is one, the worker also sends the text (`sender`).
"""

from __future__ import annotations

import codecs
import fcntl
import os
from collections.abc import Callable
from functools import cached_property
from pathlib import Path

import msgspec

from perdure.process import open_for_parent
from perdure.runtime.live_text.delta import MOST, Delta, LiveTextHeader
from perdure.runtime.live_text.link import LiveTextLink
from perdure.runtime.live_text.receiver import RemoteReader
from perdure.runtime.workers.private_folder import runtime_folder
from perdure.store.moves import meta
from perdure.store.store import Store
from perdure.store.writer.lock import present_names


class LiveText:
    """The live deltas of one store on this machine."""

    def __init__(self, store: Store) -> None:
        self.listeners: list[Callable[[Delta], None]] = []  # in this process; of a store in memory there are no others
        self._store = store
        self._swept = False

    @cached_property
    def folder(self) -> Path | None:
        """The folder of the files; None for a store in memory, which no other process can read."""
        if self._store.folder is not None:
            return self._store.folder / "live"
        if self._store.database.dialect == "sqlite":
            return None
        store_id = self._store.read_now(meta.get, "store_id")
        return None if store_id is None else runtime_folder() / store_id / "live"

    @cached_property
    def link(self) -> LiveTextLink | None:
        """The way to other machines; None where there are none, or nothing can be received."""
        messages = self._store.messages
        if messages is None or not messages.can_receive or self.folder is None:
            return None
        return LiveTextLink(messages, self.folder)

    def begin(self, uid: str, head: LiveTextHeader) -> LiveTextFile | None:
        if self.folder is None:
            return None
        self.folder.mkdir(mode=0o700, exist_ok=True)
        return LiveTextFile(self.folder / uid, head)

    def sweep(self) -> None:
        """Remove the files of dead workers, once for each process."""
        if not self._swept and self.folder is not None:
            self._swept = True
            present_names(self.folder)


class LiveTextFile:
    """The file of one model call, while it lasts."""

    def __init__(self, path: Path, head: LiveTextHeader) -> None:
        path.unlink(missing_ok=True)
        self._path = path
        self._room = MOST
        self._file = open_for_parent(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.write(self._file, msgspec.json.encode(head) + b"\n")
        except OSError:
            os.close(self._file)
            raise

    def append(self, text: str) -> None:
        """Nothing is appended after a gap: neither beyond the bound nor where the disk was full for a moment."""
        data = text.encode()
        room, self._room = self._room - len(data), 0
        if room > 0 and os.write(self._file, data) == len(data):
            self._room = room

    def close(self, *, recorded: bool) -> None:
        try:
            if recorded:
                self._path.unlink(missing_ok=True)
        finally:
            os.close(self._file)


class LiveTextReader:
    """Reads the live text of one session from its worker, on this machine or another one. Poll it often."""

    def __init__(self, deltas: LiveText, uid: str) -> None:
        self._live = deltas
        self._remote: RemoteReader | None = None
        self._path = None if deltas.folder is None else deltas.folder / uid
        self._uid = uid
        self._file: int | None = None
        self._head = LiveTextHeader("", 0)
        self._text = codecs.getincrementaldecoder("utf-8")("replace")
        self._room = MOST

    def poll(self) -> list[Delta]:
        """The pieces that came since the last time."""
        if self._remote is None and self._live.link is not None:
            self._remote = self._live.link.receiver.watch(self._uid)
        elsewhere = [] if self._remote is None else self._remote.poll()
        try:
            return elsewhere + (self._begin() if self._file is None else self._read_on(self._file))
        except OSError:
            self._close_file()
            return elsewhere

    def close(self) -> None:
        self._close_file()
        if self._remote is not None and self._live.link is not None:
            self._live.link.receiver.leave(self._uid, self._remote)
            self._remote = None

    def _close_file(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _begin(self) -> list[Delta]:
        """Open the file, if it is complete, owned by this user and locked; returns the pieces that it has already."""
        if self._path is None:
            return []
        self._file = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        first, newline, text = os.read(self._file, MOST).partition(b"\n")
        try:
            self._head = msgspec.json.decode(first, type=LiveTextHeader)
        except (msgspec.DecodeError, UnicodeDecodeError):
            newline = b""
        if not newline or os.fstat(self._file).st_uid != os.geteuid() or not self._is_written(self._file):
            self._close_file()
            return []
        self._text.reset()
        self._room = MOST
        if self._head.retry is not None:
            return [Delta(self._uid, self._head.call, self._head.after, retry=self._head.retry)]
        return self._decode(text)

    def _read_on(self, file: int) -> list[Delta]:
        is_written = self._is_written(file)  # tested before the read, so that the end of a finished file is not missed
        said = self._decode(os.read(file, self._room)) if self._room else []
        if not is_written:
            if os.fstat(file).st_nlink:
                said.append(Delta(self._uid, self._head.call, self._head.after, broke_off=True))
            self._close_file()
        return said

    def _decode(self, data: bytes) -> list[Delta]:
        self._room = max(0, self._room - len(data))
        text = self._text.decode(data)
        return [Delta(self._uid, self._head.call, self._head.after, text)] if text else []

    @staticmethod
    def _is_written(file: int) -> bool:
        """Whether a writer holds the lock. The test takes a shared lock, so that watchers do not see each other."""
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        fcntl.flock(file, fcntl.LOCK_UN)
        return False
