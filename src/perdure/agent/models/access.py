"""Access to a provider: its package, its key and its address, checked before anything is sent."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from importlib.util import find_spec
from typing import Any, TypeVar
from urllib.parse import urlsplit

from perdure.errors import ConfigError
from perdure.secrets import redaction

T = TypeVar("T")
LARGEST_ERROR = 1 << 20  # bytes of an error response that are read
NO_KEY = "none"  # for servers that require a key and ignore it


class Access:
    """The address of a provider and the key it is sent. `variable` is the environment variable of the key."""

    def __init__(self, package: str, variable: str, base_url: str | None, address: str) -> None:
        self.package = package
        self.variable = variable
        self.base_url = base_url or os.environ.get(address) or None
        check_address(self.base_url)
        if find_spec(package) is None:
            raise self.missing()
        self.key = os.environ.get(variable, "").strip() or (NO_KEY if self.base_url else "")
        if not self.key:
            raise ConfigError(f"There is no key for {package}.", hint=f"Set {variable} in the environment.")
        if self.key != NO_KEY:
            redaction.add(f"env:{variable}", self.key)
        if not self.key.isascii():
            raise ConfigError(f"{variable} is not a valid key: it contains characters that are not ASCII.")

    def missing(self) -> ConfigError:
        return ConfigError(
            f"Models of {self.package} need a package that is not installed.",
            hint=f"Run `pip install 'perdure[{self.package}]'`.",
        )

    def http_client(self, sdk: Any) -> Any:
        """The package's own HTTP client, with a bound on what it reads from a server."""
        headers = {"Accept-Encoding": "identity"}
        return sdk.DefaultAsyncHttpxClient(headers=headers, event_hooks={"response": [_bound]})

    async def load(self, load: Callable[[], T]) -> T:
        """Load the provider's package in a thread: it takes half a second, and leases must be renewed meanwhile."""
        try:
            return await asyncio.to_thread(load)
        except ImportError:
            raise self.missing() from None


async def _bound(response: Any) -> None:
    """Bound a response before it is read.

    A package reads an error response completely and decompresses it: a few compressed bytes could fill the memory. We
    do not ask for compression, so nothing is decompressed, and an error response is cut at a limit.
    """
    response.headers.pop("content-encoding", None)
    if response.is_success:
        return
    base = sys.modules[type(response).__module__.partition(".")[0]].AsyncByteStream
    whole = response.stream

    class BoundedStream(base):  # type: ignore[misc, valid-type]
        async def __aiter__(self) -> AsyncIterator[bytes]:
            left = LARGEST_ERROR
            async for chunk in whole:
                yield chunk[:left]
                left -= len(chunk)
                if left <= 0:
                    return

        async def aclose(self) -> None:
            await whole.aclose()

    response.stream = BoundedStream()


def check_address(base_url: str | None) -> None:
    try:
        parts = urlsplit(base_url or "http://localhost")
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
        secret = "@" in parts.netloc
    except ValueError:
        good = secret = False
    if secret:
        raise ConfigError(
            "The address of a model must not contain a password: it is stored with the session and shown.",
            hint="Set the key in the environment instead.",
        )
    if not good:
        raise ConfigError(
            f"{base_url!r} is not a valid address of a model server.", hint="Use one such as http://localhost:8080/v1."
        )
