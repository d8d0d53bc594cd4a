"""The notification protocol of systemd (`sd_notify`), in both directions.

A process sends lines such as `READY=1` as one datagram to the unix socket that `NOTIFY_SOCKET` names: to systemd, or to
a supervisor, which is the same to it. A supervisor receives them from its children; the kernel attests the process that
sent each one, so no other process can speak for a child.

A socket keeps few datagrams (ten, by the kernel's default). A manager that has no time to read them must not block a
worker, and must not miss what is sent once, so what found no place is sent again with the next sign of life.
"""

from __future__ import annotations

import os
import socket
import struct
import threading
from typing import NamedTuple

from perdure.clock import SECOND

SOCKET, WATCHDOG, WATCHDOG_PID = "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"
WORKER = "X_PERDURE_WORKER"  # the name under which a worker holds leases
CREDENTIALS = struct.Struct("3i")  # pid, uid, gid
LONGEST = 65_536
LONGEST_WAIT = 1.0  # seconds for a place in the socket of the manager


class ManagerNotifier:
    """Notifies the process manager that started this process. Without one, it does nothing."""

    def __init__(self, address: str | None, watchdog: float | None = None) -> None:
        self._address = address
        self.watchdog = watchdog  # seconds within which the process manager expects a sign of life
        self._unsent: dict[str, str | int] = {}
        self._lock = threading.Lock()

    def send(self, **lines: str | int) -> bool:
        """Send these lines, with those that could not be sent before. False: they are kept for the next time."""
        if not self._address:
            return True
        with self._lock:
            self._unsent |= lines
            is_sent = not self._unsent or self._is_sent(self._address)
            if is_sent:
                self._unsent = {}
            self._unsent.pop("WATCHDOG", None)  # a late sign of life would be wrong
            return is_sent

    def send_sign(self) -> bool:
        """Send a sign of life, if the manager expects any, and what could not be sent before."""
        return self.send(**({} if self.watchdog is None else {"WATCHDOG": 1}))

    def _is_sent(self, address: str) -> bool:
        name = f"\0{address[1:]}" if address.startswith("@") else address
        text = "\n".join(f"{name}={value}".replace("\n", " ") for name, value in self._unsent.items())
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.settimeout(LONGEST_WAIT)
                sender.sendto(text.encode(errors="replace"), name)
        except OSError:
            return False
        return True


def take_notifier() -> ManagerNotifier:
    """The notifier of this process. Its variables are removed, so that commands which it starts cannot use them."""
    address, silence = os.environ.pop(SOCKET, None), os.environ.pop(WATCHDOG, "")
    for_other = os.environ.pop(WATCHDOG_PID, None) not in (None, str(os.getpid()))
    watchdog = int(silence) / SECOND if silence.isdecimal() and int(silence) and not for_other else None
    return ManagerNotifier(address, watchdog)


class ProcessNotification(NamedTuple):
    """What a process sent."""

    pid: int
    lines: dict[str, str]


class NotificationReceiver:
    """The socket of a supervisor."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._socket.bind("")  # the kernel chooses a free abstract name
        self.address = "@" + self._socket.getsockname()[1:].decode()

    def fileno(self) -> int:
        return self._socket.fileno()

    def receive(self) -> ProcessNotification | None:
        """The next notification, or None. One that cannot be read is empty."""
        try:
            content, ancillary, _, _ = self._socket.recvmsg(LONGEST, socket.CMSG_SPACE(CREDENTIALS.size))
        except BlockingIOError:
            return None
        attested = [
            CREDENTIALS.unpack(data[: CREDENTIALS.size])[0]
            for level, kind, data in ancillary
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS)
        ]
        pairs = (line.partition("=") for line in content.decode(errors="replace").split("\n"))
        return ProcessNotification(attested[0] if attested else 0, {name: value for name, _, value in pairs})

    def close(self) -> None:
        self._socket.close()
