"""What an auditor reads of a service: answers to questions, the feed, the figures of a report, heads.

A head is checked against its root, and signed here if at all: the service has no key of the auditor.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from perdure.client.connection import ServiceCall, ServiceConnection
from perdure.client.verbs import segment, text_of
from perdure.control.audit import head as heads
from perdure.control.audit.head import AuditHead
from perdure.control.audit.report import AuditReport
from perdure.durable import write_whole
from perdure.errors import ConfigError
from perdure.interchange.signing_keys import signing_key
from perdure.runtime.audit import POLL, Moment
from perdure.store.audit.question import AuditRow
from perdure.store.moves.feed import FeedEvent

PAGE = "500"


class FeedPart(msgspec.Struct, frozen=True):
    """A page of the feed; `next` is null at its present end."""

    items: list[FeedEvent]
    next: int | None = None


def _range(since: Moment, until: Moment) -> dict[str, str]:
    return {name: text_of(value) for name, value in (("since", since), ("until", until)) if value is not None}


async def ask(
    connection: ServiceConnection, question: str, since: Moment, until: Moment, about: Mapping[str, str | None],
    limit: int | None,
) -> AsyncIterator[AuditRow]:  # fmt: skip
    """The rows that answer a question."""
    query = _range(since, until) | {name: value for name, value in about.items() if value is not None}
    number = 0
    async for one in connection.listing(f"/v1/audit/{segment(question)}", dict[str, Any], query):
        if limit is not None and number == limit:
            return
        number += 1
        yield AuditRow(tuple(one), tuple(one.values()), ())


async def feed(connection: ServiceConnection, after: int, *, follow: bool) -> AsyncIterator[FeedEvent]:
    """Every event after a position; with `follow`, each new one as it comes."""
    while True:
        page = await connection.read("/v1/audit/feed", FeedPart, {"after": str(after), "limit": PAGE})
        for one in page.items:
            after = one.position
            yield one
        if page.next is None:
            if not follow:
                return
            await asyncio.sleep(POLL)


async def report(connection: ServiceConnection, since: Moment, until: Moment) -> AuditReport:
    return await connection.read("/v1/audit/report", AuditReport, _range(since, until))


async def head(connection: ServiceConnection, to: str | Path | None, *, sign: bool, by: str) -> AuditHead:
    """The head of the store; one that is written to a file is recorded in the control log."""
    key = signing_key() if sign else None
    call = ServiceCall("GET", "/v1/audit/head", {}) if to is None else ServiceCall("POST", "/v1/audit/head", {}, b"{}")
    answer = await connection.ask(call)
    found = heads.parse(answer.content, f"The head of {connection.address.shown}")
    if key is not None:
        found = msgspec.structs.replace(found, signature=key.attest(heads.DOMAIN, found.root, by))
    if to is not None:
        await asyncio.to_thread(_write, Path(to), found.file())
    return found


def _write(to: Path, content: bytes) -> None:
    try:
        write_whole(to.absolute(), content)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{to} cannot be written: {error}.", hint="Name a file in a folder that exists.") from None
