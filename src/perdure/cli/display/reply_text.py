"""The text of a model on a screen while it arrives.

On a terminal that can be redrawn, finished lines are rendered and printed, and the line that is being written is in the
live area. Anywhere else the text is printed as it is, a word at a time.
"""

from __future__ import annotations

from collections.abc import Callable

from rich.text import Text

from perdure.cli.display.markdown import MarkdownStream
from perdure.cli.live.screen import Screen

INTERVAL = 50_000  # microseconds between two drawings of the line that is being written


class ReplyText:
    """One reply after another."""

    def __init__(self, screen: Screen, now: Callable[[], int]) -> None:
        self.rows: list[Text] = []  # of the line that is being written
        self.received = ""
        self._screen = screen
        self._now = now
        self._markdown: MarkdownStream | None = None
        self._word = ""  # the end of the text, where it is printed by words
        self._drawn = 0

    def append(self, piece: str) -> None:
        """One more piece has arrived."""
        self.received += piece
        if not self._screen.draws:
            words = self._word + piece
            cut = max(words.rfind(" "), words.rfind("\n")) + 1
            self._word = words[cut:]
            if cut:
                self._screen.piece(words[:cut])
            return
        if self._markdown is None:
            self._markdown = self._new_stream()
        self._screen.is_streaming = True
        rows = self._markdown.feed(piece)
        if rows or self._now() - self._drawn >= INTERVAL:
            self.update()
            self._print(rows)

    def update(self) -> None:
        """Render the line that is being written again."""
        if self._markdown is not None:
            self._drawn = self._now()
            self.rows = self._markdown.pending()

    def end(self) -> None:
        """The text is complete, or breaks off."""
        self.received, self.rows = "", []
        self._screen.is_streaming = False
        if self._markdown is not None:
            self._print(self._markdown.end())
            self._markdown = None
        elif self._word:
            self._screen.piece(self._word)
            self._word = ""
        self._screen.end()

    def whole(self, text: str) -> None:
        """Show a text that has not arrived in pieces."""
        if not self._screen.draws:
            self._screen.line(text)
            return
        markdown = self._new_stream()
        self._print([*markdown.feed(text), *markdown.end()])

    def _new_stream(self) -> MarkdownStream:
        return MarkdownStream(self._screen.width - 1, unicode=self._screen.speaks_unicode)

    def _print(self, rows: list[Text]) -> None:
        if rows:
            self._screen.line(Text("\n").join(rows))
        else:
            self._screen.redraw()
