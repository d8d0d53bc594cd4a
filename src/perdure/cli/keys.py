"""The keyboard of a terminal: lines as they are typed, while other things are shown.

Where the screen can be drawn over, letters are read one by one and shown by whoever draws (`typed`). On a dumb terminal
the terminal itself edits the line and echoes it.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import termios
import tty
from collections.abc import Callable
from typing import Any

ENTER, BACK, WORD, LINE, END, ESCAPE = "\r\n", "\x7f\b", "\x17", "\x15", "\x04", "\x1b"


class Keys:
    """`heard` is given each line, and None for Ctrl-D; `changed` is told that `typed` is another."""

    def __init__(
        self, fd: int, heard: Callable[[str | None], None], changed: Callable[[], None], *, plain: bool
    ) -> None:
        self.typed = ""
        self._fd = fd
        self._heard = heard
        self._changed = changed
        self._plain = plain
        self._before: list[Any] | None = None
        self._sequence: str | None = None
        self._history: list[str] = []
        self._place = 0
        self._letters = codecs.getincrementaldecoder("utf-8")("ignore")

    def open(self) -> None:
        if not self._plain:
            self._before = termios.tcgetattr(self._fd)
            self.take()
        asyncio.get_running_loop().add_reader(self._fd, self._read)

    def take(self) -> None:
        """Read letter by letter; asked for again after the process was stopped, for a shell sets the terminal back."""
        if not self._plain:
            tty.setcbreak(self._fd)

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._fd)
        self.restore()

    def restore(self) -> None:
        """Leave the terminal as it was found."""
        if self._before is not None:
            termios.tcsetattr(self._fd, termios.TCSANOW, self._before)
            self._before = None

    def clear(self) -> bool:
        """Forget what is typed; say whether there was anything."""
        had, self.typed = bool(self.typed), ""
        return had

    def _read(self) -> None:
        try:
            data = os.read(self._fd, 4096)
        except OSError:  # the terminal is gone
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(self._fd)
            self._heard(None)
            return
        if self._plain and data.endswith(b"\n") and not self.typed:
            for line in data.decode(errors="replace").splitlines():
                self._heard(line)
            return
        for letter in self._letters.decode(data):
            self._take(letter)
        self._changed()

    def _take(self, letter: str) -> None:
        if self._sequence is not None:
            self._escaped(letter)
        elif letter in ENTER:
            line, self.typed = self.typed, ""
            if line.strip():
                self._history.append(line)
            self._place = len(self._history)
            self._heard(line)
        elif letter == END and not self.typed:
            self._heard(None)
        elif letter in BACK:
            self.typed = self.typed[:-1]
        elif letter == WORD:
            self.typed = self.typed.rstrip().rpartition(" ")[0]
        elif letter == LINE:
            self.typed = ""
        elif letter == ESCAPE:
            self._sequence = ""
        elif letter.isprintable():
            self.typed += letter

    def _escaped(self, letter: str) -> None:
        """A key that sends several letters; up and down fetch earlier lines, the others do nothing."""
        assert self._sequence is not None
        self._sequence += letter
        if self._sequence in ("[", "O") or not ("@" <= letter <= "~"):
            return
        step = {"[A": -1, "OA": -1, "[B": 1, "OB": 1}.get(self._sequence)
        self._sequence = None
        if step is not None and self._history:
            self._place = min(max(self._place + step, 0), len(self._history))
            self.typed = self._history[self._place] if self._place < len(self._history) else ""
