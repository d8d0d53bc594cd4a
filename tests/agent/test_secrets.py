"""Secrets of an agent: which a model may use, and what it is told of the others."""

from __future__ import annotations

import pytest

import perdure
from perdure import ModelError, Secret, tool
from perdure.agent.model import OnText, Reply, Request
from perdure.secrets import redaction
from tests.agent.conftest import open_runtime
from tests.agent.support.conversation import Conversation, calls, lines

VALUE, SHOWN = "a-value-of-a-test-1", "[secret env:TEST_TOKEN]"
pytestmark = [pytest.mark.anyio, pytest.mark.databases("sqlite")]


async def test_a_model_uses_the_secrets_that_the_operator_named(
    conversation: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TEST_TOKEN", "TEST_OWN", "TEST_OTHER"):
        monkeypatch.setenv(name, f"{name}-{VALUE}")
    used: list[str] = []

    @tool(replay="pure")
    def sends(token: Secret = Secret("env:TEST_OWN")) -> str:  # noqa: B008 - a reference does not change
        used.append(token.reveal())
        return f"sent {token.reveal()}"

    script = [calls(*[("sends", given) for given in ({"token": "env:TEST_TOKEN"}, {}, {"token": "env:TEST_OTHER"})])]
    script.append(calls(("sends", {"token": "env:TEST_MISSING"}), ("sends", {"token": "sk-1234567890"})))
    conversation.declare([*script, "Done."], [sends])
    async with perdure.open(conversation.target, secrets=["env:TEST_TOKEN", "env:TEST_MISSING"]) as runtime:
        await conversation.start(runtime)
        assert sorted(used, reverse=True) == [f"TEST_TOKEN-{VALUE}", f"TEST_OWN-{VALUE}"]
        told = [one["content"] for one in await lines(runtime) if one["role"] == "tool"]
    assert told[:2] == [f"sent {SHOWN}", "sent [secret env:TEST_OWN]"]
    assert told[2] == "env:TEST_OTHER is no secret that you may use: the setting `secrets` does not name it."
    assert told[3] == "The secret env:TEST_MISSING is not set in the environment of this process."
    assert "A secret is not a reference." in told[4]
    assert "sk-1234567890" not in told[4]


async def test_a_model_that_repeats_a_marker_is_refused(conversation: Conversation) -> None:
    """It would overwrite a secret in a file with its marker."""
    redaction.add("env:TEST_TOKEN", VALUE)
    written: list[str] = []

    @tool
    def writes(text: str) -> None:
        written.append(text)

    conversation.declare([calls(("writes", {"text": f"TOKEN={SHOWN}"})), "Done."], [writes])
    async with open_runtime(conversation.target) as runtime:
        await conversation.start(runtime)
        (told,) = [one for one in await lines(runtime) if one["role"] == "tool"]
        assert (told["status"], written) == ("not started", [])
        assert [one async for one in runtime.effects(session="talk", tool="writes")] == []


async def test_the_error_of_a_provider_is_recorded_without_the_secret(conversation: Conversation) -> None:
    redaction.add("env:TEST_TOKEN", VALUE)

    class Refusing:
        name = "refusing"

        async def reply(self, request: Request, on_text: OnText) -> Reply:
            raise ModelError(f"Incorrect key: {VALUE}.", retry=False)

    conversation.declare([], model=Refusing())
    async with open_runtime(conversation.target) as runtime:
        await conversation.start(runtime)
        events = [one.body async for one in runtime.events("talk")]
    assert VALUE not in str(events)
    assert f"Incorrect key: {SHOWN}." in str(events)


async def test_live_text_has_no_value_that_arrives_in_pieces(conversation: Conversation) -> None:
    redaction.add("env:TEST_TOKEN", VALUE)

    class Streaming:
        name = "streaming"

        async def reply(self, request: Request, on_text: OnText) -> Reply:
            text = f"it is {VALUE}, and é, and {VALUE[:7]}"
            for character in text:
                on_text(character)
            return Reply(text)

    conversation.declare([], model=Streaming())
    async with open_runtime(conversation.target) as runtime:
        pieces: list[str] = []
        runtime.on_delta = lambda piece: pieces.append(piece.text)
        await conversation.start(runtime)
        (said,) = [one["content"] for one in await lines(runtime) if one["role"] == "assistant"]
    assert "".join(pieces) == said == f"it is {SHOWN}, and é, and {VALUE[:7]}"
    assert len(pieces) > 10  # what cannot be a part of the value is not held back
