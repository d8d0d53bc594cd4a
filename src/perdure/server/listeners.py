"""Where the service listens: a Unix socket, and a port of loopback unless another host is named.

The supervisor opens the sockets and hands them to the process `http`. While that process is started again, clients wait
in the queue of the socket, and the addresses stay the same.

Nothing listens beyond loopback before a token exists, and without TLS or a proxy that has it.
"""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from perdure.errors import ConfigError

LOOPBACK = "127.0.0.1"
PORT = 7180
BACKLOG = 1024
LONGEST_PATH = 107  # bytes of the path of a Unix socket


class ListenOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line says about where to listen."""

    host: str | None = None
    port: int | None = None  # 0: a free one
    socket: str | None = None
    certificate: str | None = None
    key: str | None = None
    behind_proxy: bool = False


class Listeners:
    """The open sockets of a service."""

    def __init__(
        self, tcp: list[socket.socket], unix: socket.socket | None, path: Path | None, tls: bool, notes: list[str]
    ) -> None:
        self.tcp = tcp
        self.unix = unix
        self.notes = notes  # how it differs from what the documentation says
        self._path = path
        self._scheme = "https" if tls else "http"

    @property
    def addresses(self) -> list[str]:
        """Where it can be reached, as addresses that clients accept."""
        found = [f"{self._scheme}://{_shown(one)}" for one in self.tcp]
        return found if self._path is None else [*found, f"unix:{self._path}"]

    @property
    def descriptors(self) -> tuple[int, ...]:
        return tuple(one.fileno() for one in (*self.tcp, *filter(None, [self.unix])))

    def close(self) -> None:
        for one in (*self.tcp, *filter(None, [self.unix])):
            one.close()
        if self._path is not None:
            with suppress(OSError):
                self._path.unlink()


def open_listeners(options: ListenOptions, default_path: Path, *, has_tokens: bool) -> Listeners:
    """Open the sockets, or refuse."""
    check(options, has_tokens=has_tokens)
    tcp = _open_ports(options)
    try:
        unix, path = _open_unix(options, default_path)
    except BaseException:
        for one in tcp:
            one.close()
        raise
    return Listeners(
        tcp, unix, path, options.certificate is not None, [*_differences(options, tcp, unix, default_path)]
    )


def _differences(
    options: ListenOptions, tcp: list[socket.socket], unix: socket.socket | None, default_path: Path
) -> Iterator[str]:
    """One sentence for each usual address that this service does not have."""
    if options.port is None and (port := tcp[0].getsockname()[1]) != PORT:
        yield f"Port {PORT} belongs to another process, so this service has port {port}."
    if unix is None and _is_too_long(default_path):
        yield f"This service has no Unix socket: {default_path} is longer than {LONGEST_PATH} bytes."
    elif unix is None:
        yield "Another service of this store has the Unix socket; this one has none."


def check(options: ListenOptions, *, has_tokens: bool) -> None:
    """Refuse to listen where others could read or act without being asked who they are."""
    if (options.certificate is None) != (options.key is None):
        raise ConfigError("TLS needs both a certificate and its key.", hint="Give --tls-cert and --tls-key.")
    for path in filter(None, (options.certificate, options.key)):
        if not os.access(path, os.R_OK):
            raise ConfigError(f"{path} cannot be read.")
    if is_loopback(options.host or LOOPBACK):
        return
    if not has_tokens:
        raise ConfigError(
            f"The service does not listen on {options.host} before there is a token.",
            hint="Add a principal with `perdure principals add`, and create a token with `perdure token create`.",
        )
    if options.certificate is None and not options.behind_proxy:
        raise ConfigError(
            f"The service does not listen on {options.host} without TLS: tokens could be read on the way.",
            hint="Give --tls-cert and --tls-key, or --behind-proxy if a proxy in front of it has TLS.",
        )


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the host: an address of loopback, or `localhost`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _open_ports(options: ListenOptions) -> list[socket.socket]:
    host = options.host or LOOPBACK
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise ConfigError(f"There is no host {host!r:.80}: {error.strerror}.") from None
    opened: list[socket.socket] = []
    port = PORT if options.port is None else options.port
    for family, _, _, _, address in sorted(set(found), key=lambda one: one[0]):
        try:
            opened.append(_open_port(family, str(address[0]), port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE and options.port is None:  # the port was not asked for
                opened.append(_open_port(family, str(address[0]), 0))
                continue
            if error.errno in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL) and (opened or len(found) > 1):
                continue
            for one in opened:
                one.close()
            raise ConfigError(
                f"The service cannot listen on {host}, port {port}: {error.strerror}.", hint="Choose another --port."
            ) from None
        port = opened[0].getsockname()[1]  # the same for each address of the host
    if not opened:
        raise ConfigError(f"The service cannot listen on {host!r:.80}: it is not an address of this machine.")
    return opened


def _open_port(family: int, address: str, port: int) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind((address, port))
        made.listen(BACKLOG)
    except BaseException:
        made.close()
        raise
    return made


def _open_unix(options: ListenOptions, default: Path) -> tuple[socket.socket | None, Path | None]:
    """The Unix socket. The default one is left out if its path is too long, or another service listens there."""
    path = default if options.socket is None else Path(options.socket).expanduser().absolute()
    if _is_too_long(path):
        if options.socket is None:
            return None, None
        raise ConfigError(f"The path of a Unix socket has at most {LONGEST_PATH} bytes.", hint="Choose another one.")
    try:
        if _is_served(path):
            if options.socket is None:
                return None, None
            raise ConfigError(f"Another process listens on {path}.", hint="Choose another --socket.")
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            made.bind(str(path))
            path.chmod(0o666)  # any user may ask: who asks is told by the kernel
            made.listen(BACKLOG)
        except BaseException:
            made.close()
            raise
    except OSError as error:
        raise ConfigError(f"The service cannot listen on {path}: {error.strerror}.") from None
    return made, path


def _is_too_long(path: Path) -> bool:
    return len(os.fsencode(path)) > LONGEST_PATH


def _is_served(path: Path) -> bool:
    """Whether a process listens on a Unix socket. What a dead process left is removed; other files are not."""
    if not path.is_socket():
        if path.exists() or path.is_symlink():
            raise OSError(errno.EEXIST, "there is a file that is no socket")
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(5.0)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
            return False
        except FileNotFoundError:
            return False
        except (TimeoutError, BlockingIOError):
            return True  # its queue is full
    return True


def _shown(one: socket.socket) -> str:
    host, port = one.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
