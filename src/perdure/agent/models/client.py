"""What the clients of all providers share: one request, one stream of events, one reply."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import Any

from perdure.agent.model import OnText, PartialReply, Reply, Request, Usage
from perdure.agent.models.access import Access
from perdure.agent.models.failures import from_sdk
from perdure.agent.models.prices import price_of
from perdure.agent.models.stream import Answer, Stop, cut_off, read_events
from perdure.agent.models.text import clean
from perdure.agent.models.turns import offers_of, wire_names
from perdure.errors import ModelError


class ModelClient(ABC):
    """A model that is reached through its provider's own package, which is imported at the first request."""

    def __init__(self, model: str, access: Access, timeout: float) -> None:
        self.model = model
        self._access = access
        self._timeout = timeout  # seconds without a byte

    @property
    def name(self) -> str:
        return f"{self._access.package}:{self.model}"

    async def reply(self, request: Request, on_text: OnText) -> Reply:
        """Send one request. A finished answer is complete, even if the connection breaks after it."""
        payload, names = self._payload(request), wire_names(offers_of(request))
        sdk, client = await self._access.load(self._load)
        reader = self._reader(on_text)
        try:
            async with client, self._stream(client, payload) as response:
                await read_events(response, self.name, reader.take)
        except self._error(sdk) as error:
            raise from_sdk(sdk, self.name, self._access.variable, error) from error
        except ModelError:
            if not reader.finished:
                raise
        except asyncio.CancelledError:
            if isinstance(on_text, PartialReply):
                on_text.usage = reader.usage(self.model)
            raise
        return reader.reply(request, names, self.model)

    def _load(self) -> tuple[Any, Any]:
        sdk = self._import()
        return sdk, self._client(sdk)(
            api_key=self._access.key,
            base_url=self._access.base_url,
            default_headers=self._headers(),
            max_retries=0,
            http_client=self._access.http_client(sdk),
            timeout=sdk.Timeout(self._timeout, connect=min(10.0, self._timeout)),
        )

    def _headers(self) -> dict[str, str] | None:
        return None

    @abstractmethod
    def _import(self) -> Any:
        """Import the package. It is large, so it is imported by the first request."""

    @abstractmethod
    def _client(self, sdk: Any) -> Any:
        """The client class of the package."""

    @abstractmethod
    def _error(self, sdk: Any) -> type[Exception]:
        """The base class of the package's errors."""

    @abstractmethod
    def _payload(self, request: Request) -> dict[str, Any]:
        """The request as it is sent."""

    @abstractmethod
    def _stream(self, client: Any, payload: dict[str, Any]) -> Any:
        """The streaming response to a request, as a context manager."""

    @abstractmethod
    def _reader(self, on_text: OnText) -> StreamReader:
        """A reader for the events of one response."""


class StreamReader(ABC):
    """Builds a reply from the events of a stream."""

    def __init__(self, who: str, on_text: OnText) -> None:
        self._who = who
        self._answer = Answer(on_text)
        self._usage: dict[str, Any] = {}
        self._stop: Stop = "end"
        self._model = ""
        self.finished = False

    @abstractmethod
    def take(self, _name: str, event: dict[str, Any]) -> bool:
        """Take one event; returns true when no more are needed."""

    @abstractmethod
    def _price(self, model: str) -> Usage:
        """The usage of the answer, with its cost at the prices of this model."""

    def usage(self, model: str) -> Usage:
        """The usage as far as it is known."""
        return self._price(model if price_of(model) else self._model)

    def reply(self, request: Request, names: dict[str, str], model: str) -> Reply:
        if not self.finished and not self._answer.cut:
            raise cut_off(self._who)
        usage = self.usage(model)
        return self._answer.reply(request, self._stop, names, usage, clean(self._model)[:200] or model)
