"""Failures of model calls: each is one sentence, and says whether a retry can help."""

from __future__ import annotations

import pickle
import socket
import subprocess
import sys
from typing import Any

import pytest

from perdure.agent.model import Model, Offer, Reply, Request, Turn, get_model
from perdure.agent.models.anthropic import Anthropic
from perdure.agent.models.failures import retry_after
from perdure.agent.models.openai import OpenAI
from perdure.agent.models.stream import LARGEST_EVENT
from perdure.errors import ConfigError, ModelError
from tests.agent.models.conftest import Provider
from tests.agent.support.raw_server import STREAM, RawServer, calling, events, refusal, speech

LOOK = Offer("look", "Look at a file.", {"type": "object"})
ASK = Request("Be brief.", (Turn("user", text="Hello?"),), (LOOK,))
NOON = "Sun, 15 Nov 2026 12:00:00 GMT"


async def failure(model: Model) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await model.reply(ASK, lambda piece: None)
    return caught.value


@pytest.mark.slow
async def test_a_rate_limit_gives_the_delay_and_is_not_retried(provider: Provider) -> None:
    provider.mock.fail(429, retry_after=2.5, times=2)
    error = await failure(provider.model())
    assert (error.retry, error.retry_after) == (True, 2.5)
    assert len(provider.sent) == 1
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.retry, copy.retry_after, copy.hint) == (True, 2.5, error.hint)


@pytest.mark.parametrize(
    ("rows", "seconds"),
    [
        (["Retry-After: 7"], 7.0),
        (["retry-after-ms: 1500", "Retry-After: 2"], 1.5),
        ([f"Date: {NOON}", "Retry-After: Sun, 15 Nov 2026 12:00:30 GMT"], 30.0),
        ([f"Date: {NOON}", "Retry-After: Sun, 15 Nov 2026 11:00:00 GMT"], 0.0),
        (["Retry-After: Sun, 15 Nov 2026 12:00:30 GMT"], None),
        (["Retry-After: -3"], 0.0),
        (["Retry-After: soon"], None),
        (["Retry-After: nan"], None),
        ([], None),
    ],
)
async def test_every_form_of_the_hint_is_read(
    provider: Provider, raw: RawServer, rows: list[str], seconds: float | None
) -> None:
    raw.says = refusal(429, *rows)
    assert (await failure(provider.model(base_url=raw.url))).retry_after == seconds


def test_a_hint_with_two_kinds_of_time_is_ignored() -> None:
    assert retry_after({"retry-after": "Sun, 15 Nov 2026 12:00:30", "date": NOON}) is None


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 520, 529])
async def test_temporary_errors_can_be_retried(provider: Provider, status: int) -> None:
    provider.mock.fail(status)
    error = await failure(provider.model())
    assert error.retry
    assert error.details["status"] == status
    assert len(provider.sent) == 1


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 413, 422, 501])
async def test_permanent_errors_have_a_hint(provider: Provider, status: int) -> None:
    provider.mock.fail(status)
    error = await failure(provider.model())
    assert not error.retry
    assert error.retry_after is None
    assert provider.model().name in error.message
    assert "\n" not in error.message
    assert error.hint


async def test_an_empty_account_is_not_retried(provider: Provider, raw: RawServer) -> None:
    said = {"error": {"type": "insufficient_quota", "code": "insufficient_quota", "message": "Pay."}}
    raw.says = refusal(429, "Retry-After: 3", body=said)
    error = await failure(provider.model(base_url=raw.url))
    assert (error.retry, error.retry_after) == (False, None)
    assert "credit" in error.message


async def test_a_prompt_that_is_too_long_has_its_own_error(provider: Provider) -> None:
    provider.mock.limits(context_window=1)
    long = Request("", (Turn("user", text="word " * 200),))
    with pytest.raises(ModelError) as caught:
        await provider.model().reply(long, lambda piece: None)
    assert caught.value.details["too_long"]
    provider.mock.reset().fail(400)
    assert not (await failure(provider.model())).details["too_long"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["disconnect", "truncate", "corrupt"])
async def test_a_stream_broken_anywhere_is_an_error_or_the_whole_answer(provider: Provider, kind: str) -> None:
    calls = (("look", {"path": "a-long-name"}), ("look", {"path": "b"}))
    provider.says("Some words.", *calls)
    whole = plain(await provider.model().reply(ASK, lambda piece: None))
    events_sent = provider.mock.last_request.chunks_sent
    outcomes: list[Any] = []
    for after in range(events_sent):
        provider.mock.reset()
        provider.says("Some words.", *calls)
        getattr(provider.mock, kind)(after_chunks=after)
        try:
            outcomes.append(plain(await provider.model().reply(ASK, lambda piece: None)))
        except ModelError as error:
            outcomes.append(error.retry)
    assert events_sent >= 12
    assert outcomes.count(True) >= events_sent - 3  # what follows the reason to finish may be missed
    assert all(outcome in (True, whole) for outcome in outcomes)


