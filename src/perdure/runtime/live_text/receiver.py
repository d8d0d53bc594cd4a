"""The watcher's side: announces what is watched here, and gives the pieces that workers elsewhere send.

announce    as soon as the channel of a session is open, then again and again while it is watched
piece       only what continues the text so far is given; after a gap, nothing more of that call
silence     a worker answers each announcement; one that does not any more has died, and its text broke off
"""

from __future__ import annotations

import threading
from collections import deque
from contextlib import suppress
from functools import partial

import msgspec

from perdure.clock import SECOND, SystemClock
from perdure.runtime.live_text.delta import Delta
from perdure.runtime.live_text.piece import ANNOUNCED, ANNOUNCEMENTS, NAMED, SILENT, Announcement, Piece, topic_of
from perdure.store.messages import Handler, MessageBus

WAITING = 2_000  # pieces that a reader has not polled


class RemoteReader:
    """The live text of one session from other machines, for one watcher. Poll it often."""

    def __init__(self, uid: str) -> None:
        self._uid = uid
        self._pieces: deque[Piece] = deque(maxlen=WAITING)
        self._boot = SystemClock().boot
        self._call: Piece | None = None  # the present call
        self._have = 0  # characters of it
        self._heard_at = 0

    def receive(self, piece: Piece) -> None:
        self._pieces.append(piece)

    def poll(self) -> list[Delta]:
        found: list[Delta] = []
        while self._pieces:
            found += self._take(self._pieces.popleft())
        if self._call is not None and self._boot() - self._heard_at > SILENT * SECOND:
            found += self._broke_off(self._call)
        return found

    def _take(self, piece: Piece) -> list[Delta]:
        if self._call is None or self._call.call != piece.call:
            if piece.end or piece.offset:
                return []  # its beginning is not here; a worker sends it to those who ask
            self._call, self._have = piece, 0
            if piece.retry is not None:
                self._heard_at = self._boot()
                return [Delta(self._uid, piece.call, piece.after, retry=piece.retry)]
        self._heard_at = self._boot()
        if piece.end:
            return self._broke_off(piece) if piece.end == "broke off" else self._over()
        if piece.offset > self._have:
            return []
        text = piece.text[self._have - piece.offset :]
        self._have += len(text)
        return [Delta(self._uid, piece.call, piece.after, text)] if text else []

    def _over(self) -> list[Delta]:
        self._call, self._have = None, 0
        return []

    def _broke_off(self, piece: Piece) -> list[Delta]:
        said = self._have > 0
        self._over()
        return [Delta(self._uid, piece.call, piece.after, broke_off=True)] if said else []


class LiveTextReceiver:
    """The sessions that are watched in this process. There is one for each open store."""

    def __init__(self, messages: MessageBus, place: str) -> None:
        self._messages = messages
        self._place = place
        self._lock = threading.Lock()
        self._readers: dict[str, list[RemoteReader]] = {}
        self._handlers: dict[str, Handler] = {}
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None

    def watch(self, uid: str) -> RemoteReader:
        reader = RemoteReader(uid)
        with self._lock:
            is_known = uid in self._readers
            self._readers[uid] = [*self._readers.get(uid, ()), reader]
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="perdure-watch", daemon=True)
                self._thread.start()
            if not is_known:
                handler = self._handlers[uid] = partial(self._heard, uid)
                self._messages.subscribe(topic_of(uid), handler)
        if is_known:
            self._announce([uid], fresh=True)  # its channel is open, or it announces itself when it is
        return reader

    def leave(self, uid: str, reader: RemoteReader) -> None:
        with self._lock:
            left = [one for one in self._readers.get(uid, ()) if one is not reader]
            if left:
                self._readers[uid] = left
            elif self._readers.pop(uid, None) is not None:
                self._messages.unsubscribe(topic_of(uid), self._handlers.pop(uid))
            if not self._readers:
                self._wake.set()

    def _heard(self, uid: str, message: str | None) -> None:
        if message is None:
            self._announce([uid], fresh=True)
            return
        with suppress(msgspec.DecodeError, UnicodeDecodeError):
            piece = msgspec.json.decode(message, type=Piece)
            for one in self._readers.get(uid, ()):
                one.receive(piece)

    def _run(self) -> None:
        while True:
            self._wake.wait(ANNOUNCED)
            self._wake.clear()
            with self._lock:
                watched = sorted(self._readers)
                if not watched:
                    self._thread = None
                    return
            self._announce(watched)

    def _announce(self, watched: list[str], *, fresh: bool = False) -> None:
        for start in range(0, len(watched), NAMED):
            some = watched[start : start + NAMED]
            told = Announcement(self._place, some, some if fresh else [])
            self._messages.send(ANNOUNCEMENTS, msgspec.json.encode(told).decode())
