"""A request that changes a session is reported in the trace of the session, with a link to the caller's span."""

from __future__ import annotations

import httpx
import pytest

import perdure
from perdure import Session, program
from perdure.domain.principal import Role
from perdure.runtime.telemetry import hook
from perdure.runtime.telemetry.trace_ids import trace_id
from perdure.server.application import make_application
from tests.runtime.support.telemetry import Seen, attributes
from tests.server.support.tokens import a_token

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@program
async def traceparent_asks(s: Session) -> object:
    return await s.ask("Now?")


@pytest.mark.databases("sqlite")
async def test_a_request_links_to_the_span_of_its_client(target: str) -> None:
    seen = Seen()
    try:
        async with perdure.open(target) as runtime:
            app = make_application(runtime)
            headers = {"Authorization": f"Bearer {await a_token(runtime, Role.OWNER)}"}
            given = headers | {"traceparent": f"00-{TRACE}-{SPAN}-01"}
            async with httpx.AsyncClient(
                transport=httpx.ASGITransport(app), base_url="http://127.0.0.1", headers=headers
            ) as client:
                start = {"program": "traceparent_asks", "id": "s"}
                uid = (await client.post("/v1/sessions", json=start, headers=given)).json()["uid"]
                assert (await client.post("/v1/sessions/s/pause", headers=given)).status_code == 200
                wrong = await client.post("/v1/sessions/s/resume", headers={"traceparent": "00-x"})
                assert wrong.status_code == 200
                assert (await client.get("/v1/sessions/s", headers=given)).status_code == 200
    finally:
        hook.install(None)
    found = seen.of("request ")
    assert [one.name for one in found] == [f"request sessions.{name}" for name in ("start", "pause", "resume")]
    assert {one.context.trace_id for one in found} == {trace_id(uid)}
    assert {attributes(one)["perdure.session.id"] for one in found} == {"s"}
    links = [[(f"{one.context.trace_id:032x}", f"{one.context.span_id:016x}") for one in span.links] for span in found]
    assert links == [[(TRACE, SPAN)], [(TRACE, SPAN)], []]
