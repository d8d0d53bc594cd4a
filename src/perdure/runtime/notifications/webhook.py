"""A notification as a signed request: one POST to one address, no redirects, no proxy.

Only an answer from 200 to 299 counts as sent. The answer itself is not kept: it is text of the receiver.
"""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from urllib.parse import urlsplit

from perdure.runtime.notifications import addresses, signature
from perdure.runtime.notifications.channels import NotSent, WebhookChannel, resolve_secret

CONNECT = 10.0  # seconds for each address
LONGEST_HEAD = 64 << 10  # bytes of the head of an answer


async def send(channel: WebhookChannel, id: str, body: bytes, *, seconds: int) -> None:
    """Send one notification. Raises `NotSent` if the receiver has not confirmed it."""
    place = urlsplit(channel.url)
    host, port = place.hostname or "", place.port or (443 if place.scheme == "https" else 80)
    signed = signature.headers(id, seconds, body, [resolve_secret(one) for one in channel.secrets])
    context = _context(channel.ca) if place.scheme == "https" else None
    found = await addresses.resolve(host, port, private=channel.private)
    reader, writer = await _connect(found, port, context, host)
    try:
        path = (place.path or "/") + (f"?{place.query}" if place.query else "")
        lines = [f"POST {path} HTTP/1.1", f"Host: {place.netloc}", "Content-Type: application/json"]
        lines += [f"Content-Length: {len(body)}", "Connection: close", "User-Agent: perdure"]
        lines += [f"{name}: {value}" for name, value in signed.items()]
        writer.write("\r\n".join([*lines, "", ""]).encode("ascii") + body)
        await writer.drain()
        status = await _status(reader)
    except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
        raise NotSent("the connection broke before an answer came") from None
    finally:
        writer.close()
        with suppress(Exception):
            await asyncio.wait_for(writer.wait_closed(), 1.0)
    if not 200 <= status <= 299:
        raise NotSent(f"the receiver answered {status}")


def _context(ca: str | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca)
    except OSError:
        raise NotSent("the file of the certificate authority cannot be read") from None


async def _connect(
    found: list[str], port: int, context: ssl.SSLContext | None, host: str
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to the first of the addresses that answers."""
    why = "the host has no address"
    for address in found:
        try:
            async with asyncio.timeout(CONNECT):
                return await asyncio.open_connection(
                    address, port, ssl=context, server_hostname=host if context else None, limit=LONGEST_HEAD
                )
        except ssl.SSLError:
            raise NotSent("the certificate of the receiver is not valid") from None
        except TimeoutError:
            why = "no connection within 10 seconds"
        except OSError:
            why = "the connection was refused"
    raise NotSent(why)


async def _status(reader: asyncio.StreamReader) -> int:
    """The status of the answer, after interim ones."""
    while True:
        head = await reader.readuntil(b"\r\n\r\n")
        words = head.split(b"\r\n", 1)[0].split()
        if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or not words[1].isdigit():
            raise NotSent("the answer is not HTTP")
        if (status := int(words[1])) >= 200:
            return status