def plain(reply: Reply) -> tuple[Any, ...]:
    return reply.text, reply.stop, [(call.name, call.arguments) for call in reply.calls]


@pytest.mark.slow
async def test_a_stalled_server_times_out(provider: Provider) -> None:
    provider.says("Some words.")
    provider.mock.stall(after_chunks=3, seconds=30)
    assert (await failure(provider.model(timeout=0.3))).retry


async def test_an_unreachable_server_can_be_retried(provider: Provider) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    error = await failure(provider.model(base_url=f"http://127.0.0.1:{port}"))
    assert error.retry
    assert "cannot be reached" in error.message


@pytest.mark.parametrize(
    ("kind", "retry"), [("overloaded_error", True), ("server_error", True), ("invalid_request_error", False)]
)
async def test_an_error_within_the_stream_is_an_error(
    provider: Provider, raw: RawServer, kind: str, retry: bool
) -> None:
    said: list[dict[str, Any]] = speech(provider.format, "Well,", end=False)
    said.append({"type": "error", "error": {"type": kind, "message": "It broke."}})
    raw.says = STREAM + events(provider.format, said)
    error = await failure(provider.model(base_url=raw.url))
    assert error.retry is retry
    assert "It broke." in error.message


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 4\r\n\r\nHi.\n",
        STREAM + b"data: [1]\n\n",
        STREAM + b"data: " + b"[" * 5000 + b"\n\n",
        STREAM + b'event: x\ndata: {"type": "content_block_delta", "index": 9, "choices": {"a": 1}}\n\n',
        STREAM + b'event: x\ndata: {"type": "message_start", "message": 7, "choices": [7]}\n\n',
        STREAM + b"data: " + b"x" * (2 * LARGEST_EVENT),
    ],
    ids=["nothing", "html", "list", "deep", "delta", "message", "endless"],
)
async def test_a_response_without_an_answer_can_be_retried(provider: Provider, raw: RawServer, said: bytes) -> None:
    raw.says = said
    assert (await failure(provider.model(base_url=raw.url))).retry


async def test_calls_of_an_unfinished_answer_are_never_returned(provider: Provider, raw: RawServer) -> None:
    raw.says = STREAM + calling(provider.format, '{"path": "a"}', finish=False)
    assert (await failure(provider.model(base_url=raw.url))).retry


async def test_a_connection_that_breaks_after_the_answer_is_ignored(raw: RawServer) -> None:
    promised = STREAM.replace(b"Connection: close", b"Connection: close\r\nContent-Length: 99999")
    raw.says = promised + events("openai", speech("openai", "Done."))
    model = OpenAI("some-model", base_url=raw.url)
    assert (await model.reply(ASK, lambda piece: None)).text == "Done."
    raw.says = promised + events("openai", speech("openai", "Done.", end=False))
    assert (await failure(model)).retry


@pytest.mark.parametrize(("kind", "variable"), [(Anthropic, "ANTHROPIC_API_KEY"), (OpenAI, "OPENAI_API_KEY")])
def test_a_missing_key_is_named(kind: type[Anthropic | OpenAI], variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError) as caught:
        kind("some-model")
    assert variable in caught.value.hint
    monkeypatch.setenv(variable, "  \n")
    with pytest.raises(ConfigError):
        kind("some-model")
    monkeypatch.setenv(variable, "key\n")
    assert kind("some-model").name.endswith(":some-model")


@pytest.mark.parametrize("kind", ["anthropic", "openai"])
def test_a_missing_package_is_named(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, kind, None)
    with pytest.raises(ConfigError) as caught:
        get_model(f"{kind}:some-model", base_url="http://localhost:1")
    assert f"pip install 'perdure[{kind}]'" in caught.value.hint


@pytest.mark.parametrize("kind", ["anthropic", "openai"])
@pytest.mark.parametrize("address", ["localhost:80", "ftp://x", "http://", "http://[", "http://x:99999"])
def test_a_wrong_address_is_named(kind: str, address: str) -> None:
    with pytest.raises(ConfigError, match="is not a valid address"):
        get_model(f"{kind}:some-model", base_url=address)


def test_naming_a_model_does_not_import_its_package() -> None:
    code = (
        "import sys; from perdure.agent.model import get_model\n"
        "for kind in ('anthropic', 'openai'): get_model(f'{kind}:x', base_url='http://localhost:1')\n"
        "sys.exit(bool({'anthropic', 'openai', 'httpx2'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=180).returncode == 0
