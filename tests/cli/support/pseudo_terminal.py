"""A person at a pseudo-terminal: what is typed, and what the screen shows."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.cli.support.terminal import PERDURE

PATIENCE = 180.0
_TAKE_TERMINAL = (
    "import fcntl,os,sys,termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
)
_SEQUENCE = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])")


class TerminalScreen:
    """What a terminal shows. Accepts only the escape sequences that Perdure may send."""

    def __init__(self) -> None:
        self.rows: list[list[str]] = [[]]
        self.row = self.column = 0

    def write(self, text: str) -> None:
        at = 0
        while at < len(text):
            if (found := _SEQUENCE.match(text, at)) is not None:
                self._obey(found[1], found[2])
                at = found.end()
                continue
            self._character(text[at])
            at += 1

    def _obey(self, given: str, what: str) -> None:
        assert what in "mKACJ" or given == "?2004", f"an unexpected escape sequence: {given}{what}"
        if what == "K":
            self.rows[self.row] = []
        elif what == "A":
            self.row -= int(given)
            assert self.row >= 0
        elif what == "C":
            self.column += int(given)
        elif what == "J":
            self.rows[self.row :] = [self.rows[self.row][: self.column]]

    def _character(self, character: str) -> None:
        if character == "\r":
            self.column = 0
        elif character == "\n":
            self.row += 1
            self.rows.extend([[]] if self.row == len(self.rows) else [])
        else:
            assert character.isprintable() or character in "\t\b\u200c\u200d", repr(character)
            row = self.rows[self.row]
            row.extend(" " * (self.column + 1 - len(row)))
            row[self.column] = character
            self.column += 1

    @property
    def lines(self) -> list[str]:
        return ["".join(row).rstrip() for row in self.rows]


class PseudoTerminal:
    """The real executable, or another program, on a terminal of its own. Use it as a context manager."""

    patience = PATIENCE

    def __init__(
        self, *arguments: str, cwd: Path, width: int = 120, program: str = PERDURE, **environment: str
    ) -> None:
        self.ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
        kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
        self.process = subprocess.Popen(
            [sys.executable, "-ISc", _TAKE_TERMINAL, program, *arguments],
            stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True, cwd=cwd,
            env=kept | {"TERM": "xterm-256color"} | environment,
        )  # fmt: skip
        os.close(theirs)
        self.raw = ""
        self.paper = TerminalScreen()
        self._rest = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.ours)

    @property
    def text(self) -> str:
        return "\n".join(self.paper.lines)

    def _text_to_cursor(self) -> str:
        """The text, with the spaces before the cursor, such as after a prompt."""
        lines = self.paper.lines
        lines[self.paper.row] = lines[self.paper.row].ljust(self.paper.column)
        return "\n".join(lines)

    def type(self, text: str) -> None:
        os.write(self.ours, text.encode())

    def until(self, said: str, *, times: int = 1) -> str:
        """Read until the screen shows it; everything that can be read by then."""
        deadline = time.monotonic() + self.patience
        while self._text_to_cursor().count(said) < times:
            assert self._read(deadline), f"ended, or nothing in time, without {said!r}:\n{self.text}"
        return self.text

    def ended(self) -> int:
        """Read to the end, and give the exit code."""
        deadline = time.monotonic() + self.patience
        while self._read(deadline):
            pass
        return self.process.wait(timeout=self.patience)

    def _read(self, deadline: float) -> bool:
        ready, _, _ = select.select([self.ours], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            return False
        try:
            data = os.read(self.ours, 65536)
        except OSError:  # the other end is closed
            return False
        data, self._rest = _whole(self._rest + data)
        self.raw += data.decode()
        self.paper.write(data.decode())
        return True


def _whole(data: bytes) -> tuple[bytes, bytes]:
    """The whole characters and escape sequences, and the rest."""
    cut = len(data)
    escape = data.rfind(b"\x1b")
    if escape >= 0 and not re.match(rb"\x1b\[[0-9;?]*[A-Za-z]", data[escape:]):
        cut = escape
    for back in range(1, min(4, cut) + 1):
        byte = data[cut - back]
        if byte >= 0xC0:
            need = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2
            if need > back:
                cut -= back
            break
        if byte < 0x80:
            break
    return data[:cut], data[cut:]
