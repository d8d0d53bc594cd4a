"""One change of many sessions: a preview, and then the change.

    preview   names the sessions that were chosen, and those that the change does not fit, with the reason
    change    gets that list back: each session with its version, a digest of all, and an idempotency key

Each session is a request of its own, as over HTTP: authorized, under a key of its own, and only if it has not changed
since the preview. So the same form sent again changes the sessions that are left, and answers the same.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from typing import Any, NamedTuple

import msgspec
from starlette.responses import Response

from perdure.console.page import ConsoleContext, ConsolePage, action
from perdure.console.pages.sessions import listing
from perdure.domain.caller import Caller, Verb
from perdure.domain.session import SessionRecord, Status
from perdure.domain.wait import Wait
from perdure.errors import ConfigError, Conflict, NotFound, VersionChanged
from perdure.ids import digest, new_uid
from perdure.runtime.session_change import SessionChange, objection
from perdure.runtime.start.failed_sessions import change_each
from perdure.server.authorization import authorize, missing
from perdure.server.operation import Context, Operation, Touch
from perdure.server.operations import session_requests
from perdure.server.requests.idempotency import Idempotency
from perdure.store.move import StoreTransaction
from perdure.store.moves import session as sessions
from perdure.store.moves import wait

MOST = 1000  # sessions of one change
SHOWN = 200
RUNS = "running"  # the version of a session that runs: its log grows all the time
OPERATIONS = {one.name: one for one in session_requests.OPERATIONS}
_KEY = re.compile(r"[0-9a-z-]{1,100}")
_LINE = re.compile(r"([!-~]{1,100}) (running|[0-9]{1,18})")
FILTERS = ("q", "status", "waiting", "owner", "queue")


class PreviewRow(NamedTuple):
    """A session of a preview; `why` it is left alone, if it is."""

    session: SessionRecord
    waits: Sequence[Wait]
    why: str | None

    @property
    def line(self) -> str:
        return f"{self.session.uid} {RUNS if self.session.status == Status.RUNNING else self.session.cursor}"


class FormEntry(NamedTuple):
    """A session as the form names it. The version is None for one that ran."""

    uid: str
    version: int | None


async def preview(context: ConsoleContext) -> Response:
    """What a change would do, and to which sessions. It changes nothing."""
    change = _change(context.given("do"))
    chosen, is_more = await (_fitting(context) if context.given("all") else _picked(context))
    looked = [await context.store.read(_look, change, one.uid, context.caller) for one in chosen]
    taken, left = [one for one in looked if one.why is None], [one for one in looked if one.why is not None]
    lines, key = ",".join(one.line for one in taken), new_uid()
    return context.show(
        "bulk_preview.html", change=change, taken=taken, left=left, most=SHOWN, is_more=is_more, lines=lines, key=key,
        digest=_digest(change, key, lines), list_query={name: context.given(name) for name in FILTERS},
    )  # fmt: skip


async def _fitting(context: ConsoleContext) -> tuple[list[SessionRecord], bool]:
    """Every session that fits the filters, up to `MOST`; and whether there are more."""
    kept: dict[str, SessionRecord] = {}
    after: str | None = ""
    while after is not None:
        found = await listing(context, after)
        kept |= {one.uid: one for one, _ in found.sessions}
        after = found.next
        if len(kept) > MOST:
            break
    return list(kept.values())[:MOST], len(kept) > MOST


async def _picked(context: ConsoleContext) -> tuple[list[SessionRecord], bool]:
    """The sessions that were chosen one by one, of those that the caller may see."""
    wanted = list(dict.fromkeys(context.request.query_params.getlist("pick")))
    found = [await _visible(context, uid) for uid in wanted[:MOST]]
    kept = [one for one in found if one is not None]
    return kept, len(wanted) > MOST


async def _visible(context: ConsoleContext, uid: str) -> SessionRecord | None:
    """A session by its uid; None if it is not there for the caller."""
    try:
        one = await context.store.read(sessions.get, uid.replace("\0", ""))
    except NotFound:
        return None
    return one if context.caller.may(Verb.READ_SESSION, one) else None


def _look(tx: StoreTransaction, change: SessionChange, uid: str, caller: Caller) -> PreviewRow:
    now, waits = sessions.get(tx, uid), wait.open_of_session(tx, uid)
    if not caller.may(Verb.STEER_SESSION, now):
        return PreviewRow(now, waits, "You may not change it.")
    return PreviewRow(now, waits, objection(tx, change, now, waits))


async def change_many(context: ConsoleContext) -> Response:
    """Change the sessions of a preview that are as they were."""
    change, key, lines = _change(context.field("do")), context.field("key"), context.field("sessions")
    if _KEY.fullmatch(key) is None or _digest(change, key, lines) != context.field("digest"):
        raise Conflict("This is not the list that the page showed.", hint="Choose the sessions again.")
    entries = {one.uid: one for one in map(_entry, lines.split(",") if lines else ())}
    if len(entries) > MOST:
        raise ConfigError(f"{len(entries):,} sessions are more than one change takes: {MOST:,}.")

    async def make(one: SessionRecord) -> Any:
        return await _change_one(context, change, f"{key}:{one.uid}", entries[one.uid])

    gone: list[str] = []
    done = await change_each(_named(context, list(entries), gone), make)
    if gone and len(gone) == len(entries):
        raise NotFound("None of these sessions is there any more.", hint="Choose sessions of the list.")
    return context.show("bulk_result.html", change=change, done=done, gone=gone, most=SHOWN)


async def _named(context: ConsoleContext, uids: list[str], gone: list[str]) -> AsyncIterator[SessionRecord]:
    """The sessions of a form, parents first. What the caller may not see is not there."""
    found: list[SessionRecord] = []
    for uid in uids:
        one = await _visible(context, uid)
        if one is None:
            gone.append(uid)
        else:
            found.append(one)
    for one in sorted(found, key=lambda one: (one.created_at, one.uid)):
        yield one


async def _change_one(context: ConsoleContext, change: SessionChange, key: str, entry: FormEntry) -> Any:
    operation = OPERATIONS[f"sessions.{change}"]
    handled = _of_running(operation) if entry.version is None else operation
    asked = Context(handled, context.request, context.runtime, context.caller)
    asked.params = {"id": entry.uid}
    asked.body = None if operation.body is None else operation.body()
    await context.store.read(authorize, asked)
    if asked.uid != entry.uid:
        raise missing(Touch.SESSION, entry.uid)
    requests: Idempotency = context.request.app.state.idempotency
    return await requests.carry_out_under(asked, key, entry.version)


def _of_running(operation: Operation) -> Operation:
    """The operation for a session that ran in the preview; it is refused if the session does not run any more."""

    async def handle(context: Context) -> Any:
        now = await context.store.read(sessions.get, context.uid)
        if now.status != Status.RUNNING:
            raise VersionChanged(f"It has changed since it was read: it is {now.status}, and was running.")
        return await operation.handle(context)

    return msgspec.structs.replace(operation, handler=handle)


def _change(text: str) -> SessionChange:
    if text not in set(SessionChange):
        raise ConfigError("This button is not known.", hint="Load the page again.")
    return SessionChange(text)


def _entry(line: str) -> FormEntry:
    found = _LINE.fullmatch(line)
    if found is None:
        raise ConfigError("This form is not complete.", hint="Choose the sessions again.")
    return FormEntry(found[1], None if found[2] == RUNS else int(found[2]))


def _digest(change: SessionChange, key: str, lines: str) -> str:
    """Of what the form says, so that a list that was cut or changed on its way is noticed. It grants nothing."""
    return digest(f"bulk {change} {key}\n{lines}")


PAGES = (
    ConsolePage("/bulk", Verb.STEER_SESSION, Touch.LISTING, preview),
    action("/bulk", Verb.STEER_SESSION, Touch.LISTING, change_many),
)
