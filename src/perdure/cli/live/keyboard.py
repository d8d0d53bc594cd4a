"""The keyboard of a terminal: lines as they are typed, while other things are shown.

Where the screen can be drawn over, letters are read one by one and shown by whoever draws (`typed`). On a dumb terminal
the terminal itself edits the line and echoes it.

A terminal that knows bracketed paste says where a pasted text begins and ends, so its lines are one message.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import select
import termios
import tty
from collections.abc import Callable
from contextlib import suppress
from typing import IO, Any

ENTER, BACK, WORD, LINE, END, ESCAPE = "\r\n", "\x7f\b", "\x17", "\x15", "\x04", "\x1b"
PASTE, PASTED = "[200~", ESCAPE + "[201~"  # a terminal sends them around what is pasted
MARK, UNMARK = ESCAPE + "[?2004h", ESCAPE + "[?2004l"  # and is told to, and not to


class Keyboard:
    """`heard` is given each line, and None for Ctrl-D; `changed` is told that `typed` is another."""

    def __init__(
        self,
        fd: int,
        out: IO[str],
        heard: Callable[[str | None], None],
        changed: Callable[[], None],
        *,
        plain: bool,
    ) -> None:
        self.typed = ""
        self._fd = fd
        self._out = out
        self._heard = heard
        self._changed = changed
        self._plain = plain
        self._before: list[Any] | None = None
        self._sequence: str | None = None
        self._paste: str | None = None  # of a text that is being pasted
        self._aside = False  # that text was begun before a question
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
            self._tell(MARK)

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._fd)
        self.restore()

    def restore(self) -> None:
        """Leave the terminal as it was found."""
        if self._before is not None:
            self._tell(UNMARK)
            termios.tcsetattr(self._fd, termios.TCSANOW, self._before)
            self._before = None

    def clear(self) -> bool:
        """Forget what is typed; say whether there was anything."""
        had, self.typed, self._paste, self._aside = bool(self.typed or self._paste), "", None, False
        return had

    def stash_typed(self) -> bool:
        """Give out the lines that were entered by now, and put what is half typed where the up key finds it.

        A terminal that edits its own lines keeps what is half typed to itself, and is told to forget it.
        """
        while select.select([self._fd], [], [], 0)[0] and self._read():
            pass
        if self._plain:
            with suppress(termios.error):  # the terminal is gone
                termios.tcflush(self._fd, termios.TCIFLUSH)
        self._aside = self._paste is not None
        typed, self.typed = self.typed, ""
        self._remember(typed)
        return bool(typed) or self._aside

    def _tell(self, sequence: str) -> None:
        with suppress(OSError):  # the terminal is gone
            self._out.write(sequence)
            self._out.flush()

    def _remember(self, line: str) -> None:
        if line.strip():
            self._history.append(line)
        self._place = len(self._history)

    def _read(self) -> bool:
        """Take what there is; False when nothing will come any more."""
        try:
            data = os.read(self._fd, 4096)
        except OSError:  # the terminal is gone
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(self._fd)
            self._heard(None)
            return False
        if self._plain and data.endswith(b"\n") and not self.typed:
            for line in data.decode(errors="replace").splitlines():
                self._heard(line)
            return True
        for letter in self._letters.decode(data):
            self._take(letter)
        self._changed()
        return True

    def _take(self, letter: str) -> None:
        if self._paste is not None:
            self._pasting(letter)
        elif self._sequence is not None:
            self._escaped(letter)
        elif letter in ENTER:
            line, self.typed = self.typed, ""
            self._remember(line)
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

    def _pasting(self, letter: str) -> None:
        """Part of a pasted text: its line ends are its own, and none of it is a key."""
        assert self._paste is not None
        self._paste += letter
        if self._paste.endswith(PASTED):
            text = self._paste.removesuffix(PASTED).replace("\r\n", "\n").replace("\r", "\n")
            text = "".join(one for one in text if one.isprintable() or one in "\n\t")
            if self._aside:
                self._remember(text)
            else:
                self.typed += text
            self._paste, self._aside = None, False

    def _escaped(self, letter: str) -> None:
        """A key that sends several letters; up and down fetch earlier lines, the others do nothing."""
        assert self._sequence is not None
        self._sequence += letter
        if self._sequence in ("[", "O") or not ("@" <= letter <= "~"):
            return
        if self._sequence == PASTE:
            self._paste = ""
        step = {"[A": -1, "OA": -1, "[B": 1, "OB": 1}.get(self._sequence)
        self._sequence = None
        if step is not None and self._history:
            self._place = min(max(self._place + step, 0), len(self._history))
            self.typed = self._history[self._place] if self._place < len(self._history) else ""
