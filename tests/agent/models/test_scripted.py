"""The scripted model: the same reply for the same number, in every process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import perdure.testing
from perdure.agent.model import Request, ToolCall, Turn, Usage, get_model
from perdure.agent.models.scripted import ENDED, Scripted, scripted_file
from perdure.errors import ConfigError
from perdure.testing import ScriptedModel

SCRIPT: list[Any] = [
    "Let me look.",
    {
        "text": "Two at once.",
        "calls": [{"name": "look", "arguments": {"path": "a"}}, {"name": "look", "arguments": "{broken"}],
        "usage": {"tokens_in": 7, "tokens_out": 3, "cost_micros": 11},
    },
    {"text": "Too lo", "stop": "length", "raw": {"kept": 1}},
]


def silent(piece: str) -> None:
    """Ignore live text."""


def ask(number: int) -> Request:
    return Request("", (Turn("user", text="Go."),), number=number)


async def test_a_reply_depends_on_the_number_alone() -> None:
    first, second = ScriptedModel(SCRIPT), ScriptedModel(SCRIPT)
    forward = [await first.reply(ask(number), silent) for number in range(5)]
    backward = [await second.reply(ask(number), silent) for number in reversed(range(5))]
    assert forward == backward[::-1]


async def test_turns_are_played_as_they_are_written() -> None:
    model = ScriptedModel(SCRIPT)
    heard: list[str] = []
    replies = [await model.reply(ask(number), heard.append) for number in range(4)]
    assert [reply.text for reply in replies] == ["Let me look.", "Two at once.", "Too lo", ENDED]
    assert [reply.stop for reply in replies] == ["end", "calls", "length", "end"]
    assert replies[1].calls == (ToolCall("call-1-0", "look", {"path": "a"}), ToolCall("call-1-1", "look", "{broken"))
    assert replies[1].usage == Usage(7, 3, 11)
    assert replies[2].extra == {"kept": 1}
    assert heard[:3] == ["Let ", "me ", "look."]


async def test_a_function_may_write_the_script() -> None:
    model = ScriptedModel(lambda request: f"{request.turns[0].text} {request.number}", name="echo")
    assert (await model.reply(ask(3), silent)).text == "Go. 3"
    assert model.name == "echo"


async def test_a_script_comes_from_a_file(folder: Path) -> None:
    path = folder / "plan.json"
    path.write_text(json.dumps(SCRIPT))
    model = get_model(f"scripted:{path}")
    assert model.name == f"scripted:{path}"
    assert await model.reply(ask(1), silent) == await Scripted(SCRIPT, model.name).reply(ask(1), silent)


@pytest.mark.parametrize(
    "text", [None, "", "{", "{}", "[1]", '[{"say": 1}]', '[{"calls": [{}]}]', '[{"stop": "now"}]', "\xff"]
)
def test_a_script_that_cannot_be_played_is_refused_in_one_sentence(folder: Path, text: str | None) -> None:
    path = folder / "plan.json"
    if text is not None:
        path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigError) as caught:
        scripted_file(path)
    assert "\n" not in caught.value.message
    assert "script" in caught.value.message


def test_the_test_kit_offers_it() -> None:
    assert "ScriptedModel" in perdure.testing.__all__
    assert issubclass(ScriptedModel, Scripted)
