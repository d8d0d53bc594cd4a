"""Pages whose beginning is sent before the rest of them is read."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from jinja2 import DictLoader, Environment, StrictUndefined

from perdure.console.page_stream import PageStream
from perdure.domain.identity import acting_identity
from perdure.errors import NotFound
from perdure.store.store import Store
from tests.console.support.scene import console_payment
from tests.console.support.visit import Visit
from tests.store.support.sessions import raw

FRAME = (
    "<title>{{ name }}</title>{% block live %}{% endblock %}{{ end_of_beginning }}<main>{% block main %}{% endblock %}"
)
PAGE = "{% extends 'frame' %}{% block live %}{{ name }} lives{% endblock %}{% block main %}{{ found }}{% endblock %}"
TEMPLATES = Environment(
    loader=DictLoader({"frame": FRAME, "page": PAGE}), autoescape=True, undefined=StrictUndefined
)  # fmt: skip


class Answer:
    """What a response has sent."""

    def __init__(self, rest: Any) -> None:
        self.parts: list[str] = []
        self.started = asyncio.Event()
        self.has_begun = asyncio.Event()
        self.page = PageStream(
            TEMPLATES.get_template("page"), {"name": "<x>"}, rest, by="os:7",
            failure=lambda error: f"failed: {error.message}",
        )  # fmt: skip

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.body":
            self.parts.append(message["body"].decode())
            self.has_begun.set()

    async def make(self) -> None:
        await self.page({"state": {"request_id": "r"}}, None, self.send)  # type: ignore[arg-type]


async def test_the_beginning_is_sent_before_the_rest_is_read() -> None:
    release, identities = asyncio.Event(), list[str | None]()

    async def rest() -> dict[str, str]:
        identities.append(acting_identity())
        await release.wait()
        return {"found": "<y>"}

    answer = Answer(rest)
    making = asyncio.create_task(answer.make())
    await asyncio.wait_for(answer.has_begun.wait(), 60)
    assert answer.parts == ["<title>&lt;x&gt;</title>&lt;x&gt; lives"]
    release.set()
    await asyncio.wait_for(making, 60)
    assert answer.parts[1:] == ["<main>&lt;y&gt;"]
    assert identities == ["os:7"]


@pytest.mark.parametrize(
    ("error", "shown"),
    [(NotFound("It was removed."), "failed: It was removed."), (ValueError("secret"), "failed: The service failed.")],
)
async def test_what_fails_after_the_beginning_is_shown_in_the_page(error: Exception, shown: str) -> None:
    async def rest() -> dict[str, str]:
        raise error

    answer = Answer(rest)
    await answer.make()
    assert answer.parts[1:] == [shown]


def damage(store: Store) -> tuple[str, ...]:
    """Statements after which no event can be read, as anyone with access to the database could run them."""
    statement = "update event set body = '{'"
    if store.database.dialect == "postgres":
        return "set session_replication_role = replica", statement, "set session_replication_role = origin"
    return "drop trigger event_is_append_only", statement


@pytest.mark.databases("sqlite", "postgres")
async def test_a_damaged_timeline_is_an_error_within_its_page(visit: Visit) -> None:
    await visit.runtime.start(console_payment.bind(cents=3), id="pay", queue="mine")
    await visit.sign_in("grace")
    raw(visit.runtime.store, *damage(visit.runtime.store))
    answer = await visit.client.get("/sessions/pay")
    assert answer.status_code == 200
    assert "<title>pay – Perdure</title>" in answer.text
    assert "is not JSON" in answer.text
    assert answer.text.rstrip().endswith("</html>")


@pytest.mark.databases("sqlite", "postgres")
async def test_what_may_not_be_seen_is_refused_before_the_page_begins(visit: Visit) -> None:
    await visit.runtime.start(console_payment.bind(cents=3), id="theirs", queue="theirs")
    await visit.sign_in("grace")
    for name in ("theirs", "none"):
        answer = await visit.client.get(f"/sessions/{name}")
        assert (answer.status_code, '<ol class="timeline"' in answer.text) == (404, False)
