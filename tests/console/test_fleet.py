"""The fleet page: waiting sessions, throughput and latency, buttons of schedules, and dead letters."""

from __future__ import annotations

import re

import pytest

from tests.console.support.scene import console_broken, console_releaser, console_survey
from tests.console.support.visit import Visit


async def fleet(visit: Visit, query: str = "") -> str:
    answer = await visit.client.get(f"/fleet{query}")
    assert answer.status_code == 200, answer.text
    return answer.text


def section(page: str, name: str) -> str:
    """The words of a part of the page."""
    part = page.partition(f'<section id="{name}"')[2].partition("</section>")[0]
    return " ".join(re.sub(r"<[^>]*>", " ", part).split())


async def test_a_queue_whose_sessions_wait_for_people_is_shown(visit: Visit) -> None:
    await visit.runtime.start(console_survey.bind(), id="survey")
    await visit.runtime.run("survey")
    await visit.sign_in("ada")
    assert "default 0 0 1 0" in section(await fleet(visit), "queues")


@pytest.mark.databases("sqlite", "postgres")
async def test_throughput_and_latency_are_shown_of_queues_that_the_caller_may_see(visit: Visit) -> None:
    for queue in ("mine", "other"):
        await visit.runtime.start(console_broken.bind(), id=queue, queue=queue)
        visit.clock.advance(seconds=90)
        await visit.runtime.run(queue)
    await visit.sign_in("grace")
    shown = section(await fleet(visit), "latency")
    assert "mine hour 1 1 1m 1m 0ms 0ms" in shown
    assert "mine 24 hours 1 1" in shown
    assert "other" not in shown
    assert (await fleet(visit)).count('<svg class="spark"') == 2


async def test_schedules_are_paused_resumed_and_run_now(visit: Visit) -> None:
    for name, queue in (("nightly", "mine"), ("hidden", "other")):
        await visit.runtime.add_schedule(name, console_releaser.bind("release"), every="1h", queue=queue)
    await visit.sign_in("grace")
    assert "hidden" not in section(await fleet(visit), "schedules")
    assert (await visit.post("/schedules/hidden", at="/fleet", do="pause")).status_code == 404
    assert (await visit.post("/schedules/nothing", at="/fleet", do="pause")).status_code == 404
    for do, paused in (("pause", True), ("resume", False)):
        assert (await visit.post("/schedules/nightly", at="/fleet", do=do)).status_code == 303
        found = {one.name: one.paused_at async for one in visit.runtime.schedules()}
        assert (found["nightly"] is not None, found["hidden"]) == (paused, None)
    answer = await visit.post("/schedules/nightly", at="/fleet", do="run", back="/fleet")
    assert answer.headers["location"] == "/fleet?did=triggered"
    assert [one.queue async for one in visit.runtime.sessions()] == ["mine"]
    assert (await visit.post("/schedules/nightly", at="/fleet", do="remove")).status_code == 422


async def test_dead_letters_have_pages(visit: Visit) -> None:
    ids = [f"broken-{number}" for number in range(52)]
    await visit.runtime.start_many([console_broken.bind() for _ in ids], ids=ids, queue="mine")
    for id in ids:
        await visit.runtime.run(id)
    await visit.sign_in("grace")
    page = await fleet(visit)
    (after,) = re.findall(r'rel="next" href="/fleet\?after=([^"#]*)#failed"', page)
    both = [
        re.findall(r'data-open href="/sessions/(broken-\d+)"', one)
        for one in (page, await fleet(visit, f"?after={after}"))
    ]
    assert [len(one) for one in both] == [50, 2]
    assert sorted(both[0] + both[1]) == sorted(ids)
    assert "Dead letters" in section(page, "failed") + page
    assert (await visit.client.get("/fleet?after=x")).status_code == 422
