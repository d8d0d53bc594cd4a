"""What the pages of the console show over HTTP, to whom."""

from __future__ import annotations

import pytest

from perdure.console.intent import DiffLine
from perdure.console.pages.files import changed
from perdure.console.plots.branch_graph import family, parting
from perdure.console.plots.usage import history
from perdure.control.branches.files import DiffSide, FileDiff
from perdure.store.moves import session as sessions
from tests.console.support.scene import console_payment, console_priced, console_releaser, console_survey
from tests.console.support.visit import Visit

pytestmark = pytest.mark.databases("sqlite", "postgres")
STORE_WIDE = ("/policy", "/doctor", "/audit", "/audit/who-approved")


async def begin(visit: Visit, id: str, queue: str = "mine") -> None:
    await visit.runtime.start(console_payment.bind(cents=3), id=id, queue=queue)
    await visit.runtime.run(id)


async def test_ledger_shows_effects_of_visible_sessions(visit: Visit) -> None:
    await begin(visit, "pay-mine")
    await begin(visit, "pay-theirs", "theirs")
    await visit.sign_in("grace")
    page = (await visit.client.get("/ledger")).text
    assert ("pay-mine" in page, "pay-theirs" in page) == (True, False)
    assert "No effect fits" in (await visit.client.get("/ledger?tool=other")).text
    assert "No effect fits" in (await visit.client.get("/ledger?reach=workspace")).text
    assert (await visit.client.get("/ledger?after=nonsense")).status_code == 422


async def test_store_wide_pages_are_for_the_whole_store_only(visit: Visit) -> None:
    await visit.sign_in("grace")
    for path in STORE_WIDE:
        assert (await visit.client.get(path)).status_code == 403
    assert 'href="/doctor"' not in (await visit.client.get("/")).text
    await visit.sign_in("ada")
    for path in STORE_WIDE:
        assert (await visit.client.get(path)).status_code == 200
    assert (await visit.client.get("/audit/no-such-question")).status_code == 404


async def test_every_question_of_an_audit_has_a_page(visit: Visit) -> None:
    await begin(visit, "pay")
    await visit.sign_in("ada")
    for one in visit.runtime.audit_questions():
        given = "&".join(f"{name}=pay" for name in one.needed[:1])
        answer = await visit.client.get(f"/audit/{one.name}?since=7d&{given}")
        assert (one.name, answer.status_code) == (one.name, 200)


async def test_fleet_shows_and_changes_visible_queues(visit: Visit) -> None:
    for queue in ("mine", "theirs"):
        await visit.runtime.start(console_survey.bind(), id=f"s-{queue}", queue=queue)
    await visit.sign_in("grace")
    page = (await visit.client.get("/fleet")).text
    assert ('action="/queues/mine"' in page, "theirs" in page, "Processes" in page) == (True, False, False)
    assert (await visit.post("/queues/mine", at="/", do="pause")).status_code == 303
    assert (await visit.post("/queues/theirs", at="/", do="pause")).status_code == 404
    paused = {one.name: one.paused_at is not None async for one in visit.runtime.queues()}
    assert paused == {"mine": True, "theirs": False}


async def found(visit: Visit, **query: str) -> str:
    return (await visit.client.get("/sessions", params=query)).text.split("<tbody")[1]


async def test_search_finds_title_id_and_output(visit: Visit) -> None:
    await visit.runtime.start(console_survey.bind(), id="survey-7", title="Ask Ödön", queue="mine")
    await begin(visit, "pay-1")
    await begin(visit, "pay-hidden", "theirs")
    await visit.sign_in("grace")
    for text, is_found in (("SURVEY", True), ("ödön", True), ("survey-8", False), ("pay", False)):
        assert ("survey-7" in await found(visit, q=text)) is is_found
    pays = await found(visit, q="console_pay 3")
    assert ("pay-1" in pays, "/at?number=" in pays, "pay-hidden" in pays) == (True, True, False)


