"""Wake-ups between processes that share a PostgreSQL database: LISTEN and NOTIFY.

Each queue and each service has a channel. Its notification is part of the transaction that makes a session ready, so it
cannot be lost between the commit and the notification. Sessions share `BUCKETS` channels; their notifications are sent
after the commit, many commits in one, because they are frequent: a lost one costs a slow poll.

A process listens to the channels of the topics that it waits for, on a connection of its own. Every time this
connection is opened, all readers are woken once. Behind a pooler that changes connections between transactions, LISTEN
needs a direct connection to the server (`connect_listener`); without one, all readers are woken every `POLL` seconds.

The same connections carry messages, each topic on a channel of its own. They are sent with the
wake-ups that wait, in the same statement.
"""

from __future__ import annotations

import logging
import os
import select
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import psycopg

from perdure import process
from perdure.ids import digest, new_uid
from perdure.store.messages import LARGEST, Handler
from perdure.store.statements import load
from perdure.store.writer.wakeup import Wakeups

logger = logging.getLogger(__name__)
Connect = Callable[[], "psycopg.Connection[Any]"]
BUCKETS = 256  # channels that all sessions share
MOST = 200  # sessions named in one notification
POLL = 1.0  # seconds
RETRY = 1.0  # seconds
PAUSE = 0.01  # seconds in which commits are collected
LOST = "PostgreSQL cannot be reached; processes look for work at intervals until it is back (%s)."
MESSAGES = 2000  # that wait to be sent; more are dropped


class Notifications:
    """The notifications of one process. `store` distinguishes stores that share a database."""

    def __init__(self, store: str, connect: Connect, connect_listener: Connect | None) -> None:
        self._store = store
        self._process = new_uid()[-12:]
        self.notifier = Notifier(connect)
        self.listener = Listener(self.received, connect_listener)

    def listen(self, wakeups: Wakeups, topics: Collection[str]) -> None:
        channels: dict[str, list[str]] = {}
        for topic in topics:
            channels.setdefault(self.channel(topic), []).append(topic)
        self.listener.listen(wakeups, channels)

    def send(self, topics: Collection[str]) -> None:
        """Send sessions that were changed; other topics were sent in their transaction (`in_transaction`)."""
        self.notifier.notify({topic: self.channel(topic) for topic in topics if is_session(topic)}, self._process)

    def in_transaction(self, topics: Iterable[str]) -> list[tuple[str, str]]:
        """Channel and payload of the notifications that belong to a transaction."""
        return [(self.channel(topic), f"{self._process} {topic}") for topic in sorted(topics)]

    def channel(self, topic: str) -> str:
        """The channel of a topic: an identifier that needs no quotes, of at most 63 characters."""
        name = str(int(digest(topic)[:8], 16) % BUCKETS) if is_session(topic) else topic
        return "perdure_" + digest(f"{self._store} {name}")[:32]

    def received(self, wakeups: Wakeups, payload: str) -> None:
        sender, _, topics = payload.partition(" ")
        if sender != self._process:  # its own readers were woken at the commit
            wakeups.bump(topics.split(",") if topics else None)

    def close(self) -> None:
        self.listener.close()
        self.notifier.close()


class NotificationBus:
    """The messages of one process. Behind a pooler without a direct address, nothing can be received."""

    def __init__(self, notifications: Notifications, wakeups: Wakeups) -> None:
        self._notifications = notifications
        self._wakeups = wakeups
        self.can_receive = notifications.listener.can_listen

    def subscribe(self, topic: str, handler: Handler) -> None:
        self._notifications.listener.subscribe(self._wakeups, self.channel(topic), handler)

    def unsubscribe(self, topic: str, handler: Handler) -> None:
        self._notifications.listener.unsubscribe(self.channel(topic), handler)

    def send(self, topic: str, message: str) -> None:
        if len(message.encode()) <= LARGEST:
            self._notifications.notifier.send(self.channel(topic), message)

    def channel(self, topic: str) -> str:
        return self._notifications.channel(f"message:{topic}")


def is_session(topic: str) -> bool:
    return len(topic) == 32 and topic.isalnum()


