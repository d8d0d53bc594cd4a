"""A report on a range of time: what it shows is computed from the answers to questions, and from nothing else."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from itertools import islice

import msgspec

from perdure.clock import SECOND, format_time
from perdure.control.plot.bars import BarPlot, BarSeries
from perdure.domain.effect import EffectReach, EffectState
from perdure.store.audit import answers
from perdure.store.audit.answers import DAY, FOREVER, AuditRange
from perdure.store.audit.question import AuditRow
from perdure.store.audit.questions import QUESTIONS
from perdure.store.move import StoreTransaction
from perdure.store.moves import meta

ROWS = 50  # of a table that lists rows
MOST_BARS = 60  # days; beyond it several days share a bar
MOST_MODELS = 7  # that have a part of their own; the others share one
LONGEST = 60  # characters of a name
MINUTE, HOUR = 60 * SECOND, 3600 * SECOND
PATIENCE = (
    ("< 1 min", MINUTE), ("< 10 min", 10 * MINUTE), ("< 1 h", HOUR), ("< 8 h", 8 * HOUR),
    ("< 1 day", DAY), ("longer", FOREVER),
)  # fmt: skip
LISTED = ("controls", "refused", "exemptions", "incidents", "failed-runs", "retries", "changes", "access")


class AuditTable(msgspec.Struct, frozen=True):
    columns: list[str]
    rows: list[list[str]]
    more: bool = False  # there are rows that are not in it


class AuditSection(msgspec.Struct, frozen=True, kw_only=True):
    """A heading, a sentence, a plot if there is one, and the table with its figures."""

    title: str
    text: str
    table: AuditTable
    plot: BarPlot | None = None


class AuditReport(msgspec.Struct, frozen=True, kw_only=True):
    """A report on the time from `since` to `until`."""

    store: str
    made_at: int
    since: int
    until: int
    sections: list[AuditSection]


def gather(tx: StoreTransaction, span: AuditRange) -> AuditReport:
    """Compute a report."""
    until = min(span.until, tx.now + 1)
    span = AuditRange(since=span.since, until=until)
    sections = [_reach(tx, span), _waiting(tx, span), _open_waits(tx), _doubts(tx, span), _costs(tx, span)]
    sections += [_listed(tx, name, span) for name in LISTED]
    return AuditReport(
        store=meta.get(tx, "store_id") or "", made_at=tx.now, since=span.since, until=until, sections=sections
    )


def _reach(tx: StoreTransaction, span: AuditRange) -> AuditSection:
    counts: Counter[tuple[str, str]] = Counter()
    for row in answers.answer(tx, "reach", {}, span):
        counts[row["reach"], row["state"]] = row["effects"]
    reaches = [str(one) for one in EffectReach]
    states = [str(one) for one in EffectState if any(counts[reach, one] for reach in reaches)]
    plot = BarPlot(
        "Effects by reach and outcome", "how far the effect reaches", "effects", reaches,
        [BarSeries(state, [float(counts[reach, state]) for reach in reaches]) for state in states],
    )  # fmt: skip
    table = AuditTable(["reach", *states], [[one, *(str(counts[one, state]) for state in states)] for one in reaches])
    return AuditSection(
        title="Effects", text="Effects that were planned in this time, by how far they reach.", table=table, plot=plot
    )


def _waiting(tx: StoreTransaction, span: AuditRange) -> AuditSection:
    """How long people took to decide; an approval that is open waits until now."""
    seen: set[str] = set()
    decided, still = [0] * len(PATIENCE), [0] * len(PATIENCE)
    for row in answers.answer(tx, "approvals", {}, span):
        if row["approval"] in seen or row["decision"] == "withdrawn":
            continue
        seen.add(row["approval"])
        took = (row["decided_at"] if row["decided_at"] is not None else tx.now) - row["at"]
        place = next(number for number, (_, limit) in enumerate(PATIENCE) if took < limit)
        (still if row["decided_at"] is None else decided)[place] += 1
    labels = [name for name, _ in PATIENCE]
    plot = BarPlot(
        "How long approvals waited", "time from the question to the decision, or until now", "approvals", labels,
        [BarSeries("decided", list(map(float, decided))), BarSeries("still waiting", list(map(float, still)))],
    )  # fmt: skip
    rows = [[label, str(done), str(left)] for label, done, left in zip(labels, decided, still, strict=True)]
    return AuditSection(
        title="Waiting for people", text="Approvals that were asked for in this time.",
        table=AuditTable(["waited", "decided", "still waiting"], rows), plot=plot,
    )  # fmt: skip


def _open_waits(tx: StoreTransaction) -> AuditSection:
    section = _listed(tx, "waiting", AuditRange())
    return msgspec.structs.replace(section, title="Waiting now", text="What waits for a person now, the longest first.")


def _doubts(tx: StoreTransaction, span: AuditRange) -> AuditSection:
    words = {"effect.doubted": "opened", "effect.settled": "settled by a person"}
    counts: dict[str, Counter[int]] = {name: Counter() for name in words}
    for row in answers.answer(tx, "incidents", {}, span):
        if row["what"] in counts:
            counts[row["what"]][row["at"] // DAY] += 1
    found = {words[name]: {day: float(one) for day, one in days.items()} for name, days in counts.items()}
    plot, table = _by_day("Doubts by day", "events", found, span, lambda value: f"{value:.0f}")
    now = sum(1 for _ in answers.answer(tx, "doubts", {}, AuditRange()))
    return AuditSection(
        title="Doubts",
        text=f"Effects whose outcome was not known: how many were put in doubt, and settled. Now in doubt: {now}.",
        table=table,
        plot=plot,
    )


def _costs(tx: StoreTransaction, span: AuditRange) -> AuditSection:
    spent: dict[str, Counter[int]] = defaultdict(Counter)
    owners: Counter[str] = Counter()
    for row in answers.answer(tx, "costs", {}, span):
        spent[(row["model"] or "not recorded")[:LONGEST]][_day_number(row["day"])] += row["cost_micros"]
        owners[(row["owner"] or "no owner")[:LONGEST]] += row["cost_micros"]
    order = sorted(spent, key=lambda model: (-spent[model].total(), model))
    found = {model: {day: cost / 1e6 for day, cost in spent[model].items()} for model in order[:MOST_MODELS]}
    if rest := order[MOST_MODELS:]:
        found["other models"] = {
            day: sum(spent[model][day] for model in rest) / 1e6 for day in {day for one in rest for day in spent[one]}
        }
    plot, table = _by_day("Cost by day and model", "dollars", found, span, lambda value: f"${value:.4f}")
    dearest = ", ".join(f"{owner} ${cost / 1e6:.2f}" for owner, cost in owners.most_common(5)) or "none"
    return AuditSection(
        title="Cost", text=f"What models cost, by whole days. By owner: {dearest}.", table=table, plot=plot
    )


def _day_number(day: str) -> int:
    from datetime import date

    return (date.fromisoformat(day) - date(1970, 1, 1)).days


def _by_day(
    title: str, unit: str, found: dict[str, dict[int, float]], span: AuditRange, show: Callable[[float], str]
) -> tuple[BarPlot, AuditTable]:
    """Figures by day, as a plot and as its table; several days share a bar if there are many."""
    days = {day for one in found.values() for day in one}
    first = span.since // DAY if span.since else min(days, default=(span.until - 1) // DAY)
    last = max((span.until - 1) // DAY, first)
    step = -(-(last - first + 1) // MOST_BARS)
    starts = range(first, last + 1, step)
    labels = [format_time(day * DAY)[5:10] for day in starts]
    series = [
        BarSeries(name, [sum(one.get(day, 0.0) for day in range(start, start + step)) for start in starts])
        for name, one in found.items()
    ]
    long = [format_time(day * DAY)[:10] for day in starts]
    rows = [[label, *(show(one.values[place]) for one in series)] for place, label in enumerate(long)]
    axis = "day, in UTC" if step == 1 else f"{step} days from this one, in UTC"
    return BarPlot(title, axis, unit, labels, series), AuditTable([axis, *(one.name for one in series)], rows)


def _listed(tx: StoreTransaction, name: str, span: AuditRange) -> AuditSection:
    """The first rows of an answer."""
    question = QUESTIONS[name]
    found: Iterable[AuditRow] = answers.answer(tx, name, {}, span, limit=ROWS + 1)
    rows = [question.texts(row) for row in islice(found, ROWS + 1)]
    heads = ["cost" if one.name == "cost_micros" else one.name.replace("_", " ") for one in question.columns]
    table = AuditTable(heads, rows[:ROWS], more=len(rows) > ROWS)
    return AuditSection(title=name.replace("-", " ").capitalize(), text=question.sentence, table=table)
