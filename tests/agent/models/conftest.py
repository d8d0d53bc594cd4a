"""Model servers: `provider` runs a test against llmock in each wire format, `raw` sends exact bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from llmock.pytest_plugin import LLMock
from llmock.scenarios import Reply, ToolCall
from llmock.testing import LLMockServer

from perdure.agent.model import Model
from perdure.agent.models.anthropic import Anthropic
from perdure.agent.models.openai import OpenAI
from tests.agent.support.raw_server import RawServer

FORMATS: dict[str, tuple[type[Anthropic | OpenAI], str]] = {
    "anthropic": (Anthropic, "claude-sonnet-5"),
    "openai": (OpenAI, "gpt-4.1"),
}


class Provider:
    """One provider's format: llmock as the server, and a model of ours that asks it."""

    def __init__(self, format: str, mock: LLMock) -> None:
        self.format = format
        self.mock = mock

    def model(self, name: str | None = None, *, base_url: str | None = None, **given: Any) -> Model:
        kind, usual = FORMATS[self.format]
        return kind(name or usual, base_url=base_url or self.mock.base_url(self.format), **given)

    def says(self, text: str | None = None, *calls: tuple[str, dict[str, Any]], finish: str | None = None) -> None:
        called = tuple(ToolCall(name, arguments) for name, arguments in calls)
        self.mock.add(Reply(text=text, tool_calls=called, finish_reason=finish))

    @property
    def sent(self) -> list[dict[str, Any]]:
        """The bodies of the requests that reached the server."""
        return [record.body for record in self.mock.requests]


@pytest.fixture(scope="session")
def model_server() -> Iterator[LLMockServer]:
    with LLMockServer() as server:
        yield server


@pytest.fixture(params=sorted(FORMATS))
def provider(request: pytest.FixtureRequest, model_server: LLMockServer) -> Provider:
    return Provider(request.param, LLMock(model_server).reset())


@pytest.fixture
def raw() -> Iterator[RawServer]:
    with RawServer() as server:
        yield server


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
