"""A service that has never answered is waited for less than one that has, and not in silence."""

from __future__ import annotations

import socket
from typing import Any

import httpx
import pytest

from perdure.client.address import read_address
from perdure.client.connection import RetryPauses, ServiceCall, ServiceConnection
from perdure.clock import SECOND
from perdure.errors import StoreUnavailable

LOST = StoreUnavailable("The service at http://127.0.0.1:1 cannot be reached: Connection refused.")


class Waited:
    """A connection whose clock moves with the pauses, without waiting."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **given: Any) -> None:
        self.connection = ServiceConnection(read_address("http://127.0.0.1:1"), None, **given)
        self.said: list[str] = []
        self.connection.notice = self.said.append
        self.now = 0
        monkeypatch.setattr(self.connection, "_boot", lambda: self.now)
        monkeypatch.setattr("perdure.client.connection.asyncio.sleep", self._sleep)

    async def _sleep(self, seconds: float) -> None:
        self.now += round(seconds * SECOND)

    async def until_given_up(self) -> float:
        """For how many seconds requests are sent again."""
        pauses, began = RetryPauses(self.connection), self.now
        try:
            while True:
                await pauses.pause(LOST)
        except StoreUnavailable:
            return (self.now - began) / SECOND


async def test_a_service_that_never_answered_is_given_up_sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    waited = Waited(monkeypatch)
    waited.connection.first_patience = 3.0
    assert 1 < await waited.until_given_up() <= 3
    (said,) = waited.said
    assert said.startswith(LOST.message)
    assert "Trying again for 3 s." in said


async def test_a_service_that_has_answered_keeps_the_whole_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    waited = Waited(monkeypatch)
    waited.connection.first_patience = 3.0
    waited.connection.has_answered = True
    assert 20 < await waited.until_given_up() <= 30
    assert waited.said == []  # a stream that comes back by itself is no news


async def test_the_notice_comes_within_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    waited = Waited(monkeypatch)
    pauses = RetryPauses(waited.connection)
    while not waited.said:
        await pauses.pause(LOST)
    assert waited.now < SECOND + 1


async def test_any_answer_counts_as_one() -> None:
    connection = ServiceConnection(read_address("http://127.0.0.1:1"), None)

    async def refuse(_: httpx.Request) -> httpx.Response:
        return httpx.Response(404, json={"code": "not-found", "detail": "There is none."})

    connection.http._transport = httpx.MockTransport(refuse)
    assert not connection.has_answered
    with pytest.raises(Exception, match="There is none"):
        await connection.ask(ServiceCall("GET", "/v1/self", {}))
    assert connection.has_answered
    await connection.close()


async def test_a_refused_connection_is_named_as_such() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    connection = ServiceConnection(read_address(f"http://127.0.0.1:{port}"), None, patience=0.0)
    with pytest.raises(StoreUnavailable, match=r"cannot be reached: Connection refused\."):
        await connection.ask(ServiceCall("GET", "/v1/self", {}))
    await connection.close()
