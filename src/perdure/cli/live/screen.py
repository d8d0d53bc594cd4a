"""The screen of a terminal: lines, a live area below them, and a few rows at the bottom.

The bottom rows are a prompt with what is typed, or what is running and for how long; below them is a row about the
session. The live area above them shows text that still changes: the end of what a model writes or of what a command
prints. Both are drawn again when they change; everything else is printed above them once. If the output cannot be
redrawn (a pipe, a dumb terminal), there are only lines, and live text is printed as it arrives.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from rich.console import Console
from rich.text import Text

from perdure.cli.shell import UNBOUNDED
from perdure.cli.text.grid import columns, fitted
from perdure.cli.text.plain import safe

KEEP = "\n\t"
NOTHING = ("", "")


class Frame(NamedTuple):
    """What is drawn below the lines, and where the cursor is."""

    rows: list[str]
    row: int = 0
    column: int = 0


class Screen:
    """A terminal, or a stream of lines. Text from outside is escaped before it is printed."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(highlight=False, emoji=False, markup=False, legacy_windows=False)
        self.draws = self.console.is_terminal and not self.console.is_dumb_terminal
        self.speaks_unicode = (self.console.encoding or "").lower().startswith("utf")
        self.prompt: str | None = None
        self.keys = ""  # keys that answer the prompt without Enter
        self.typed: Callable[[], tuple[str, str]] = lambda: NOTHING  # before the cursor, and after it
        self.candidates: Callable[[], list[str]] = list  # words that can complete what is typed
        self.info: Callable[[int], str] = lambda _: ""  # about the session, in so many columns
        self.live: Callable[[], list[Text]] = list  # the rows of the live area now, already escaped
        self.is_streaming = False  # the live area has text that will be printed
        self._status = ""
        self._drawn = Frame([])  # what is on the screen
        self._open = False  # a line of streamed text has not ended

    @property
    def width(self) -> int:
        return max(20, self.console.width) if self.console.is_terminal else UNBOUNDED

    @property
    def height(self) -> int:
        return max(10, self.console.height)

    @property
    def is_open(self) -> bool:
        """Whether a line of live text has not ended."""
        return self._open or self.is_streaming

    def line(self, text: str | Text = "", style: str = "") -> None:
        """Print a line. Plain text is escaped, because it may come from anywhere."""
        self._clear()
        self.end()
        shown = text if isinstance(text, Text) else Text(safe(text, keep=KEEP), style)
        self.console.print(shown, soft_wrap=True)
        self._draw()

    def piece(self, text: str) -> None:
        """Print more of a line of live text, on a terminal that cannot be redrawn."""
        self._clear()
        self.console.print(Text(safe(text, keep=KEEP)), soft_wrap=True, end="")
        self._open = not text.endswith("\n")
        if not self._open:
            self._draw()

    def end(self) -> None:
        """End a line of live text."""
        if self._open:
            self.console.print()
            self._open = False

    def ask(self, prompt: str | None, *, keys: str = "") -> None:
        """Show a prompt at the bottom, or none. Each of the `keys` is an answer by itself, without Enter.

        A terminal that edits its own lines delivers a key only with Enter.
        """
        fresh, self.prompt, self.keys, self._status = prompt != self.prompt, prompt, keys, ""
        if self.draws:
            self.refresh()
        elif prompt is not None and fresh:
            self.end()
            self.console.print(Text(prompt), end="", soft_wrap=True)
            self._open = False

    def answered(self, line: str) -> None:
        """The person pressed Enter: what was typed stays on the screen."""
        prompt, self.prompt, self.keys = self.prompt, None, ""
        if self.draws and prompt is not None:
            self.line(Text(prompt + safe(line, keep=KEEP)))

    def refresh(self, status: str | None = None) -> None:
        """Draw the live area and the bottom again: the prompt, or the status, which stays until the next prompt."""
        if status is not None:
            self._status = status
        self.redraw()

    def redraw(self) -> None:
        """Draw what has changed."""
        if self.draws and not self._open and self._frame() != self._drawn:
            self._clear()
            self._draw()

    def _frame(self) -> Frame:
        """The rows of the live area, each cut to the width, and the bottom."""
        bottom = self._bottom()
        room = max(1, self.height - len(bottom.rows) - 1)
        live = [self._row(row) for row in self.live()[-room:]]
        if live and not bottom.rows:
            bottom = Frame([""])
        return Frame([*live, *bottom.rows], len(live) + bottom.row, bottom.column)

    def _bottom(self) -> Frame:
        """The status and what is typed, or the prompt and what is typed; then the row about the session."""
        typed, room, rows = self.typed(), self.width - 1, list[str]()
        prompt = self.prompt
        if prompt is None and self._status:
            rows = [fitted(self._status, room).rstrip()]
        if prompt is None and typed != NOTHING:
            prompt = "> "
        row, column = max(0, len(rows) - 1), columns(rows[-1]) if rows else 0
        if prompt is not None:
            shown, at, column = input_rows(prompt, *typed, room, max(3, self.height // 3))
            row = len(rows) + at
            rows += shown
        if rows and (found := self.candidates()):
            rows.append(self._row(Text(safe("  ".join(found)), "dim")))
        if rows and (about := self.info(room)):
            rows.append(self._row(Text(safe(about), "dim")))
        return Frame(rows, row, column)

    def _row(self, row: Text) -> str:
        shown = row.copy()
        shown.expand_tabs(4)
        shown.truncate(self.width - 1, overflow="ellipsis" if self.speaks_unicode else "crop")
        with self.console.capture() as captured:
            self.console.print(shown, end="", soft_wrap=True)
        return captured.get()

    def _clear(self) -> None:
        rows, row, _ = self._drawn
        if rows:
            up = f"\x1b[{row}A" if row else ""
            self.console.file.write(f"\r{up}\x1b[J" if len(rows) > 1 else "\r\x1b[2K")
            self._drawn = Frame([])

    def _draw(self) -> None:
        if self.draws and not self._open:
            rows, row, column = self._drawn = self._frame()
            self.console.file.write("\n".join(rows))
            up = len(rows) - 1 - row
            if rows and (up or column != columns(rows[row])):
                right = f"\x1b[{column}C" if column else ""
                self.console.file.write("\r" + (f"\x1b[{up}A" if up else "") + right)
        self.console.file.flush()

    def leave(self) -> None:
        """Remove the live area and the bottom."""
        self._clear()
        self.end()
        self._status, self.prompt, self.keys, self.live = "", None, "", list
        self.typed = lambda: NOTHING
        self.console.file.flush()


def make_screen(file: Any = None) -> Screen:
    """A screen on a stream, by default the standard output."""
    console = Console(file=file or sys.stdout, highlight=False, emoji=False, markup=False, legacy_windows=False)
    return Screen(console)


def input_rows(prompt: str, before: str, after: str, width: int, most: int) -> tuple[list[str], int, int]:
    """A prompt and what is typed, wrapped; at most so many rows around the cursor, its row among them, its column."""
    start, end = (safe(text.replace("\t", "    "), keep="\n") for text in (before, after))
    reached, rows = wrap(prompt + start, width), wrap(prompt + start + end, width)
    row, column = len(reached) - 1, columns(reached[-1])
    if column == width:  # the next character is on the next row
        row, column = row + 1, 0
        rows += [""] * (row + 1 - len(rows))
    first = max(0, min(row - most + 1 + (row < len(rows) - 1), len(rows) - most))
    return rows[first : first + most], row - first, column


def wrap(text: str, width: int) -> list[str]:
    """The rows that a text takes on a terminal."""
    rows = []
    for line in text.split("\n"):
        row, used = "", 0
        for one in line:
            if used + columns(one) > width:
                rows.append(row)
                row, used = "", 0
            row, used = row + one, used + columns(one)
        rows.append(row)
    return rows
