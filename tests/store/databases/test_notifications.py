"""The connection that listens: what an operator reads while the server is away."""

from __future__ import annotations

import logging
from typing import Any

import psycopg
import pytest

from perdure.store.databases.postgres import notifications
from perdure.store.databases.postgres.notifications import Listener
from perdure.store.writer.wakeup import Wakeups
from perdure.testing.proxy import wait_until

AWAY = "postgresql://127.0.0.1:1/none"


@pytest.mark.databases("postgres")
def test_absence_of_the_server_is_logged_once_and_so_is_its_return(
    target: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifications, "RETRY", 0.01)
    attempts: list[str] = []
    address = AWAY

    def connect() -> psycopg.Connection[Any]:
        attempts.append(address)
        return psycopg.connect(address, autocommit=True)

    def said() -> list[str]:
        return [one.getMessage() for one in caplog.records if one.name == notifications.__name__]

    listener = Listener(lambda _wakeups, _payload: None, connect)
    with caplog.at_level(logging.INFO, notifications.__name__):
        listener.listen(Wakeups(), {"perdure_test": ["topic"]})
        try:
            wait_until(lambda: len(attempts) >= 5, "it has tried again several times")
            away = notifications.LOST % "OperationalError"
            assert said() == [away]
            address = target
            wait_until(lambda: len(said()) > 1, "the server is back")
            assert said() == [away, "PostgreSQL can be reached again."]
        finally:
            listener.close()
