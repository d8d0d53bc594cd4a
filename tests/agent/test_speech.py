"""What a model says is heard while it says it, and nothing of it stays beside the record."""

from __future__ import annotations

import pytest

from perdure.agent.model import OnText, Reply, Request
from perdure.errors import ModelError
from perdure.runtime.live_text import Delta, LiveTextReader
from tests.agent.conftest import opened
from tests.agent.talk import Talk

pytestmark = pytest.mark.databases("sqlite")


class Stutters:
    """Breaks off in the middle of its first attempt; the second it says to the end, or gives up."""

    name = "stutters"

    def __init__(self, *, answers: bool) -> None:
        self.asked = 0
        self.answers = answers

    async def reply(self, request: Request, on_text: OnText) -> Reply:
        self.asked += 1
        on_text("Hel\ud800\0")
        if self.asked == 1:
            raise ModelError("the line was cut", retry_after=0)
        if not self.answers:
            raise ModelError("no more", retry=False)
        on_text("lo")
        return Reply("Hel\ud800\0lo")


@pytest.mark.parametrize("answers", [True, False])
async def test_an_attempt_that_fails_broke_off_and_the_next_is_another_call(talk: Talk, answers: bool) -> None:
    talk.declare([], model=Stutters(answers=answers))
    heard: list[Delta] = []
    overheard: list[list[Delta]] = []
    async with opened(talk.target) as runtime:

        def on_text(piece: Delta) -> None:
            heard.append(piece)
            overheard.append(ears.setdefault(piece.session, LiveTextReader(runtime.live_text, piece.session)).poll())

        ears: dict[str, LiveTextReader] = {}
        runtime.on_delta = on_text
        session = await talk.start(runtime)
        said = [("Hel?␀", False), ("", True), ("Hel?␀", False), ("lo", False) if answers else ("", True)]
        assert [(one.text, one.broke_off) for one in heard] == said
        assert len({(one.call, one.after) for one in heard}) == len({one.call for one in heard}) == 2
        (ear,) = ears.values()
        overheard.append(ear.poll())
        assert [one.text for pieces in overheard for one in pieces if one.text] == [text for text, _ in said if text]
        messages = [one async for one in runtime.events(session.id) if one.kind == "message"]
        if answers:
            assert messages[-1].body["content"] == "Hel?␀lo"  # what was heard is what is kept
            assert heard[-1].after < messages[-1].number
            assert runtime.live_text.folder is not None
            assert list(runtime.live_text.folder.iterdir()) == []
        assert ear.poll() == []
