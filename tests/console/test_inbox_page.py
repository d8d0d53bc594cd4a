"""The parts of the inbox: what needs a person is not lost behind what does not, and behind what one may not see."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from perdure.domain.lease import Holder
from perdure.domain.wait import WaitKind
from perdure.store.moves import lease, session, wait
from perdure.store.moves.session import NewSession
from tests.console.support.visit import Visit

pytestmark = pytest.mark.databases("sqlite", "postgres")
NEXT = re.compile(r'<a rel="next" href="([^"]*)">([^<]*)</a>')
CARD = re.compile(r'<article class="need (\w+)" id="need-[^"]*-(w-\d+)"')


async def running(visit: Visit, id: str, queue: str) -> Holder:
    store = visit.runtime.store
    made = await store.write(session.create(NewSession(id=id, program="review", queue=queue, arguments={}), by="ada"))
    return await store.write(lease.acquire(made.uid, "worker", nonce=id, ttl=3600 * 1_000_000))


async def open_waits(visit: Visit, holder: Holder, count: int, kind: WaitKind, detail: Any = None) -> None:
    moves = [wait.open_(holder, f"w-{number}", kind, detail=detail) for number in range(count)]
    await asyncio.gather(*(visit.runtime.store.write(one) for one in moves))
    visit.clock.advance(seconds=1)


async def test_a_question_is_shown_behind_idle_sessions_and_foreign_approvals(visit: Visit) -> None:
    await open_waits(visit, await running(visit, "idle", "mine"), 205, WaitKind.INPUT)
    await open_waits(visit, await running(visit, "theirs", "theirs"), 201, WaitKind.APPROVAL)
    await open_waits(visit, await running(visit, "mine", "mine"), 1, WaitKind.INPUT, {"question": "Merge it?"})
    await visit.sign_in("grace")
    page = (await visit.client.get("/")).text
    assert (CARD.findall(page), NEXT.findall(page)) == ([("input", "w-0")], [])
    assert "Merge it?" in page
    await visit.sign_in("ada")
    page = (await visit.client.get("/")).text
    assert ("Merge it?" in page, "100+" in page) == (False, True)


async def test_parts_of_the_inbox_have_each_question_once(visit: Visit) -> None:
    await open_waits(visit, await running(visit, "many", "mine"), 205, WaitKind.INPUT, {"question": "Why?"})
    await visit.sign_in("grace")
    path, found, parts = "/", [], 0
    while path:
        page = (await visit.client.get(path)).text
        found += [id for _, id in CARD.findall(page)]
        parts += 1
        more = NEXT.findall(page)
        assert more == [] or more[0][1] == "There are more"
        path = more[0][0] if more else ""
    assert (sorted(found), parts) == (sorted(f"w-{number}" for number in range(205)), 3)
    assert (await visit.client.get("/?after=nonsense")).status_code == 422
