"""The keyboard of a terminal: lines as they are typed, while other output is shown.

If the screen can be redrawn, characters are read one by one, and the screen shows them (`typed`). On a dumb terminal
the terminal itself edits and echoes the line.

A terminal with bracketed paste marks where pasted text starts and ends, so that its lines are one message.
"""

from __future__ import annotations

import asyncio
import codecs
import math
import os
import select
import termios
import time
import tty
from collections.abc import Callable
from contextlib import suppress
from typing import IO, Any

ENTER, BACK, WORD, LINE, END, ESCAPE = "\r\n", "\x7f\b", "\x17", "\x15", "\x04", "\x1b"
PASTE, PASTED = "[200~", ESCAPE + "[201~"  # the terminal sends them around pasted text
MARK, UNMARK = ESCAPE + "[?2004h", ESCAPE + "[?2004l"  # turn bracketed paste on and off
HABIT = 1.0  # seconds after an answer of one key in which Enter is ignored: many people press it by habit


class Keyboard:
    """`on_line` is given each line, and None for Ctrl-D; `on_change` is called when `typed` has changed."""

    def __init__(
        self,
        fd: int,
        out: IO[str],
        on_line: Callable[[str | None], None],
        on_change: Callable[[], None],
        *,
        plain: bool,
    ) -> None:
        self.typed = ""
        self.answer_keys: Callable[[], str] = str  # keys that are a whole line by themselves, while nothing is typed
        self._answered_at = -math.inf  # when such a key was pressed last
        self._fd = fd
        self._out = out
        self._on_line = on_line
        self._on_change = on_change
        self._plain = plain
        self._before: list[Any] | None = None
        self._sequence: str | None = None
        self._paste: str | None = None  # text that is being pasted
        self._paste_stashed = False  # pasting began before a question was shown
        self._history: list[str] = []
        self._history_index = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("ignore")

    def open(self) -> None:
        if not self._plain:
            self._before = termios.tcgetattr(self._fd)
            self.enter_cbreak()
        asyncio.get_running_loop().add_reader(self._fd, self._read)

    def enter_cbreak(self) -> None:
        """Read character by character. Repeated when a stopped process continues: the shell resets the terminal."""
        if not self._plain:
            tty.setcbreak(self._fd)
            self._send(MARK)

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._fd)
        self.restore()

    def restore(self) -> None:
        """Restore the mode that the terminal had before."""
        if self._before is not None:
            self._send(UNMARK)
            termios.tcsetattr(self._fd, termios.TCSANOW, self._before)
            self._before = None

    def clear(self) -> bool:
        """Discard what is typed; return whether there was anything."""
        had, self.typed, self._paste, self._paste_stashed = bool(self.typed or self._paste), "", None, False
        return had

    def stash_typed(self) -> bool:
        """Deliver the lines entered so far, and move an unfinished line to the history, where the up key finds it.

        A terminal that edits its own lines keeps an unfinished line to itself; it is flushed.
        """
        while select.select([self._fd], [], [], 0)[0] and self._read():
            pass
        if self._plain:
            with suppress(termios.error):  # the terminal is gone
                termios.tcflush(self._fd, termios.TCIFLUSH)
        self._paste_stashed = self._paste is not None
        typed, self.typed = self.typed, ""
        self._remember(typed)
        return bool(typed) or self._paste_stashed

    def _send(self, sequence: str) -> None:
        with suppress(OSError):  # the terminal is gone
            self._out.write(sequence)
            self._out.flush()

    def _remember(self, line: str) -> None:
        if line.strip():
            self._history.append(line)
        self._history_index = len(self._history)

    def _read(self) -> bool:
        """Read what is available; returns False at the end of the input."""
        try:
            data = os.read(self._fd, 4096)
        except OSError:  # the terminal is gone
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(self._fd)
            self._on_line(None)
            return False
        if self._plain and data.endswith(b"\n") and not self.typed:
            for line in data.decode(errors="replace").splitlines():
                self._on_line(line)
            return True
        for character in self._decoder.decode(data):
            self._on_character(character)
        self._on_change()
        return True

    def _on_character(self, character: str) -> None:
        just_answered, self._answered_at = time.monotonic() - self._answered_at < HABIT, -math.inf
        if self._paste is not None:
            self._on_pasted(character)
        elif self._sequence is not None:
            self._on_escape(character)
        elif not self.typed and character in self.answer_keys():
            self._answered_at = time.monotonic()
            self._on_line(character)
        elif character in ENTER and just_answered:
            pass
        elif character in ENTER:
            line, self.typed = self.typed, ""
            self._remember(line)
            self._on_line(line)
        elif character == END and not self.typed:
            self._on_line(None)
        elif character in BACK:
            self.typed = self.typed[:-1]
        elif character == WORD:
            self.typed = self.typed.rstrip().rpartition(" ")[0]
        elif character == LINE:
            self.typed = ""
        elif character == ESCAPE:
            self._sequence = ""
        elif character.isprintable():
            self.typed += character

    def _on_pasted(self, character: str) -> None:
        """A character of pasted text: line ends are part of it, and nothing in it is a key."""
        assert self._paste is not None
        self._paste += character
        if self._paste.endswith(PASTED):
            text = self._paste.removesuffix(PASTED).replace("\r\n", "\n").replace("\r", "\n")
            text = "".join(one for one in text if one.isprintable() or one in "\n\t")
            if self._paste_stashed:
                self._remember(text)
            else:
                self.typed += text
            self._paste, self._paste_stashed = None, False

    def _on_escape(self, character: str) -> None:
        """A key that sends several characters: up and down fetch earlier lines, others are ignored."""
        assert self._sequence is not None
        self._sequence += character
        if self._sequence in ("[", "O") or not ("@" <= character <= "~"):
            return
        if self._sequence == PASTE:
            self._paste = ""
        step = {"[A": -1, "OA": -1, "[B": 1, "OB": 1}.get(self._sequence)
        self._sequence = None
        if step is not None and self._history:
            self._history_index = min(max(self._history_index + step, 0), len(self._history))
            self.typed = self._history[self._history_index] if self._history_index < len(self._history) else ""
