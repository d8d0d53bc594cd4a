"""The bottom of the screen, on a terminal that is smaller than what is typed."""

from __future__ import annotations

import io

import pyte
import pytest
from rich.console import Console

from perdure.cli.live.screen import Screen, input_rows


class SmallTerminal:
    """A terminal of 10 rows and 30 columns, as a terminal emulator shows it."""

    def __init__(self) -> None:
        self.emulator = pyte.Screen(30, 10)
        self._stream = pyte.Stream(self.emulator)
        self._out = io.StringIO()
        console = Console(file=self._out, force_terminal=True, width=30, height=10, highlight=False, color_system=None)
        self.screen = Screen(console)
        self.typed = ("", "")
        self.screen.typed = lambda: self.typed

    def rows(self) -> list[str]:
        self._stream.feed(self._out.getvalue().replace("\n", "\r\n"))
        self._out.seek(0)
        self._out.truncate()
        return [row.rstrip() for row in self.emulator.display if row.strip()]

    @property
    def cursor(self) -> tuple[int, int]:
        return self.emulator.cursor.y, self.emulator.cursor.x


def test_typed_text_stays_while_lines_scroll() -> None:
    small = SmallTerminal()
    small.screen.info = lambda _: "about the session"
    small.screen.ask("> ")
    for number in range(30):
        small.typed = ("x" * number + "\nsecond", " row")
        small.screen.line(f"line {number}")
    assert small.rows()[-5:] == ["line 29", "> " + "x" * 27, "xx", "second row", "about the session"]
    assert small.cursor == (8, 6)
    small.screen.leave()
    assert small.rows()[-1] == "line 29"
    assert not any("second" in row or "about" in row for row in small.rows())


def test_status_and_typed_text_are_shown_together() -> None:
    small = SmallTerminal()
    small.screen.refresh("thinking " * 9)
    assert [len(row) for row in small.rows()] == [29]
    small.typed = ("wait", "")
    small.screen.refresh()
    assert small.rows()[1:] == ["> wait"]
    small.screen.candidates = lambda: ["@a.py", "@b.py"]
    small.screen.refresh("short")
    assert small.rows() == ["short", "> wait", "@a.py  @b.py"]
    assert small.cursor == (1, 6)


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        ("", "", (["> "], 0, 2)),
        ("abcdef", "", (["> abcdef", ""], 1, 0)),
        ("abcdefg", "h", (["> abcdef", "gh"], 1, 1)),
        ("日本語", "の", (["> 日本語", "の"], 1, 0)),
        ("1\n2\n3\n4", "\n5\n6", (["3", "4", "5"], 1, 1)),
        ("1", "\n2\n3\n4", (["> 1", "2", "3"], 0, 3)),
        ("1\n2\n3\n4", "", (["2", "3", "4"], 2, 1)),
    ],
)
def test_rows_around_the_cursor_are_shown(before: str, after: str, shown: tuple[list[str], int, int]) -> None:
    assert input_rows("> ", before, after, 8, 3) == shown
