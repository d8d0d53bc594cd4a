"""The screen of a terminal: lines, a live area below them, and one row at the bottom.

The bottom row is a prompt with what is typed, or what is running and for how long. The live area above it shows text
that still changes: the end of what a model writes or of what a command prints. Both are drawn again when they change;
everything else is printed above them once. If the output cannot be redrawn (a pipe, a dumb terminal), there are only
lines, and live text is printed as it arrives.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.text import Text

from perdure.cli.shell import UNBOUNDED
from perdure.cli.text.grid import columns, fitted
from perdure.cli.text.plain import safe

KEEP = "\n\t"


class Screen:
    """A terminal, or a stream of lines. Text from outside is escaped before it is printed."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(highlight=False, emoji=False, markup=False, legacy_windows=False)
        self.draws = self.console.is_terminal and not self.console.is_dumb_terminal
        self.speaks_unicode = (self.console.encoding or "").lower().startswith("utf")
        self.prompt: str | None = None
        self.keys = ""  # keys that answer the prompt without Enter
        self.typed: Callable[[], str] = str
        self.live: Callable[[], list[Text]] = list  # the rows of the live area now, already escaped
        self.is_streaming = False  # the live area has text that will be printed
        self._bottom = ""
        self._drawn: list[str] = []  # the rows of the live area and the bottom row that are on the screen
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
        fresh, self.prompt, self.keys = prompt != self.prompt, prompt, keys
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
            self._clear()
            self._bottom = ""
            self.line(Text(prompt + safe(line)))

    def refresh(self, status: str | None = None) -> None:
        """Draw the live area and the bottom row again: the prompt, or the status."""
        if not self.draws or self._open:
            return
        typed = safe(self.typed())
        text = self.prompt + typed if self.prompt is not None else " ".join(filter(None, (status, typed)))
        room = self.width - 1
        while columns(text) > room:
            text = "…" + text[2:] if typed else fitted(text, room)
        self._bottom = text
        self.redraw()

    def redraw(self) -> None:
        """Draw the live area again, above the same bottom row."""
        if self.draws and not self._open and self._rows() != self._drawn:
            self._clear()
            self._draw()

    def _rows(self) -> list[str]:
        """The rows of the live area, each cut to the width, and the bottom row."""
        rows = [self._row(row) for row in self.live()[-(self.height - 2) :]]
        return [*rows, self._bottom] if self._bottom or rows else []

    def _row(self, row: Text) -> str:
        shown = row.copy()
        shown.expand_tabs(4)
        shown.truncate(self.width - 1, overflow="ellipsis" if self.speaks_unicode else "crop")
        with self.console.capture() as captured:
            self.console.print(shown, end="", soft_wrap=True)
        return captured.get()

    def _clear(self) -> None:
        if self._drawn:
            up = len(self._drawn) - 1
            self.console.file.write(f"\r\x1b[{up}A\x1b[J" if up else "\r\x1b[2K")
            self._drawn = []

    def _draw(self) -> None:
        if self.draws and not self._open:
            self._drawn = self._rows()
            self.console.file.write("\n".join(self._drawn))
        self.console.file.flush()

    def leave(self) -> None:
        """Remove the live area and the bottom row."""
        self._clear()
        self.end()
        self._bottom, self.prompt, self.keys, self.live = "", None, "", list
        self.console.file.flush()


def make_screen(file: Any = None) -> Screen:
    """A screen on a stream, by default the standard output."""
    console = Console(file=file or sys.stdout, highlight=False, emoji=False, markup=False, legacy_windows=False)
    return Screen(console)