async def test_search_is_filtered_as_the_list_is(visit: Visit) -> None:
    await visit.runtime.start(console_survey.bind(), id="survey-7", queue="mine")
    await visit.sign_in("grace")
    assert "survey-7" in await found(visit, q="survey", status="ready", queue="mine")
    assert "survey-7" not in await found(visit, q="survey", status="done")
    assert "survey-7" not in await found(visit, q="survey", waiting="input")
    assert (await visit.client.get("/sessions?q=--")).status_code == 422


@pytest.mark.parametrize(
    "path", ["/sessions?q={}", "/ledger?target={}&reach=all", "/audit/outside?since={}", "/policy?tool={}", "/{}"]
)
async def test_what_an_address_says_is_shown_as_text(path: str, visit: Visit) -> None:
    await visit.sign_in("ada")
    page = (await visit.client.get(path.format("%22%3E%3Cscript%3Ealert(1)%3C%2Fscript%3E"))).text
    assert "alert(1)" in page
    assert "<script>alert" not in page


async def test_branches_are_drawn_as_far_as_one_may_see(visit: Visit) -> None:
    await begin(visit, "root")
    for id, at in (("one", 2), ("two", 1)):
        await visit.runtime.fork("root", at=at, id=id)
    await visit.runtime.fork("one", at=1, id="deep")
    store = visit.runtime.store
    here, deep = [await store.read(sessions.find, name) for name in ("two", "deep")]
    graph = await store.read(family, here, lambda _: True)
    assert [(one.session.id, one.depth, one.parent_row) for one in graph.lines] == [
        ("root", 0, None), ("two", 1, 0), ("one", 1, 0), ("deep", 2, 2),
    ]  # fmt: skip
    assert [one.is_here for one in graph.lines] == [False, True, False, False]
    hidden = await store.read(family, here, lambda one: one.id != "root")
    assert [one.session.id for one in hidden.lines] == ["two"]
    root = await store.read(sessions.find, "root")
    assert await store.read(parting, here, deep) == (root.uid, 1)


async def test_usage_of_a_session_adds_up_to_its_totals(visit: Visit) -> None:
    await visit.runtime.start(console_priced.bind("Count."), id="priced", queue="mine")
    await visit.runtime.run("priced")
    await visit.runtime.send("priced", "More.")
    session = await visit.runtime.run("priced")
    record = await visit.runtime.store.read(sessions.get, session.uid)
    found = await visit.runtime.store.read(history, record)
    assert [(one.tokens_in, one.cost_micros, one.all_tokens) for one in found.points] == [
        (1540, 5000, 2940), (1200, 4100, 1290),
    ]  # fmt: skip
    assert (found.cost.most, found.is_whole) == (record.cost_micros, True)
    assert found.cost.segments[-1] == (100.0, 69.54, 100.0, 8.0)
    await visit.sign_in("grace")
    page = (await visit.client.get("/sessions/priced/usage")).text
    assert ("$0.0091" in page, "2,940" in page, page.count("<tr>")) == (True, True, 3)


async def test_costs_are_plotted_by_day(visit: Visit) -> None:
    await visit.runtime.start(console_priced.bind("Count."), id="priced", queue="mine")
    await visit.runtime.run("priced")
    visit.clock.advance(hours=48)
    await visit.runtime.send("priced", "More.")
    await visit.runtime.run("priced")
    await visit.sign_in("ada")
    page = (await visit.client.get("/audit/costs")).text
    assert "Cost by day <b>$0.0091</b>" in page
    assert page.count('<rect class="day"') == 2
    assert 'class="day"' not in (await visit.client.get("/audit/refused")).text
    assert "What went wrong" in (await visit.client.get("/audit")).text


