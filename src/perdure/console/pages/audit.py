"""The questions of an audit in groups, and their answers as tables, with a bar for each number and plots over days."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from perdure.console.page import ConsoleContext, ConsolePage
from perdure.console.plots.day_plot import HEIGHT, DayPlot, plot
from perdure.console.text.question_group import LABELS, grouped
from perdure.domain.caller import Verb
from perdure.errors import NotFound, PerdureError
from perdure.server.operation import Touch
from perdure.store.audit.question import AuditColumn, AuditQuestion, ColumnKind

SHOWN = 500
BAR = 80  # pixels
MEASURED = frozenset({ColumnKind.COUNT, ColumnKind.COST})
BY_DAY = {  # what is plotted over days: its name, the column with the time, and the one with the number
    "costs": ("Cost", "day", "cost_micros"), "approvals": ("Approvals asked for", "at", None),
    "refused": ("Calls that were not allowed", "at", None),
}  # fmt: skip
LISTED = frozenset({"number", "attempt"})  # numbers that say which, not how many


async def show(context: ConsoleContext) -> Response:
    return context.show("audit.html", groups=grouped(context.runtime.audit_questions()))


async def answer(context: ConsoleContext) -> Response:
    name = context.params["question"]
    question = next((one for one in context.runtime.audit_questions() if one.name == name), None)
    if question is None:
        raise NotFound(f"There is no question {name!r:.60}.")
    given = {one.name: context.given(one.name) for one in question.parameters}
    span = {name: context.given(name) for name in ("since", "until")}
    problem, rows = "", []
    is_asked = not question.needed or any(given[name] for name in question.needed)
    if is_asked:
        try:
            rows = await _rows(context, name, given, span)
        except PerdureError as error:
            problem = error.message
    return context.show(
        "answer.html", question=question, given=given, span=span, rows=rows[:SHOWN], is_asked=is_asked,
        problem=problem, is_cut=len(rows) > SHOWN, bars=_bars(question, rows), plot=_plot(question, rows),
        labels=LABELS, height=HEIGHT,
    )  # fmt: skip


def _plot(question: AuditQuestion, rows: list[Any]) -> DayPlot | None:
    """The answer by day, where that says something."""
    if question.name not in BY_DAY:
        return None
    name, time, value = BY_DAY[question.name]
    names = [one.name for one in question.columns]
    place = None if value is None else names.index(value)
    seen: set[Any] = set()
    found: list[tuple[int | str, int]] = []
    for row in rows:
        key = row[names.index("approval")] if question.name == "approvals" else object()
        if key not in seen and row[names.index(time)] is not None:  # each vote is a row of its approval
            seen.add(key)
            found.append((row[names.index(time)], 1 if place is None else row[place] or 0))
    return plot(name, found, is_cost=value is not None)


async def _rows(context: ConsoleContext, name: str, given: dict[str, str], span: dict[str, str]) -> list[Any]:
    asked: Any = {key: value or None for key, value in (given | span).items()}
    return [one.values async for one in context.runtime.audit(name, **asked, limit=SHOWN + 1)]


def _bars(question: AuditQuestion, rows: list[Any]) -> dict[int, float]:
    """For each column with numbers of things, the pixels of one of them."""
    found: dict[int, float] = {}
    for place, column in enumerate(question.columns):
        if _is_measured(column):
            largest = max((row[place] or 0 for row in rows), default=0)
            found |= {place: BAR / largest} if largest else {}
    return found


def _is_measured(column: AuditColumn) -> bool:
    return column.kind in MEASURED and column.name not in LISTED


PAGES = (
    ConsolePage("/audit", Verb.READ_AUDIT, Touch.STORE, show),
    ConsolePage("/audit/{question}", Verb.READ_AUDIT, Touch.STORE, answer),
)
