"""Webhooks: signed, sent to one address that may be reached, and confirmed by the receiver."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import socket
from pathlib import Path
from typing import Any

import pytest

from perdure.runtime.notifications import webhook
from perdure.runtime.notifications.addresses import is_public, resolve
from perdure.runtime.notifications.channels import NotSent, WebhookChannel
from tests.runtime.support.receivers import LOCAL, Received, WebReceiver, make_certificate, web_receiver

SECRETS = ("old-secret-of-the-receiver", "whsec_" + base64.b64encode(b"new secret of the receiver").decode())
KEYS = (b"old-secret-of-the-receiver", b"new secret of the receiver")


@pytest.fixture(autouse=True)
def _secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLD", SECRETS[0])
    monkeypatch.setenv("NEW", SECRETS[1])


def channel(to: WebReceiver, **given: Any) -> WebhookChannel:
    options: dict[str, Any] = {"secrets": ("env:NEW",), "private": True} | given
    return WebhookChannel(url=to.url, **options)


def is_signed(one: Received, key: bytes) -> bool:
    """What a receiver checks, written without code of Perdure."""
    signed = f"{one.headers['webhook-id']}.{one.headers['webhook-timestamp']}.".encode() + one.body
    right = "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return any(hmac.compare_digest(right, given) for given in one.headers["webhook-signature"].split(" "))


async def test_a_body_is_signed_with_each_secret() -> None:
    with web_receiver() as to:
        await webhook.send(channel(to, secrets=("env:OLD", "env:NEW")), "n-1", b'{"a":1}', seconds=1_700_000_000)
        await webhook.send(channel(to), "n-2", b"{}", seconds=1_700_000_000)
    both, only = to.received
    assert (both.path, both.body, both.headers["webhook-id"]) == ("/hook?room=7", b'{"a":1}', "n-1")
    assert both.headers["webhook-timestamp"] == "1700000000"
    assert [is_signed(both, key) for key in KEYS] == [True, True]
    assert [is_signed(only, key) for key in KEYS] == [False, True]
    assert not is_signed(both._replace(body=b'{"a":2}'), KEYS[0])


@pytest.mark.parametrize("status", [302, 400, 500])
async def test_only_a_confirmation_counts_and_no_redirect_is_followed(status: int) -> None:
    with web_receiver() as to:
        to.status = status
        with pytest.raises(NotSent, match=f"answered {status}"):
            await webhook.send(channel(to), "n-1", b"{}", seconds=1)
    assert len(to.received) == 1


async def test_the_certificate_of_the_receiver_is_checked(tmp_path: Path) -> None:
    made = make_certificate(tmp_path)
    with web_receiver(made) as to:
        with pytest.raises(NotSent, match="certificate"):
            await webhook.send(channel(to), "n-1", b"{}", seconds=1)
        await webhook.send(channel(to, ca=str(made)), "n-1", b"{}", seconds=1)
    assert len(to.received) == 1


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1",
        "255.255.255.255", "::1", "::", "fe80::1%eth0", "fd00::1", "::ffff:10.0.0.1", "::ffff:127.0.0.1",
        "64:ff9b::a9fe:a9fe", "2002:7f00:1::", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "ff02::1", "fec0::1",
    ],
)  # fmt: skip
def test_private_addresses_are_recognized(address: str) -> None:
    assert not is_public(address)


def test_public_addresses_are_recognized() -> None:
    assert all(map(is_public, ["1.1.1.1", "2606:4700:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101"]))


async def test_a_private_address_is_refused_before_a_connection() -> None:
    with web_receiver() as to:
        with pytest.raises(NotSent, match="private address"):
            await webhook.send(channel(to, private=False), "n-1", b"{}", seconds=1)
    assert to.received == []
    with pytest.raises(NotSent, match="private address"):
        await resolve("localhost", 443, private=False)


async def test_one_private_address_among_public_ones_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    real = socket.getaddrinfo
    answers = [real(one, 443, type=socket.SOCK_STREAM)[0] for one in ("1.1.1.1", "10.0.0.1")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: answers)
    with pytest.raises(NotSent, match="private address"):
        await resolve("hooks.example", 443, private=False)


async def test_a_name_is_resolved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name server that answers twice could give a public address first and a private one then."""
    asked: list[Any] = []
    real = socket.getaddrinfo

    def answers(host: Any, *more: Any, **options: Any) -> Any:
        asked.append(host)
        return real(LOCAL if len(asked) == 1 else "127.9.9.9", *more, **options)

    with web_receiver() as to:
        monkeypatch.setattr(socket, "getaddrinfo", answers)
        named = WebhookChannel(url=f"http://hooks.example:{to.port}/", secrets=("env:NEW",), private=True)
        await webhook.send(named, "n-1", b"{}", seconds=1)
    assert asked == ["hooks.example"]
    assert to.received[0].headers["host"] == f"hooks.example:{to.port}"


async def test_what_is_no_answer_is_not_taken_for_one() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answers.pop())
        writer.close()

    answers = [b"", b"SSH-2.0-OpenSSH\r\n\r\n", b"HTTP/1.1 20", b"x" * 100_000]
    server = await asyncio.start_server(answer, LOCAL, 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        given = WebhookChannel(url=f"http://{LOCAL}:{port}/", secrets=("env:NEW",), private=True)
        while answers:
            with pytest.raises(NotSent):
                await webhook.send(given, "n-1", b"{}", seconds=1)