class Listener:
    """A thread with the connection that listens. It begins with the first reader that waits."""

    def __init__(self, received: Callable[[Wakeups, str], None], connect: Connect | None) -> None:
        self._received = received
        self._connect = connect
        self._lock = threading.Lock()
        self._wanted: dict[str, list[str]] = {}
        self._handlers: dict[str, list[Handler]] = {}
        self._closed = threading.Event()
        self._changed = -1  # an eventfd
        self._thread: threading.Thread | None = None
        self.can_listen = connect is not None

    def listen(self, wakeups: Wakeups, channels: Mapping[str, list[str]]) -> None:
        with self._lock:
            self._wanted = dict(channels)
            self._begin(wakeups)

    def subscribe(self, wakeups: Wakeups, channel: str, handler: Handler) -> None:
        """Call `handler` with the messages of a channel."""
        with self._lock:
            self._handlers[channel] = [*self._handlers.get(channel, ()), handler]
            if self.can_listen:
                self._begin(wakeups)

    def unsubscribe(self, channel: str, handler: Handler) -> None:
        with self._lock:
            self._handlers[channel] = [one for one in self._handlers.get(channel, ()) if one != handler]
            if not self._handlers[channel]:
                del self._handlers[channel]
            if self._thread is not None and not self._closed.is_set():
                os.eventfd_write(self._changed, 1)

    def _begin(self, wakeups: Wakeups) -> None:
        """Have the thread look at what is wanted now; the lock is held."""
        if self._closed.is_set():
            return
        if self._thread is None:
            with process.no_fork():
                self._changed = process.leave_to_parent(os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK))
            serve = self._poll if self._connect is None else self._serve
            self._thread = threading.Thread(target=serve, args=(wakeups,), name="perdure-listen", daemon=True)
            self._thread.start()
        os.eventfd_write(self._changed, 1)

    def _poll(self, wakeups: Wakeups) -> None:
        while not self._closed.wait(POLL):
            if wakeups.has_waiters.is_set():
                wakeups.bump()

    def _serve(self, wakeups: Wakeups) -> None:
        assert self._connect is not None
        is_lost = False
        while not self._closed.is_set():
            try:
                with self._connect() as db:
                    if is_lost:
                        is_lost = False
                        logger.warning("PostgreSQL can be reached again.")
                    db.add_notify_handler(lambda notice: self._deliver(wakeups, notice.channel, notice.payload))
                    self._receive(wakeups, db)
            except Exception as error:  # the server is away: waiters fall back to the slow poll until it is back
                if not is_lost and not self._closed.is_set():
                    is_lost = True
                    logger.warning(LOST, type(error).__name__)
                self._closed.wait(RETRY)

    def _receive(self, wakeups: Wakeups, db: psycopg.Connection[Any]) -> None:
        heard: set[str] = set()
        sockets = select.poll()
        sockets.register(db.fileno(), select.POLLIN)
        sockets.register(self._changed, select.POLLIN)
        while not self._closed.is_set():
            with self._lock:
                topics, wanted = self._wanted, self._wanted.keys() | self._handlers.keys()
            for channel in heard - wanted:
                db.execute(f"UNLISTEN {channel}")
            if added := wanted - heard:
                for channel in sorted(added):
                    db.execute(f"LISTEN {channel}")
                wakeups.bump([topic for channel in added for topic in topics.get(channel, ())] if heard else None)
                for channel in added:
                    self._deliver(wakeups, channel, None)
            heard = set(wanted)
            sockets.poll()
            try:
                os.eventfd_read(self._changed)
            except BlockingIOError:
                db.pgconn.consume_input()
            while (notice := db.pgconn.notifies()) is not None:
                self._deliver(wakeups, notice.relname.decode(), notice.extra.decode())

    def _deliver(self, wakeups: Wakeups, channel: str, payload: str | None) -> None:
        handlers = self._handlers.get(channel, ())
        for handler in handlers:
            handler(payload)
        if not handlers and payload is not None:
            self._received(wakeups, payload)

    def close(self) -> None:
        with self._lock:
            self._closed.set()
            if self._thread is None:
                return
            os.eventfd_write(self._changed, 1)
        self._thread.join(5.0)  # a stalled server may block it
        if not self._thread.is_alive():
            os.close(self._changed)


class Notifier:
    """Notifies other processes of changed sessions: one statement at a time, for many commits."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._pending: dict[str, str] = {}
        self._messages: list[tuple[str, str]] = []
        self._process = ""
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def notify(self, channels: Mapping[str, str], sender: str) -> None:
        """Sessions with their channels."""
        if not channels:
            return
        with self._lock:
            self._process = sender
            self._pending.update(channels)
            self._begin()

    def send(self, channel: str, message: str) -> None:
        """A message, which is dropped if many wait."""
        with self._lock:
            if not self._closed.is_set() and len(self._messages) < MESSAGES:
                self._messages.append((channel, message))
                self._begin()

    def _begin(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="perdure-notify", daemon=True)
            self._thread.start()
        self._wake.set()

    def _run(self) -> None:
        db: psycopg.Connection[Any] | None = None
        while True:
            if not self._closed.is_set():
                self._wake.wait()
                self._closed.wait(PAUSE)
            self._wake.clear()
            last = self._closed.is_set()  # read after the clear: a later close sets it again
            with self._lock:
                pending, self._pending = self._pending, {}
                messages, self._messages = self._messages, []
            if pending or messages:
                db = self._send(db, pending, messages)
            if last:
                break
        if db is not None:
            db.close()

    def _send(
        self, db: psycopg.Connection[Any] | None, pending: Mapping[str, str], messages: list[tuple[str, str]]
    ) -> psycopg.Connection[Any] | None:
        by_channel: dict[str, list[str]] = {}
        for uid, channel in pending.items():
            by_channel.setdefault(channel, []).append(uid)
        payloads = [f"{self._process} " + (",".join(uids) if len(uids) <= MOST else "") for uids in by_channel.values()]
        channels = [*by_channel, *(channel for channel, _ in messages)]
        payloads += [message for _, message in messages]
        try:
            db = db or self._connect()
            db.execute(load("postgres")["meta.notify_many"], {"channels": channels, "payloads": payloads})
        except Exception as error:  # a lost hint: readers also poll slowly
            logger.info("A notification to other processes was lost (%s).", type(error).__name__)
            return None
        return db

    def close(self) -> None:
        self._closed.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(5.0)  # a stalled server may block it; a hint is not worth waiting for
