"""A notification as an email by SMTP, always over TLS: `smtps://` from the start, `smtp://` with STARTTLS.

Repeated deliveries have the same Message-ID, so that mail programs show one.
"""

from __future__ import annotations

import asyncio
import smtplib
import socket
import ssl
from contextlib import suppress
from email.message import EmailMessage
from email.utils import formatdate
from typing import Any
from urllib.parse import unquote, urlsplit

from perdure.runtime.notifications.channels import EmailChannel, NotSent, resolve_secret

SILENCE = 20.0  # seconds that the server may be silent
PORTS = {"smtp": 587, "smtps": 465}
LONGEST_SUBJECT = 120  # characters


async def send(channel: EmailChannel, id: str, about: dict[str, Any], *, seconds: int) -> None:
    """Send one notification to all recipients. Raises `NotSent` if the server did not take it."""
    place = urlsplit(channel.server)
    password = None if channel.password is None else resolve_secret(channel.password)
    login = None if password is None else (unquote(place.username or ""), password)
    delivery = _Delivery(channel, message_of(channel, id, about, seconds), login)
    try:
        await asyncio.to_thread(delivery.run)
    except asyncio.CancelledError:
        delivery.stop()  # the thread would wait for a server that is slow on purpose
        raise


def message_of(channel: EmailChannel, id: str, about: dict[str, Any], seconds: int) -> EmailMessage:
    """The email: the sentence, where to look, and what to type."""
    found = EmailMessage()
    found["Subject"] = f"[perdure] {about['text']}"[:LONGEST_SUBJECT]
    found["From"], found["To"] = channel.sender, ", ".join(channel.to)
    found["Date"], found["Message-ID"] = formatdate(seconds), f"<{id}@notifications.perdure>"
    found["Auto-Submitted"] = "auto-generated"
    lines = [about["text"], ""]
    lines += [about["link"]] if "link" in about else []
    lines += [f"  {one}" for one in about.get("commands", ())]
    found.set_content("\n".join(lines) + "\n")
    return found


class _Delivery:
    """One delivery in a thread of its own, which can be stopped from outside."""

    def __init__(self, channel: EmailChannel, message: EmailMessage, login: tuple[str, str] | None) -> None:
        self._channel = channel
        self._message = message
        self._login = login
        self._smtp: smtplib.SMTP | None = None

    def stop(self) -> None:
        if self._smtp is not None and self._smtp.sock is not None:
            with suppress(OSError):
                self._smtp.sock.shutdown(socket.SHUT_RDWR)

    def run(self) -> None:
        try:
            self._run()
        except smtplib.SMTPResponseException as error:
            raise NotSent(f"the mail server answered {error.smtp_code}") from None
        except smtplib.SMTPRecipientsRefused as error:
            codes = ", ".join(sorted({str(code) for code, _ in error.recipients.values()}))
            raise NotSent(f"the mail server refused the recipients: {codes}") from None
        except smtplib.SMTPException as error:
            raise NotSent(f"the mail server cannot be used ({type(error).__name__})") from None
        except ssl.SSLError:
            raise NotSent("the certificate of the mail server is not valid") from None
        except OSError:
            raise NotSent("the mail server cannot be reached") from None

    def _run(self) -> None:
        place = urlsplit(self._channel.server)
        host, port = place.hostname or "", place.port or PORTS[place.scheme]
        context = ssl.create_default_context(cafile=self._channel.ca)
        if place.scheme == "smtps":
            self._smtp = smtplib.SMTP_SSL(host, port, timeout=SILENCE, context=context)
        else:
            self._smtp = smtplib.SMTP(host, port, timeout=SILENCE)
        smtp = self._smtp
        try:
            if place.scheme == "smtp":
                smtp.starttls(context=context)
            if self._login is not None:
                smtp.login(*self._login)
            refused = smtp.send_message(self._message)
        finally:
            with suppress(smtplib.SMTPException, OSError):  # it was taken, or it was not, whatever comes now
                smtp.quit()
            smtp.close()
        if refused:
            of = f"{len(refused)} of {len(self._channel.to)} recipients"
            raise NotSent(f"the mail server refused {of}; the others have it", final=True)
