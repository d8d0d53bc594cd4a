"""The report of an audit: its figures are those of the questions, and nothing in it can do harm."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from perdure.control.audit.report import AuditReport, AuditSection, gather
from perdure.control.audit.report_page import page
from perdure.control.plot.bars import LOOKS, BarPlot, BarSeries, draw
from perdure.evaluation.audit.history import AuditHistory, write_history
from perdure.store.audit.answers import DAY, AuditRange
from perdure.store.moves import message, session
from perdure.store.store import Store
from perdure.testing import ManualClock
from tests.store.support.sessions import a_holder

HOSTILE = "</title><script>alert(1)</script><img src=x onerror=alert(1)>\u202e\x1b[31m&"


def report(store: Store, history: AuditHistory) -> AuditReport:
    return store.read_now(gather, AuditRange(history.since, history.until))


def section(made: AuditReport, title: str) -> AuditSection:
    return next(one for one in made.sections if one.title == title)


def figures(one: AuditSection) -> dict[str, list[str]]:
    return {row[0]: row[1:] for row in one.table.rows}


@pytest.mark.databases("sqlite", "postgres")
def test_figures_of_a_report_are_the_truth(store: Store) -> None:
    history = write_history(store, events=4_000, recent=2_000)
    made = report(store, history)
    effects = section(made, "Effects")
    assert effects.plot is not None
    failed = effects.table.columns.index("failed") - 1
    assert figures(effects)["outside"][failed] == str(len(history.truth["failed-runs"]))
    edits = {row[1] for row in history.truth["targets"] if row[2].startswith("path:")}
    assert sum(int(cell) for cell in figures(effects)["workspace"]) == len(edits)
    decisions = [row[2] for row in history.truth["approvals"]]
    waited = figures(section(made, "Waiting for people"))
    assert sum(int(row[0]) for row in waited.values()) == len([one for one in decisions if one != "waiting"])
    assert sum(int(row[1]) for row in waited.values()) == decisions.count("waiting") > 0
    assert len(section(made, "Waiting now").table.rows) == len(history.truth["waiting"])
    doubts = section(made, "Doubts")
    opened = sum(int(row[0]) for row in figures(doubts).values())
    assert opened == len([row for row in history.truth["incidents"] if row[2] == "doubted"])
    assert f"Now in doubt: {len(history.truth['doubts'])}." in doubts.text
    cost = section(made, "Cost")
    assert cost.plot is not None
    spent = sum(sum(one.values) for one in cost.plot.series)
    assert spent == pytest.approx(sum(row[-1] for row in history.truth["costs"]) / 1e6)


@pytest.mark.databases("memory")
def test_hostile_text_stays_text(store: Store, clock: ManualClock) -> None:
    made = session.NewSession(id="s-1", program="agent", arguments={}, title=HOSTILE, owner=HOSTILE)
    found = store.write_now(session.create(made, by="ada"))
    spent = message.add_usage(
        a_holder(store, found.uid), tokens_in=1, tokens_out=1, cost_micros=5_000_000, model=HOSTILE
    )
    store.write_now(spent)
    text = page(store.read_now(gather, AuditRange(clock.now() - DAY)))
    assert "&lt;script&gt;" in text
    assert not re.search(r"<(script|img|iframe|link|object)|\u202e|\x1b", text)
    assert "default-src &#x27;none&#x27;" in text
    assert not re.search(r"""<[^>]*\s(src|href|on\w+)=|url\((?!#)""", text)


@pytest.mark.databases("memory")
def test_an_empty_store_has_a_report(store: Store) -> None:
    text = page(store.read_now(gather, AuditRange()))
    for drawn in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
        ElementTree.fromstring(drawn)
    assert text.count("<svg") == 4
    assert "Nothing is on record." in text


def test_parts_of_bars_differ_without_colour() -> None:
    """Two parts differ in lightness, or in their pattern."""
    grey = [(sum(int(fill[n : n + 2], 16) for n in (1, 3, 5)) // 90, path) for fill, path, _ in LOOKS]
    assert len(set(grey)) == len(LOOKS)
    names = [f"part {number}" for number in range(len(LOOKS) + 1)]
    drawn = draw(BarPlot("t", "x", "y", ["a", "b"], [BarSeries(one, [1.0, 0.0]) for one in names]), "p")
    ElementTree.fromstring(drawn)
    assert "a: part 0 1, part 1 1" in drawn
