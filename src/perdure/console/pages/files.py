"""What an agent changed in its files, and what a run would do with unsettled effects."""

from __future__ import annotations

import msgspec
from starlette.responses import Response

from perdure.console import inbox_item
from perdure.console.intent import DiffLine, diff_lines
from perdure.console.page import ConsoleContext, ConsolePage
from perdure.console.pages.session import show_page
from perdure.control.branches.files import FileDiff
from perdure.domain.caller import Verb
from perdure.errors import PerdureError
from perdure.server.operation import Touch
from perdure.store.move import StoreTransaction
from perdure.store.moves import wait

HEAD = "diff --git "


class ChangedFile(msgspec.Struct, frozen=True):
    """One file of a difference."""

    name: str
    lines: list[DiffLine]
    left_out: int = 0

    @property
    def added(self) -> int:
        return sum(one.sign == "+" for one in self.lines)

    @property
    def removed(self) -> int:
        return sum(one.sign == "-" for one in self.lines)


async def show(context: ConsoleContext) -> Response:
    first, last = (context.number(name, 0) or None for name in ("first", "last"))
    problem, found = "", None
    try:
        found = await context.runtime.diff(context.uid, first=first, last=last)
    except PerdureError as error:
        problem = error.message
    return await show_page(
        context, "files.html", "files", problem=problem, diff=found, files=[] if found is None else changed(found)
    )


def changed(found: FileDiff) -> list[ChangedFile]:
    """The files of a difference, each with its lines."""
    made: list[ChangedFile] = []
    for part in ("\n" + found.text).split(f"\n{HEAD}")[1:]:
        head, _, rest = part.partition("\n")
        name = head.rpartition(" b/")[2] or head
        header, at, hunks = ("\n" + rest).partition("\n@@ ")
        kept = [one for one in header.split("\n") if one and not one.startswith(("index ", "--- ", "+++ "))]
        lines, left_out = diff_lines("\n".join([*kept, *([at[1:] + hunks] if at else [])]))
        made.append(ChangedFile(name.strip('"'), lines, left_out))
    return made


async def recovery(context: ConsoleContext) -> Response:
    steps = await context.runtime.recovery_plan(context.uid)
    assert context.session is not None
    session, whole = context.session, context.runtime.values.whole

    def read(tx: StoreTransaction) -> list[inbox_item.InboxItem]:
        needs = inbox_item.of_session(tx, session, wait.open_of_session(tx, session.uid), context.caller, whole)
        inbox_item.will_show(tx, context, needs)
        return needs

    needs = await context.store.read(read)
    await context.record_reads()
    return await show_page(context, "recovery.html", "recovery", steps=steps, needs=needs)


PAGES = (
    ConsolePage("/sessions/{id}/files", Verb.READ_SESSION, Touch.SESSION, show),
    ConsolePage("/sessions/{id}/recovery", Verb.READ_SESSION, Touch.SESSION, recovery),
)
