"""The summary shows a session to people, and no content leaves its code block."""

from __future__ import annotations

from pathlib import Path

from perdure.interchange.summary import escape_invisible
from perdure.store.moves import event, lease
from perdure.testing import SinkClient
from tests.interchange.conftest import Open
from tests.interchange.support.moved_program import travel_talk
from tests.interchange.support.transfer import export_session, start_session

HOSTILE = "# no\n\nheading\n\x1b]0;title\x07\n</pre><b>\n```\nend\r\n\u2028\u202e"


async def test_a_summary_shows_goal_state_effects_and_open_work(opened: Open, sink: SinkClient, folder: Path) -> None:
    here = opened("here")
    view = await start_session(here)
    await export_session(here, "t-1", folder / "t")
    page = (folder / "t" / "SUMMARY.md").read_text()
    assert f"session  t-1  ({view.uid})" in page
    assert 'arguments  {"pr":7,"book":"once"}' in page
    assert "waits for approval since" in page
    assert "acknowledged  1         travel_comment" in page
    assert "planned       0         travel_merge" in page
    assert "task review is active: review" in page
    assert "1 of its effects are unsettled" in page


async def test_messages_are_shown_literally_and_escaped(opened: Open, folder: Path) -> None:
    here = opened("here")
    uid = (await here.start(travel_talk.bind(), id="t-1")).uid
    holder = await here.store.write(lease.acquire(uid, "w", nonce="n", ttl=60_000_000))
    for number in range(30):
        await here.store.write(event.append(holder, "message", {"role": "user", "content": f"{number} {HOSTILE}"}))
    await here.store.write(event.append(holder, "message", {"role": "assistant", "content": [{"text": "x" * 9000}]}))
    await here.store.write(event.append(holder, "message", {}))
    await here.store.write(event.erase(uid, "ada", [31], because="asked"))
    await export_session(here, "t-1", folder / "t")
    page = (folder / "t" / "SUMMARY.md").read_text()
    shown = page.partition("messages")[2].splitlines()[2:]
    assert all(line.isprintable() and (not line or line.startswith("    ")) for line in shown)
    assert "    12 # no" in shown
    assert "    (erased)" in shown
    assert "0 # no" not in page.replace("10 # no", "").replace("20 # no", "")
    assert max(map(len, page.splitlines())) < 2100


def test_unprintable_characters_are_shown_as_escapes() -> None:
    assert escape_invisible("a\x1b\u202e\n\ud800b", keep="\n") == "a\\x1b\\u202e\n\\ud800b"