async def test_compare_with_a_hidden_session_is_not_there(visit: Visit) -> None:
    await begin(visit, "mine")
    await begin(visit, "theirs", "theirs")
    await visit.sign_in("grace")
    for name in ("theirs", "absent", ""):
        assert (await visit.client.get("/sessions/mine/compare", params={"with": name})).status_code == 404


def test_a_difference_is_shown_by_file() -> None:
    text = "diff --git a/x b/x\nindex 1..2\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new\n"
    text += "diff --git a/y b/y\nnew file\n--- /dev/null\n+++ b/y\n@@ -0,0 +1 @@\n+z\n"
    side = DiffSide("s", 1, "snapshot")
    files = changed(FileDiff(side, side, text))
    assert [(one.name, one.added, one.removed) for one in files] == [("x", 1, 1), ("y", 1, 0)]
    assert files[0].lines == [DiffLine("@", "@@ -1 +1 @@"), DiffLine("-", "old", 1), DiffLine("+", "new", 1)]
    assert [one.text for one in files[1].lines] == ["new file", "@@ -0,0 +1 @@", "z"]
    assert [one.left_out for one in files] == [0, 0]


POLICY = """
default = "allow"
[log_access]
transcript = true
approval = true

[[rule]]
name = "no-force"
answer = "deny"
reason = "history is shared"
tool = "push"
[[rule.example]]
tool = "push"
expect = "deny"
"""


async def test_policy_page_explains_freezes_and_keeps_versions(visit: Visit) -> None:
    await visit.sign_in("ada")
    assert "ships with Perdure" in (await visit.client.get("/policy")).text
    await visit.runtime.set_policy(POLICY, because="the incident of June")
    page = (await visit.client.get("/policy", params={"tool": "push", "branch": "main"})).text
    assert "no-force" in page
    assert '<span class="badge deny">deny</span>' in page
    assert "the incident of June" in page
    assert (await visit.client.get("/policy?at=1")).status_code == 200
    assert (await visit.client.get("/policy?at=7")).status_code == 404
    assert (await visit.post("/policy", at="/", do="freeze")).status_code == 422
    assert (await visit.post("/policy", at="/", do="freeze", because="look first")).status_code == 303
    assert "look first" in (await visit.client.get("/policy")).text
    assert (await visit.runtime.get_policy()).frozen_because == "look first"
    assert (await visit.post("/policy", at="/", do="thaw")).status_code == 303
    assert (await visit.runtime.get_policy()).frozen_at is None


async def test_who_read_a_session_is_recorded_once_in_an_hour(visit: Visit) -> None:
    await begin(visit, "pay")
    await visit.runtime.set_policy(POLICY, because="reads are recorded")
    await visit.sign_in("grace")
    for path in ("/sessions/pay", "/sessions/pay", "/sessions/pay/at", "/sessions/no-such"):
        await visit.client.get(path)
    rows = [row.to_dict() async for row in visit.runtime.audit("access")]
    assert [(one["action"], one["identity"]) for one in rows] == [("transcript", visit.login("grace"))]
    visit.clock.advance(hours=1)
    await visit.client.get("/sessions/pay")
    assert len([row async for row in visit.runtime.audit("access")]) == 2


@pytest.mark.parametrize("path", ["/", "/sessions/release", "/sessions/release/recovery"])
async def test_who_read_an_approval_is_recorded_wherever_it_is_shown(visit: Visit, path: str) -> None:
    await visit.runtime.start(console_releaser.bind("Release it."), id="release", queue="mine")
    await visit.runtime.run("release")
    await visit.runtime.set_policy(POLICY, because="reads are recorded")
    await visit.sign_in("grace")
    for _ in range(2):
        await visit.client.get(path)
    (approval,) = [one async for one in visit.runtime.approvals()]
    rows = [row.to_dict() async for row in visit.runtime.audit("access")]
    found = [(one["identity"], one["subject"]) for one in rows if one["action"] == "approval"]
    assert found == [(visit.login("grace"), approval.id)]
