"""Emails: over TLS, with a login, and with the same Message-ID at each delivery."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure.runtime.notifications import mail
from perdure.runtime.notifications.channels import EmailChannel, NotSent
from tests.runtime.support.receivers import LOCAL, MailReceiver, mail_receiver, make_certificate

ABOUT = {"text": "Session s-1 waits for an approval.", "commands": ["perdure approvals a-1"], "link": "https://p/s-1"}


def channel(to: MailReceiver, ca: Path, scheme: str = "smtp") -> EmailChannel:
    return EmailChannel(
        to=("ada@example.org", "grace@example.org"), sender="perdure@example.org", ca=str(ca),
        server=f"{scheme}://perdure@{LOCAL}:{to.port}", password="env:MAIL_PASSWORD",
    )  # fmt: skip


@pytest.mark.parametrize("scheme", ["smtp", "smtps"])
async def test_an_email_says_what_to_look_at(scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAIL_PASSWORD", "s3cr3t-password")
    made = make_certificate(tmp_path)
    with mail_receiver(made, implicit=scheme == "smtps") as to:
        for _ in range(2):
            await mail.send(channel(to, made, scheme), "n-1", ABOUT, seconds=1_700_000_000)
    first, second = to.received
    assert (first["Subject"], first["To"]) == (f"[perdure] {ABOUT['text']}", "ada@example.org, grace@example.org")
    assert first["Message-ID"] == second["Message-ID"] == "<n-1@notifications.perdure>"
    assert str(first.get_payload()).split() == [
        *str(ABOUT["text"]).split(),
        "https://p/s-1",
        "perdure",
        "approvals",
        "a-1",
    ]


async def test_a_refused_login_names_no_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAIL_PASSWORD", "wrong-password")
    made = make_certificate(tmp_path)
    with mail_receiver(made) as to, pytest.raises(NotSent) as raised:
        await mail.send(channel(to, made), "n-1", ABOUT, seconds=1)
    assert str(raised.value) == "the mail server answered 535"
    assert to.received == []


async def test_nothing_is_sent_without_a_valid_certificate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAIL_PASSWORD", "s3cr3t-password")
    (other := tmp_path / "other").mkdir()
    with mail_receiver(make_certificate(tmp_path)) as to, pytest.raises(NotSent, match="certificate"):
        await mail.send(channel(to, make_certificate(other)), "n-1", ABOUT, seconds=1)
    assert to.received == []


async def test_one_refused_recipient_makes_no_second_email(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAIL_PASSWORD", "s3cr3t-password")
    made = make_certificate(tmp_path)
    with mail_receiver(made) as to:
        to.refused = {"grace@example.org"}
        with pytest.raises(NotSent, match="1 of 2 recipients") as raised:
            await mail.send(channel(to, made), "n-1", ABOUT, seconds=1)
    assert raised.value.final
    assert len(to.received) == 1
