"""HTTP as far as the sink needs it: one request, one answer, over a connection that stays open."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec

REASONS = {200: "OK", 201: "Created", 404: "Not Found", 409: "Conflict", 422: "Unprocessable", 500: "Server Error"}


class SinkRequest(msgspec.Struct):
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes
    after_reply: Callable[[SinkRequest], Awaitable[None]] | None = None


async def read_request(reader: asyncio.StreamReader) -> SinkRequest | None:
    """The next request of a connection; None when its client has left."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ", 2)
    headers = {
        name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)
    }
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    parts = urlsplit(target)
    query = {name: values[0] for name, values in parse_qs(parts.query).items()}
    return SinkRequest(method, unquote(parts.path), query, headers, body)


def write_response(writer: asyncio.StreamWriter, status: int, value: Any) -> None:
    body = msgspec.json.encode(value)
    head = (
        f"HTTP/1.1 {status} {REASONS[status]}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    writer.write(head.encode() + body)
