"""Requests to a service, safe against lost connections.

A GET is sent again after a lost connection. So is a POST: it carries an `Idempotency-Key`, minted once for each call,
with which the service carries it out once, however often it is sent, and gives the same answer. A request that is
refused is not sent again, unless the service says that a repetition can help (429, 503) or that the same request is
still being carried out.

A service that has never answered may not be there at all, so `first_patience` may be shorter than the patience with
one that has, and `notice` is told that it is waited for.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import PurePath
from typing import Any, NamedTuple, TypeVar

import httpx
import msgspec

from perdure.client.address import Address
from perdure.client.problems import error_of
from perdure.clock import SECOND, SystemClock
from perdure.domain.token import token_id
from perdure.errors import ConfigError, PerdureError, StoreUnavailable
from perdure.ids import new_uid

T = TypeVar("T")
logger = logging.getLogger(__name__)
KEY = "Idempotency-Key"
IN_FLIGHT = "request-in-flight"
CONNECT, ANSWER = 10.0, 75.0  # seconds; the service answers within 60
PAGE = "500"
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0
NOTICED = 0.2  # seconds of a pause before which it is said that the service is waited for
PLAIN = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE")  # what OpenSSL says of an answer without TLS
NO_TLS = "The service has no TLS there: use http://."
PATIENCE = 30.0  # seconds for which a request is sent again


class ServiceCall(NamedTuple):
    """One request. `content` is JSON or the bytes of a file."""

    method: str
    path: str
    query: dict[str, str]
    content: bytes | None = None
    media: str = "application/json"


def encode_body(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value, enc_hook=_plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"This cannot be sent as JSON: {error}.") from None


def _plain(value: Any) -> Any:
    if isinstance(value, PurePath):
        return str(value)
    raise TypeError(f"a {type(value).__name__} is no JSON")


class ListPage(msgspec.Struct, frozen=True):
    """A page of a list; `next` is where the next one begins."""

    items: list[msgspec.Raw]
    next: str | None = None


class ServiceConnection:
    """Sends requests to one service. Used by one event loop."""

    def __init__(
        self, address: Address, token: str | None, *, ca: str | None = None, patience: float = PATIENCE
    ) -> None:
        self.address = address
        self.patience = self.first_patience = patience
        self.notice: Callable[[str], None] = logger.info
        self.has_answered = False
        self._token = token
        self._ca = ca
        self._http: httpx.AsyncClient | None = None
        self._boot = SystemClock().boot

    @property
    def http(self) -> httpx.AsyncClient:
        """The HTTP client, made when it is first used: it belongs to the event loop of that moment."""
        if self._http is None:
            headers = {"User-Agent": "perdure", "Accept": "application/json"}
            if self._token is not None:
                headers["Authorization"] = f"Bearer {self._token}"
            socket, is_local = self.address.socket, self.address.url.startswith("http://")
            self._http = httpx.AsyncClient(
                base_url=self.address.url, headers=headers,
                timeout=httpx.Timeout(ANSWER, connect=self._connect_time, pool=None),
                transport=None if socket is None else httpx.AsyncHTTPTransport(uds=socket),
                verify=True if self._ca is None else _trusting(self._ca),
                trust_env=not is_local,  # a proxy of the environment is for other machines
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=20),
                event_hooks={"response": [self._answered]},
            )  # fmt: skip
        return self._http

    @property
    def _connect_time(self) -> float:
        return CONNECT if self.first_patience >= self.patience else min(CONNECT, self.first_patience)

    async def _answered(self, _: httpx.Response) -> None:
        self.has_answered = True

    async def close(self) -> None:
        if self._http is not None:
            await self._http.aclose()
            self._http = None

    async def ask(self, call: ServiceCall) -> httpx.Response:
        """The answer to a request; raises the error that the service tells of."""
        headers = {"Content-Type": call.media} if call.content is not None else {}
        if call.method == "POST":
            headers[KEY] = new_uid()
        retries = RetryPauses(self)
        while True:
            try:
                answer = await self.http.request(
                    call.method, call.path, params=call.query, content=call.content, headers=headers
                )
            except httpx.TransportError as lost:
                await retries.pause(self.lost(lost))
                continue
            if answer.is_success:
                return answer
            error = error_of(answer.status_code, answer.content)
            if not can_be_sent_again(error, answer.status_code):
                raise error
            await retries.pause(error, answer.headers.get("retry-after"))

    async def post(self, path: str, body: dict[str, Any], kind: Any) -> Any:
        """Send a body to an operation that is no verb of the table; its answer, or None without a kind."""
        answer = await self.ask(ServiceCall("POST", path, {}, encode_body(body)))
        return None if kind is None else msgspec.json.decode(answer.content, type=kind)

    @property
    def token_id(self) -> str | None:
        """The id of the token that is presented."""
        return None if self._token is None else token_id(self._token)

    async def read(self, path: str, kind: type[T], query: dict[str, str] | None = None) -> T:
        """An object that is no answer to a verb of the runtime."""
        answer = await self.ask(ServiceCall("GET", path, dict(query or {})))
        return msgspec.json.decode(answer.content, type=kind)

    async def listing(self, path: str, kind: type[T], query: dict[str, str] | None = None) -> AsyncIterator[T]:
        """The items of a list, read page by page."""
        call = ServiceCall("GET", path, dict(query or {}) | {"limit": PAGE})
        while True:
            page = msgspec.json.decode((await self.ask(call)).content, type=ListPage)
            for one in page.items:
                yield msgspec.json.decode(one, type=kind)
            if page.next is None:
                return
            call.query["after"] = page.next

    @asynccontextmanager
    async def stream(self, call: ServiceCall, headers: dict[str, str], silence: float) -> AsyncIterator[httpx.Response]:
        """An answer that is read while it comes. It ends with an error after `silence` seconds without a byte."""
        timeout = httpx.Timeout(silence, connect=self._connect_time, pool=None)
        try:
            async with self.http.stream(
                call.method, call.path, params=call.query, content=call.content, headers=headers, timeout=timeout
            ) as answer:
                if not answer.is_success:
                    raise error_of(answer.status_code, await answer.aread())
                yield answer
        except httpx.TransportError as lost:
            raise self.lost(lost) from None

    def lost(self, error: httpx.TransportError) -> StoreUnavailable:
        why = reason(error)
        return StoreUnavailable(
            f"The service at {self.address.shown} cannot be reached: {why}.",
            hint=NO_TLS if any(one in why for one in PLAIN) else "Check that `perdure serve` runs there.",
        )

    def boot(self) -> int:
        return self._boot()


def reason(error: BaseException) -> str:
    """Why there was no answer: what the system said about the connection, if it said something."""
    inner: BaseException | None = error
    while inner is not None:
        if isinstance(inner, ConnectionError | FileNotFoundError | PermissionError) and inner.errno:
            return os.strerror(inner.errno)
        inner = inner.__cause__ or inner.__context__
    return str(error) or type(error).__name__


class RetryPauses:
    """The pauses between attempts, until the patience since the first failure ends."""

    def __init__(self, connection: ServiceConnection) -> None:
        self._connection = connection
        self.reset()

    def reset(self) -> None:
        """An attempt has succeeded: the next failure is a first one."""
        self._since: int | None = None
        self._pause = FIRST_PAUSE
        self._is_noticed = False

    async def pause(self, error: PerdureError, after: str | None = None) -> None:
        """Wait before the next attempt; raises the error if there is none."""
        one = self._connection
        now, patience = one.boot(), one.patience if one.has_answered else one.first_patience
        self._since = now if self._since is None else self._since
        asked = float(after) if after is not None and after.isdecimal() else 0.0
        seconds = max(self._pause, min(asked, patience))
        until = self._since + round(patience * SECOND)
        if now + round(seconds * SECOND) > until:
            raise error
        if not (self._is_noticed or one.has_answered) and seconds >= NOTICED:
            self._is_noticed = True
            one.notice(f"{error.message} Trying again for {(until - now) / SECOND:.0f} s.")
        self._pause = min(self._pause * 2, LONGEST_PAUSE)
        await asyncio.sleep(seconds)


def can_be_sent_again(error: PerdureError, status: int) -> bool:
    return error.code == IN_FLIGHT or (status in (429, 502, 503, 504) and error.retry)


def _trusting(ca: str) -> Any:
    import ssl

    return ssl.create_default_context(cafile=ca)
