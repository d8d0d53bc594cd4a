"""Attack: a model server or a fetched page answers with something built to hurt, or lies in the private network."""

from __future__ import annotations

import gzip
import resource
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest

from perdure.agent.model import Request, Turn, get_model
from perdure.agent.tools.fetch import _html_text, _is_public
from perdure.errors import ConfigError, ModelError
from tests.agent.support.raw_server import RawServer

PRIVATE = (
    "127.0.0.1", "10.0.0.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "::1", "::", "fe80::1", "fc00::1", "fec0::1",
    "::127.0.0.1", "::10.0.0.1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "64:ff9b:1::1", "64:ff9b:1:ffff::808:808",
    "2002:7f00:1::", "ff02::1", "2001:db8::1",
)  # fmt: skip


@pytest.mark.parametrize("address", PRIVATE)
def test_a_private_address_is_not_public_in_any_form(address: str) -> None:
    assert not _is_public(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"])
def test_a_public_address_is_public(address: str) -> None:
    assert _is_public(address)


@pytest.mark.parametrize("piece", ["<![", "<!--", "<script", "<a b='", "</", "<svg>", "&#", "<!DOCTYPE", "<" * 8])
def test_a_page_is_read_in_one_pass(piece: str) -> None:
    """The work for twice the page is about twice the work: counted in steps, not in seconds."""
    steps = [_steps(piece * count) for count in (2_000, 4_000)]
    assert steps[1] <= 2.2 * steps[0] + 100


def _steps(page: str) -> int:
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += 1
        return trace

    sys.settrace(trace)
    try:
        _html_text(page)
    finally:
        sys.settrace(None)
    return count


def test_a_page_is_reduced_to_what_a_reader_sees() -> None:
    page = "<head><style>p{}</style><title>T</title></head><body><p>One &amp; <b>two</b></p><script>x<y</script>3 < 4"
    assert _html_text(page) == "T\nOne & two\n3 < 4"
    assert _html_text("<![CDATA[x]]> y <!-- no --> z <!-- never closed") == "y z"


@pytest.fixture
def raw() -> Iterator[RawServer]:
    with RawServer() as server:
        yield server


@pytest.mark.slow
@pytest.mark.parametrize("provider", ["openai", "anthropic"])
async def test_a_compressed_error_does_not_fill_the_memory(
    provider: str, raw: RawServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"{provider.upper()}_API_KEY", "k")
    body = gzip.compress(b"[" * (200 << 20))
    raw.says = (
        b"HTTP/1.1 500 Oops\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\nConnection: close\r\n"
        + f"Content-Length: {len(body)}\r\n\r\n".encode()
        + body
    )
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ModelError, match="500"):
        await get_model(f"{provider}:m", base_url=raw.url).reply(
            Request("", (Turn("user", text="hi"),)), lambda _: None
        )
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 150 << 10  # KiB


def test_a_password_in_an_address_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    with pytest.raises(ConfigError, match="password") as refused:
        get_model("openai:m", base_url="http://me:hush@127.0.0.1:1/v1")
    assert "hush" not in str(refused.value) + refused.value.hint
