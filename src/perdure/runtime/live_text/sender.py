"""The worker's side: sends the text of model calls to watchers on other machines, while there are any.

A model call only appends to a list here. A thread sends, and it exists only while a session is watched. Nothing waits
for it, and what it cannot send is lost: the record has the text.
"""

from __future__ import annotations

import threading
from contextlib import suppress

import msgspec

from perdure.clock import SECOND, SystemClock
from perdure.runtime.live_text.delta import MOST, LiveTextHeader
from perdure.runtime.live_text.piece import ANNOUNCEMENTS, EXPIRES, IDLE, LONGEST, PAUSE, Announcement, Piece, topic_of
from perdure.store.messages import MessageBus


class _Call:
    """One model call under way."""

    def __init__(self, uid: str, head: LiveTextHeader) -> None:
        self.uid, self.head = uid, head
        self.parts: list[str] = []
        self.size = 0
        self.sent = 0  # characters
        self.is_due = True  # it is told of, also without new text

    def add(self, text: str) -> None:
        if self.size < MOST:
            self.parts.append(text)
            self.size += len(text)

    def pieces(self) -> list[Piece]:
        """What was not sent yet."""
        whole = "".join(self.parts)
        self.parts = [whole]
        found = [
            Piece(self.uid, self.head.call, self.head.after, start, whole[start : start + LONGEST])
            for start in range(self.sent, len(whole), LONGEST)
        ]
        if not found and self.is_due:
            found = [Piece(self.uid, self.head.call, self.head.after, len(whole), retry=self.head.retry)]
        self.sent, self.is_due = len(whole), False
        return found

    def end(self, *, recorded: bool) -> list[Piece]:
        last = Piece(self.uid, self.head.call, self.head.after, self.size, end="recorded" if recorded else "broke off")
        return [*self.pieces(), last]


class LiveTextSender:
    """The calls of this process. There is one for each open store."""

    def __init__(self, messages: MessageBus, place: str) -> None:
        self._messages = messages
        self._place = place
        self._boot = SystemClock().boot
        self._lock = threading.Lock()
        self._calls: dict[str, _Call] = {}  # by session
        self._ended: list[Piece] = []
        self._watched: dict[str, int] = {}  # when the interest in a session expires
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._listens = False

    def listen(self) -> None:
        """Hear who watches, from the first model call on."""
        if not self._listens:
            self._listens = True
            self._messages.subscribe(ANNOUNCEMENTS, self._heard)

    def begin(self, uid: str, head: LiveTextHeader, text: str) -> None:
        with self._lock:
            call = self._calls[uid] = _Call(uid, head)
            call.add(text)
        self._send_if_watched(uid)

    def say(self, uid: str, text: str) -> None:
        with self._lock:
            if (call := self._calls.get(uid)) is not None:
                call.add(text)
        self._send_if_watched(uid)

    def end(self, uid: str, *, recorded: bool) -> None:
        with self._lock:
            call = self._calls.pop(uid, None)
            if call is None or not self._is_watched(uid):
                return
            self._ended += call.end(recorded=recorded)
        self._begin()

    def _is_watched(self, uid: str) -> bool:
        until = self._watched.get(uid)
        return until is not None and self._boot() < until

    def _send_if_watched(self, uid: str) -> None:
        if self._is_watched(uid):
            self._begin()

    def _begin(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="perdure-live-text", daemon=True)
                self._thread.start()
        self._wake.set()

    def _heard(self, message: str | None) -> None:
        """An announcement of a watcher."""
        if message is None:
            return
        with suppress(msgspec.DecodeError, UnicodeDecodeError):
            told = msgspec.json.decode(message, type=Announcement)
            if told.place == self._place:
                return
            now = self._boot()
            with self._lock:
                self._watched = {uid: until for uid, until in self._watched.items() if until > now}
                self._watched |= dict.fromkeys(told.sessions, now + round(EXPIRES * SECOND))
                under_way = [self._calls[uid] for uid in told.sessions if uid in self._calls]
                for call in under_way:
                    call.is_due = True
                    if call.uid in told.fresh:
                        call.sent = 0
            if under_way:
                self._begin()

    def _run(self) -> None:
        while True:
            if not self._wake.wait(IDLE):
                with self._lock:
                    if not self._wake.is_set():
                        self._thread = None
                        return
            self._wake.clear()
            with suppress(Exception):
                self._send()
            threading.Event().wait(PAUSE)  # what is said meanwhile is one piece

    def _send(self) -> None:
        with self._lock:
            pieces, self._ended = self._ended, []
            for uid, call in self._calls.items():
                if self._is_watched(uid):
                    pieces += call.pieces()
        for one in pieces:
            self._messages.send(topic_of(one.session), msgspec.json.encode(one).decode())
