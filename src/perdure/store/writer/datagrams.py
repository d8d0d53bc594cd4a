"""Wake-ups between the processes that share a SQLite file: one Unix datagram socket for each listening process.

The sockets are in a folder beside the file. Beside each is an empty file whose name is a bitmap of the topics that the
process waits for, so one listing of the folder tells a committing process whom to send to; when the topics change, that
file is renamed. A datagram carries the topics of one commit, or nothing if there are too many: then all may have
changed.

    killed listener     its socket refuses: the sender that finds it so removes it
    full queue          the datagram is dropped. The listener notices that its queue was full, and wakes all its readers
    no bitmap           it is being renamed, or could not be written: the datagram is sent
    no rights, no disk  the listener or the sender does without, and readers poll slowly

Paths of sockets are limited to 108 bytes, so the folder is addressed by a descriptor.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import socket
import stat
import threading
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from perdure import process
from perdure.ids import new_uid
from perdure.store.writer.wakeup import Wakeups

logger = logging.getLogger(__name__)
BITS = 256
MOST = 300  # topics of a datagram
LARGEST = 60_000


class Datagrams:
    """The socket of this process, and the way to those of others. `path` is the database file."""

    def __init__(self, folder: Path, path: Path) -> None:
        self._folder = folder
        self._path = path
        self._id = new_uid()[-12:]
        self._lock = threading.Lock()
        self._place = -1  # a descriptor of the folder
        self._sender: socket.socket | None = None
        self._receiver: socket.socket | None = None
        self._marker = ""  # the name of the file that shows the topics
        self._topics: frozenset[str] = frozenset()
        self._thread: threading.Thread | None = None
        self._refused: set[str] = set()  # sockets of dead processes that may not be removed
        self._closed = False

    def listen(self, wakeups: Wakeups, topics: Collection[str]) -> None:
        """Show the topics. The first call makes the socket."""
        new = frozenset(topics) - self._topics
        self._topics = frozenset(topics)
        try:
            with self._lock:
                if self._closed:
                    return
                if self._receiver is None:
                    self._bind()
                self._show(f"{self._id}.{bitmap(topics):0{BITS // 4}x}")
                if self._thread is None:
                    self._thread = threading.Thread(
                        target=self._receive, args=(wakeups,), name="perdure-wakeup", daemon=True
                    )
                    self._thread.start()
        except OSError as error:
            logger.info("Changes by other processes are noticed by polling only: %s.", error.strerror or error)
        wakeups.bump(new)

    def _bind(self) -> None:
        self._open()
        with process.no_fork():
            receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            process.leave_to_parent(receiver.fileno())
        try:
            receiver.bind(self._address(self._id))
            self._share()
        except BaseException:
            receiver.close()
            raise
        self._receiver = receiver

    def _show(self, marker: str) -> None:
        if not self._marker:
            os.close(os.open(marker, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600, dir_fd=self._place))
        elif marker != self._marker:
            os.rename(self._marker, marker, src_dir_fd=self._place, dst_dir_fd=self._place)
        self._marker = marker

    def _share(self) -> None:
        """Let those write to the socket who can write to the database."""
        with suppress(OSError):
            there = self._path.stat()
            place = self._address(self._id)
            with suppress(PermissionError):
                os.chown(place, -1, there.st_gid)
            os.chmod(place, stat.S_IMODE(there.st_mode) & 0o666)

    def _open(self) -> None:
        """Open the folder, which has the permissions of the folder that it is in."""
        if self._place >= 0:
            return
        if not self._folder.exists():
            mode = stat.S_IMODE(self._folder.parent.stat().st_mode)
            with suppress(FileExistsError):
                self._folder.mkdir()
                self._folder.chmod(mode)
        self._place = process.open_for_parent(self._folder, os.O_RDONLY | os.O_DIRECTORY)

    def _address(self, name: str) -> str:
        return f"/proc/self/fd/{self._place}/{name}"

    def _receive(self, wakeups: Wakeups) -> None:
        """Bump what arrives. As many datagrams in a row as the queue holds mean that others may have been dropped."""
        receiver = self._receiver
        assert receiver is not None
        longest = queue_length()
        while not self._closed:
            topics: set[str] | None = set()
            received, flags = 0, 0
            while not self._closed:
                try:
                    content = receiver.recv(LARGEST, flags)
                except BlockingIOError:
                    break
                except OSError as error:
                    if not self._closed:
                        logger.warning("Changes by other processes are noticed by polling only: %s.", error.strerror)
                    return
                received, flags = received + 1, socket.MSG_DONTWAIT
                topics = None if topics is None or not content else topics | set(content.decode().split("\n"))
                if received >= longest:
                    topics = None
                if received % longest == 0:  # it may never be empty
                    wakeups.bump(topics)
            wakeups.bump(topics)

    def send(self, topics: Collection[str]) -> None:
        try:
            with self._lock:
                self._send(topics)
        except Exception as error:  # a lost hint: readers also poll slowly
            logger.info("Other processes could not be woken (%s).", type(error).__name__)

    def _send(self, topics: Collection[str]) -> None:
        if self._closed or not topics:
            return
        if self._place < 0:
            if not self._folder.exists():
                return
            self._open()
        wanted = bitmap(topics)
        content = "\n".join(topics).encode() if len(topics) <= MOST else b""
        content = content if len(content) <= LARGEST else b""
        names = os.listdir(self._place)
        markers = [name.partition(".") for name in names if "." in name]
        shown = {id: bits for id, _, bits in markers if len(bits) == BITS // 4}
        for id in names:
            if "." in id or id == self._id or id in self._refused:
                continue
            if id not in shown or int(shown[id], 16) & wanted:
                self._send_to(id, shown.get(id), content)

    def _send_to(self, id: str, bits: str | None, content: bytes) -> None:
        for _ in range(2):
            try:
                if self._sender is None:
                    with process.no_fork():
                        self._sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
                        process.leave_to_parent(self._sender.fileno())
                    self._sender.setblocking(False)
                self._sender.sendto(content, self._address(id))
            except BlockingIOError:  # its queue is full, or ours is, of datagrams for processes that do not read them
                assert self._sender is not None
                self._sender.close()
                self._sender = None
                continue
            except FileNotFoundError:  # it has ended
                return
            except ConnectionRefusedError:
                self._remove(id, bits)
            except OSError as error:
                if error.errno not in (errno.EPERM, errno.EACCES, errno.ENOBUFS, errno.EPROTOTYPE):
                    raise
            return

    def _remove(self, id: str, bits: str | None) -> None:
        """Remove the files of a process that is dead; the socket last, so that none of them is left without it."""
        for name in ([] if bits is None else [f"{id}.{bits}"]) + [id]:
            try:
                os.unlink(name, dir_fd=self._place)
            except FileNotFoundError:
                continue
            except OSError:
                self._refused.add(id)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            if self._receiver is not None:
                for name in (self._marker, self._id):
                    with suppress(OSError):
                        os.unlink(name, dir_fd=self._place)
                with suppress(OSError):
                    self._receiver.shutdown(socket.SHUT_RDWR)
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(5.0)
        with self._lock:
            for one in (self._receiver, self._sender):
                if one is not None:
                    one.close()
            if self._place >= 0:
                os.close(self._place)
            self._receiver = self._sender = None
            self._place = -1


def bitmap(topics: Collection[str]) -> int:
    """A number with a bit for each topic; several topics may share a bit."""
    bits = 0
    for topic in topics:
        bits |= 1 << int.from_bytes(hashlib.blake2b(topic.encode(), digest_size=2).digest()) % BITS
    return bits


def queue_length() -> int:
    """How many datagrams wait at a socket before more are dropped."""
    try:
        return max(1, int(Path("/proc/sys/net/unix/max_dgram_qlen").read_text()))
    except (OSError, ValueError):
        return 1
