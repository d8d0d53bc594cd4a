"""The address of a service, and the token for it.

    https://host[:port][/path]    over TLS
    http://127.0.0.1:7180         only on this machine: a token would be readable on the way
    unix:/path/of/the/socket      on this machine; the kernel tells the service who asks

The token is given, or is in `PERDURE_TOKEN`, or in a file that only its user can read: `PERDURE_TOKEN_FILE`, or `token`
in the configuration folder of the user.
"""

from __future__ import annotations

import ipaddress
import os
import re
import stat
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from perdure.config import TOKEN, TOKEN_FILE, user_file
from perdure.errors import ConfigError

PRINTABLE = re.compile(r"[!-~]{1,1000}")
LARGEST = 4096
KINDS = "Give https://HOST, http://127.0.0.1:PORT or unix:PATH."


class Address(NamedTuple):
    """Where a service is: a base URL, and the path of the Unix socket if it is reached by one."""

    url: str
    socket: str | None = None

    @property
    def shown(self) -> str:
        return self.url if self.socket is None else f"unix:{self.socket}"


def read_address(text: str) -> Address:
    """The address of a service; refuses one to which a token should not be sent."""
    if text.startswith("unix:"):
        path = os.path.abspath(os.path.expanduser(text.removeprefix("unix:").removeprefix("//")))
        return Address("http://perdure", path)
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        parts, host, port = urlsplit(""), None, None
    if not host or parts.scheme not in ("http", "https") or (port is not None and port < 1):
        raise ConfigError(f"{_shown(text)} is not the address of a service.", hint=KINDS)
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise ConfigError(
            "The address of a service has no login, query or fragment.", hint="Give the token with PERDURE_TOKEN."
        )
    if parts.scheme == "http" and not is_loopback(host):
        raise ConfigError(
            f"{_shown(text)} has no TLS, so others could read the token.",
            hint="Use https://, or a service on loopback.",
        )
    return Address(text.rstrip("/"))


def is_loopback(host: str) -> bool:
    """Whether only this machine is reached by the host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def find_token(given: str | None, address: Address) -> str | None:
    """The token to use: the one that is given, that of the environment, or that of the file."""
    text = given if given is not None else os.environ.get(TOKEN)
    if text is None and address.socket is None:
        text = _from_file()
    if text is None:
        return None
    if PRINTABLE.fullmatch(text := text.strip()) is None:
        what = "The token" if given is not None else TOKEN if TOKEN in os.environ else "The token file"
        raise ConfigError(
            f"{what} is empty or has characters that no token has.",
            hint="An owner makes a token with `perdure token create NAME --scope '*'`.",
        )
    return text


def _from_file() -> str | None:
    """The token in the user's own file; refused if others could read or change it."""
    named = os.environ.get(TOKEN_FILE)
    path = Path(named).expanduser() if named else user_file().with_name("token")
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        if named or not isinstance(error, FileNotFoundError | NotADirectoryError):
            raise ConfigError(f"The token file {path} cannot be read: {error.strerror}.") from None
        return None
    with os.fdopen(descriptor, "rb") as file:
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode) or about.st_mode & 0o077 or about.st_uid not in (os.getuid(), 0):
            raise ConfigError(
                f"The token file {path} can be read or changed by others.", hint=f"Run `chmod 600 {path}`."
            )
        return file.read(LARGEST).decode("utf-8", "replace")


def _shown(text: str) -> str:
    return repr(re.sub(r"//[^/@]*@", "//", text)[:80])
