"""The status line: what it says while a session thinks, writes, runs something or waits."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from perdure.cli.display.activity import Activity
from perdure.cli.live.screen import Screen

SECOND = 1_000_000


class StatusLine:
    """An activity whose time is given, and the text of its status line without the spinner."""

    def __init__(self, width: int = 60) -> None:
        self.now = 0
        self.output: list[str] = []
        console = Console(file=io.StringIO(), force_terminal=True, width=width)
        self.activity = Activity(Screen(console), lambda: self.now, lambda *_: self.output)

    def call(self, type_: str, status: str, id: str = "c-1", command: str = "make test") -> None:
        item = {"id": id, "kind": "tool_call", "name": "run_command", "arguments": {"command": command}}
        more: dict[str, Any] = {"status": status, "effect": "e-1", "attempt": 1}
        self.activity.show({"type": type_, "at": self.now, "item": item | more})

    @property
    def text(self) -> str:
        return self.activity.status(0)[2:]


def test_command_is_named_with_its_time_after_it_was_approved() -> None:
    line = StatusLine()
    line.now = 4 * SECOND
    assert line.text == "thinking · 4 s"
    line.call("item.started", "called")
    line.call("item.updated", "planned")
    assert line.text == "thinking · 0 s"
    line.now += 100 * SECOND
    line.call("item.updated", "running")
    line.now += 62 * SECOND
    assert line.text == "running `make test` · 1 min 2 s"
    line.call("item.started", "called", id="c-2", command="second")
    assert line.text == "running `make test` and 1 more · 1 min 2 s"
    for id in ("c-1", "c-2"):
        line.call("item.completed", "done", id=id)
    assert line.text == "thinking · 0 s"


def test_output_disappears_with_the_end_of_its_command() -> None:
    line = StatusLine()
    line.call("item.started", "called")
    line.call("item.updated", "running")
    line.output = ["a\tb\u202e"]
    assert line.text == "running `make test` · 0 s"
    assert [row.plain for row in line.activity.rows] == ["    a   b\\u202e"]
    line.call("item.completed", "done")
    assert line.activity.rows == []


@pytest.mark.parametrize("command", ["x" * 300, "漢" * 300, "one\ntwo", "\x1b[2J\u202e"])
def test_long_or_hostile_command_leaves_room_for_its_time(command: str) -> None:
    line = StatusLine(width=30)
    line.call("item.started", "called", command=command)
    assert line.text.startswith("running `")
    assert line.text.endswith(" · 0 s")
    assert line.text.isprintable()
    assert Console(width=100).measure(line.text).maximum <= 28
