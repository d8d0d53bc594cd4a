"""Stored events and values as text, whatever they contain."""

from __future__ import annotations

import re
from typing import Any

import pytest

from perdure.cli.commands.effects import STATES
from perdure.cli.commands.ls import KINDS, STATUSES
from perdure.cli.text import plain
from perdure.cli.text.grid import columns, grid
from perdure.cli.text.sentence import SENTENCES, line, sentence
from perdure.clock import format_time, span
from perdure.domain.effect import EffectState
from perdure.domain.event import Event
from perdure.domain.session import Status
from perdure.domain.wait import WaitKind
from tests.tidy.source import files, text

KNOWN = sorted(
    {
        kind
        for path in files("src/perdure/store/migrations", suffix=".sql")
        for block in re.findall(r"insert into event_kind \(kind, meaning\) values(.*?);", text(path), re.DOTALL)
        for kind in re.findall(r"\('([a-z_.]+)'", block)
    }
)
NOT_YET = {"inbox.promoted", "session.forked", "child.started"}  # kinds that nothing writes
HOSTILE: list[Any] = [
    None,
    {},
    {"rows": {}},
    {"rows": None},
    {"rows": {"session": 3}},
    [],
    7,
    "x\x1b[2J",
    {"a": "\u202e"},
]


def event(kind: str, body: Any, actor: str = "ada") -> Event:
    return Event("u", 7, kind, actor, 0, "e-1", "m", body, None, "d", "c")


def test_choices_are_those_of_the_domain() -> None:
    assert (tuple(Status), tuple(WaitKind), tuple(EffectState)) == (STATUSES, KINDS, STATES)


def test_every_kind_of_event_has_a_sentence() -> None:
    said = set(SENTENCES) | {kind for kind in KNOWN if kind.startswith("effect.")}
    assert set(KNOWN) - said == NOT_YET
    for kind in (kind for kind in KNOWN if kind.startswith("effect.")):
        assert not sentence(event(kind, {"attempt": 1}), {"e-1": "post"}).startswith(kind), kind


@pytest.mark.parametrize("kind", [*KNOWN, "something.newer"])
def test_any_event_body_becomes_one_escaped_line(kind: str) -> None:
    assert all(line(event(kind, body, actor="a\nb\x07"), {}).isprintable() for body in HOSTILE)


def test_sentences_of_events() -> None:
    happened = event("effect.acknowledged", {"attempt": 1, "rows": {"effect": [{"id": "e-1", "result": "7"}]}})
    assert line(happened, {"e-1": "post"}) == "     7  1970-01-01 00:00:00Z  post e-1 happened: 7"
    assert sentence(event("cancel.requested", {}), {}) == "ada requested to cancel it"
    assert sentence(event("message", {"role": "user", "content": "hi"}), {}) == "user: hi"


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(-5, "0s"), (0, "0s"), (59, "59s"), (60, "1m"), (3599, "59m"), (7200, "2h"), (7500, "2h 5m"), (90000, "1d 1h")],
)
def test_duration_has_its_two_largest_units(seconds: int, said: str) -> None:
    assert span(seconds * 1_000_000) == said


def test_text_is_shortened_and_escaped() -> None:
    assert plain.short("a" * 300, 10) == "aaaaaaaaa…"
    assert plain.short("a\nb\x1b\u202e\ud800") == "a\\nb\\x1b\\u202e\\ud800"
    assert plain.safe("a\nb\t", keep="\n\t") == "a\nb\t"
    assert format_time(2**62) == f"{2**62} µs"
    assert plain.error({"type": "ValueError", "message": "no"}) == "ValueError: no"
    assert plain.call("f", {"a": 1, "b": "x"}) == 'f(a=1, b="x")'


def test_table_cuts_only_marked_columns() -> None:
    rows = [["e-0123456789abcdef", "a long story without an end"], ["e-1", ""]]
    assert grid(("id", "story~"), rows, width=40) == [
        "id                  story",
        "e-0123456789abcdef  a long story withou…",
        "e-1                 -",
    ]
    assert "e-0123456789abcdef  a long stor…" in grid(("id", "story~"), rows, width=10)
    assert columns("日本") == 4
    assert [columns(one) for one in grid(("a~", "b"), [["日本語日本語日本語", "x"]], width=16)] == [16, 16]
