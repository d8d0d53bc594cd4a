"""The guard of a process under test: an audit hook that Python calls before each connection and each command.

    connect   to another machine is refused, unless its host was allowed; so is a command that names such a host
    moment    a connection or a command of the user's code is a kill point, which names the place in that code

A kill point lies before the connection, so that a second effect in one tool is separated from the first. The guard sees
what Python does. Connections of a C library or of a command that hides its target are not seen, which the report says.
"""

from __future__ import annotations

import ipaddress
import re
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import perdure
from perdure import faults
from perdure.errors import PerdureError

MOMENT = "outside"
COMMANDS = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn")
NAMED_HOST = re.compile(r"\b[a-z][a-z0-9+.-]*://(?:[^/@\s]*@)?(\[[0-9a-fA-F:.]+\]|[^/:\s'\"]+)|\b[\w.-]+@([\w.-]+):")
LOCAL_NAMES = ("", "localhost", "localhost.localdomain", "ip6-localhost")
OWN = str(Path(perdure.__file__).parent)


class TargetRefused(PerdureError):
    """A process under test tried to reach another machine."""


def refusal(host: str) -> TargetRefused:
    """The error for a host that is not on this machine and was not allowed."""
    return TargetRefused(
        f"It connects to {host}, which is not on this machine; allow it with --allow {host}.",
        hint="Give it a sink or a stand-in on this machine, or allow the host.",
    )


class Guard:
    """The audit hook of one process. `owners` names the user's functions; without any, no kill point is reported."""

    def __init__(self, allowed: list[str]) -> None:
        self.allowed = set(allowed)
        self.owners: dict[CodeType, str] = {}
        self.packages: tuple[str, ...] = ()
        self.refused: list[str] = []
        self._addresses: set[str] = set()
        self._busy = threading.local()

    def install(self) -> None:
        """From now on, until this process ends."""
        sys.addaudithook(self.hear)

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Called by Python before what `event` names."""
        if event not in HEARD or getattr(self._busy, "yes", False):
            return
        self._busy.yes = True  # what the guard does itself is not guarded
        try:
            HEARD[event](self, event, arguments)
        finally:
            self._busy.yes = False

    def resolve(self, _: str, arguments: tuple[Any, ...]) -> None:
        """A name is about to be looked up."""
        self._check(_text(arguments[0]))

    def connect(self, _: str, arguments: tuple[Any, ...]) -> None:
        """A connection is about to be made, or a datagram sent."""
        address = arguments[1]
        if not isinstance(address, tuple):  # a socket of this machine
            return
        self._check(_text(address[0]))
        self._report("connection")

    def command(self, _: str, arguments: tuple[Any, ...]) -> None:
        """A command is about to be started."""
        for found in NAMED_HOST.finditer(" ".join(_words(arguments[:2]))):
            self._check((found.group(1) or found.group(2)).strip("[]"))
        self._report("command")

    def _check(self, host: str) -> None:
        if is_local(host) or host in self.allowed or self._is_allowed_address(host):
            return
        self.refused.append(host)
        raise refusal(host)

    def _is_allowed_address(self, host: str) -> bool:
        if not _is_address(host):
            return False
        if host not in self._addresses:
            for name in self.allowed:
                try:
                    self._addresses |= {str(one[4][0]) for one in socket.getaddrinfo(name, None)}
                except OSError:
                    continue
        return host in self._addresses

    def _report(self, what: str) -> None:
        place = self._place(sys._getframe(1)) if self.owners else None
        if place is not None:
            faults.point(f"{MOMENT} {what} of {place}")

    def _place(self, frame: FrameType | None) -> str | None:
        """The user's function that does it, with the line; None if Perdure does it."""
        line, owner = "", None
        while frame is not None:
            module = frame.f_globals.get("__name__", "")
            if owner is None and self.is_users(module) and not frame.f_code.co_filename.startswith(OWN):
                line = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"  # the outermost one counts
            owner = owner or self.owners.get(frame.f_code)
            frame = frame.f_back
        if owner is None and not line:
            return None
        if owner is None:
            in_step = threading.current_thread().name.startswith("perdure-act")
            owner = "a step" if in_step else "plain code"
        return f"{owner} ({line})"

    def is_users(self, module: str) -> bool:
        return any(module == one or module.startswith(f"{one}.") for one in self.packages)


HEARD: dict[str, Callable[[Guard, str, tuple[Any, ...]], None]] = {
    "socket.getaddrinfo": Guard.resolve,
    "socket.connect": Guard.connect,
    "socket.sendto": Guard.connect,
    **dict.fromkeys(COMMANDS, Guard.command),
}


def is_local(host: str) -> bool:
    """Whether a host is this machine."""
    if host.lower() in LOCAL_NAMES:
        return True
    if not _is_address(host):
        return False
    address = ipaddress.ip_address(host.partition("%")[0])
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def hosts_in(text: str) -> list[str]:
    """The hosts that the addresses in a text name."""
    found = [one.group(1) or one.group(2) for one in NAMED_HOST.finditer(text)]
    return [one.strip("[]") for one in found]


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value or "")


def _words(value: Any) -> list[str]:
    if isinstance(value, (list, tuple)):
        return [word for one in value for word in _words(one)]
    return [_text(value)]
