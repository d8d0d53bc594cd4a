"""The keyboard of a terminal: lines as they are typed, while other output is shown.

If the screen can be redrawn, keys are read one by one and edited by a `LineEditor`, and the screen shows its text. On a
dumb terminal the terminal itself edits and echoes the line.

A terminal with bracketed paste marks where pasted text starts and ends, so that its lines are one message.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import select
import termios
import tty
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perdure.cli.input.line_editor import LineEditor

MARK, UNMARK = "\x1b[?2004h", "\x1b[?2004l"  # turn bracketed paste on and off
PAUSE = 0.1  # seconds after which Escape is a key by itself, and not the start of the sequence of another key


class Keyboard:
    """`on_line` is given each line, and None for Ctrl-D; `on_change` is called when the typed text has changed.

    `on_escape` is called for the Escape key. `complete` returns the words that can replace the last one of a text.
    """

    def __init__(
        self,
        fd: int,
        out: IO[str],
        on_line: Callable[[str | None], None],
        on_change: Callable[[], None],
        *,
        plain: bool,
        on_escape: Callable[[], None] = lambda: None,
        complete: Callable[[str], list[str]] = lambda _: [],
        history: Sequence[str] = (),
    ) -> None:
        self.answer_keys: Callable[[], str] = str  # keys that are a whole line by themselves, while nothing is typed
        self._fd = fd
        self._out = out
        self._on_line = on_line
        self._on_change = on_change
        self._on_escape = on_escape
        self._before: list[Any] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pause: asyncio.TimerHandle | None = None
        self._decoder = codecs.getincrementaldecoder("utf-8")("ignore")
        self._editor: LineEditor | None = None
        if not plain:
            from perdure.cli.input.line_editor import LineEditor  # late: only a terminal needs prompt_toolkit

            self._editor = LineEditor(on_line, self._find_answer_keys, complete, history)

    def _find_answer_keys(self) -> str:
        return self.answer_keys()

    @property
    def typed(self) -> tuple[str, str]:
        """What is typed and not entered: the text before the cursor, and after it."""
        return ("", "") if self._editor is None else self._editor.parts

    @property
    def candidates(self) -> list[str]:
        """The words that the Tab key found."""
        return [] if self._editor is None else self._editor.candidates

    def open(self) -> None:
        self._loop = asyncio.get_running_loop()
        if self._editor is not None:
            self._before = termios.tcgetattr(self._fd)
            self.enter_cbreak()
        self._loop.add_reader(self._fd, self._read)

    def enter_cbreak(self) -> None:
        """Read character by character. Repeated when a stopped process continues: the shell resets the terminal."""
        if self._editor is not None:
            tty.setcbreak(self._fd)
            self._send(MARK)

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._fd)
        if self._pause is not None:
            self._pause.cancel()
        self.restore()

    def restore(self) -> None:
        """Restore the mode that the terminal had before."""
        if self._before is not None:
            self._send(UNMARK)
            with suppress(termios.error):  # the terminal is gone
                termios.tcsetattr(self._fd, termios.TCSANOW, self._before)
            self._before = None

    def clear(self) -> bool:
        """Discard what is typed; return whether there was anything."""
        return self._editor is not None and self._editor.clear()

    def put_back(self, text: str) -> None:
        """Put a line that was not sent back into the editor, unless something else is typed by now."""
        if self._editor is not None:
            self._editor.put_back(text)

    def stash_typed(self) -> bool:
        """Deliver the lines entered so far, and move an unfinished line to the history, where the up key finds it.

        A terminal that edits its own lines keeps an unfinished line to itself; it is flushed.
        """
        while select.select([self._fd], [], [], 0)[0] and self._read():
            pass
        if self._editor is None:
            with suppress(termios.error):  # the terminal is gone
                termios.tcflush(self._fd, termios.TCIFLUSH)
            return False
        return self._editor.stash()

    def _send(self, sequence: str) -> None:
        with suppress(OSError):  # the terminal is gone
            self._out.write(sequence)
            self._out.flush()

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
        if self._editor is None:
            for line in data.decode(errors="replace").splitlines():
                self._on_line(line)
            return True
        self._editor.feed(self._decoder.decode(data))
        if self._loop is not None:
            if self._pause is not None:
                self._pause.cancel()
            self._pause = self._loop.call_later(PAUSE, self._flush)
        self._on_change()
        return True

    def _flush(self) -> None:
        """No more characters arrived: what looked like the start of a sequence is the Escape key."""
        if self._editor is not None and self._editor.flush():
            self._on_escape()
