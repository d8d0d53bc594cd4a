"""The editor of the message that a person types: keys go in, lines come out.

The keys, their parser and the text are those of prompt_toolkit, with the bindings of Emacs and readline. It draws
nothing: the screen shows the text. Enter sends; Alt-Enter, or a backslash before Enter, starts a new line.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from os.path import commonprefix

from prompt_toolkit.application import Application
from prompt_toolkit.application.current import set_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from prompt_toolkit.input import DummyInput
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import Layout, Window
from prompt_toolkit.layout.controls import BufferControl
from prompt_toolkit.output import DummyOutput

PASTE, PASTED = "\x1b[200~", "\x1b[201~"  # the terminal sends them around pasted text
HABIT = 1.0  # seconds after an answer of one key in which Enter is ignored: many people press it by habit
JOINERS = "\u200c\u200d"  # some scripts and emoji need them


class LineEditor:
    """A text with a cursor. `on_line` is given each entered text, and None for Ctrl-D on an empty one."""

    def __init__(
        self,
        on_line: Callable[[str | None], None],
        answer_keys: Callable[[], str],
        complete: Callable[[str], list[str]],
        history: Sequence[str] = (),
    ) -> None:
        self.candidates: list[str] = []
        self._on_line = on_line
        self._answer_keys = answer_keys
        self._complete = complete
        self._history = list(history)
        self._index = len(self._history)
        self._draft = ""  # what was typed before earlier lines were fetched
        self._answered_at = -math.inf  # when a key was an answer by itself
        self._recent = ""  # the end of the input, in which the marks of pasted text are found
        self._is_pasting = False
        self._paste_stashed = False  # pasting began before a question was shown
        self._buffer = Buffer(multiline=True)
        self._app: Application[None] = Application(
            layout=Layout(Window(BufferControl(self._buffer))),
            key_bindings=self._bindings(),
            input=DummyInput(),
            output=DummyOutput(),
        )
        self._app.timeoutlen = None  # type: ignore[assignment]  # documented; the parser waits instead
        self._keys: list[KeyPress] = []
        self._parser = Vt100Parser(self._keys.append)

    @property
    def parts(self) -> tuple[str, str]:
        """The text before the cursor, and after it."""
        document = self._buffer.document
        return document.text_before_cursor, document.text_after_cursor

    def feed(self, text: str) -> None:
        """Act on what the terminal sent. Several characters at the same moment were pasted: no answer of one key.

        A command that starts with a slash, and the rest of a line that was begun, may arrive in pieces.
        """
        line = text.rstrip("\r\n")
        is_command = (bool(self._buffer.text) or text.startswith("/")) and "\n" not in line and "\r" not in line
        if self._answer_keys() and not self._is_pasting and len(line) > 1 and "\x1b" not in text and not is_command:
            self._remember(text.strip())
            self._on_line("")
            return
        self._recent = (self._recent + text)[-len(text) - len(PASTE) :]
        begin, end = self._recent.rfind(PASTE), self._recent.rfind(PASTED)
        if begin != end:
            self._is_pasting = begin > end
        self._parser.feed(text)
        self._act()

    def flush(self) -> bool:
        """No more was sent: act on the start of a sequence as on keys. Returns whether it was the Escape key."""
        self._parser.flush()
        if [key.key for key in self._keys] == [Keys.Escape]:
            self._keys.clear()
            return True
        self._act()
        return False

    def clear(self) -> bool:
        """Discard the text; return whether there was any."""
        had = bool(self._buffer.text) or self._is_pasting
        self._set("")
        self._paste_stashed, self._index = self._is_pasting, len(self._history)
        return had

    def put_back(self, text: str) -> None:
        """Make it the text again, unless something else was typed."""
        if not self._buffer.text:
            self._set(text)

    def stash(self) -> bool:
        """Move the text to the history, with what is being pasted; return whether there was any."""
        text, self._paste_stashed = self._buffer.text, self._is_pasting
        self._set("")
        self._remember(text)
        return bool(text) or self._paste_stashed

    def _act(self) -> None:
        """Process the keys, without sequences that no binding knows."""
        keys, self._keys[:] = list(self._keys), []
        while keys:
            key = keys.pop(0)
            if key.key == Keys.Escape and keys and keys[0].key in ("[", "O"):
                del keys[: next((n for n, one in enumerate(keys[1:], 2) if "@" <= one.data <= "~"), len(keys))]
            elif key.key == Keys.Escape and keys:
                self._press(key, keys.pop(0))
            else:
                self._press(key)

    def _press(self, *keys: KeyPress) -> None:
        just_answered, self._answered_at = time.monotonic() - self._answered_at < HABIT, -math.inf
        key = keys[0]
        if not self._buffer.text and len(key.data) == 1 and key.data in self._answer_keys():
            self._answered_at = time.monotonic()
            self._on_line(key.data)
        elif not (just_answered and key.key in (Keys.ControlM, Keys.ControlJ)):
            with set_app(self._app):
                self._app.key_processor.feed_multiple(list(keys))
                self._app.key_processor.process_keys()
            self._remove_invisible()

    def _remove_invisible(self) -> None:
        """Some bindings insert a control character as it is."""
        before, after = (visible_text(part) for part in self.parts)
        if len(before) + len(after) < len(self._buffer.text):
            self._buffer.document = Document(before + after, len(before))

    def _set(self, text: str) -> None:
        self._buffer.reset(Document(text))
        self.candidates = []

    def _remember(self, line: str) -> None:
        if line.strip() and self._history[-1:] != [line]:
            self._history.append(line)
        self._index = len(self._history)

    def _bindings(self) -> KeyBindings:
        bindings = KeyBindings()
        bindings.add(Keys.ControlM)(lambda _: self._enter())
        for key in (Keys.ControlM, Keys.ControlJ):
            bindings.add(Keys.Escape, key)(lambda _: self._insert("\n"))
        bindings.add(Keys.ControlD)(lambda _: self._delete_or_end())
        bindings.add(Keys.ControlU)(lambda _: self._delete_line())
        bindings.add(Keys.Up)(lambda _: self._move(-1))
        bindings.add(Keys.Down)(lambda _: self._move(1))
        bindings.add(Keys.ControlP)(lambda _: self._move(-1))
        bindings.add(Keys.ControlN)(lambda _: self._move(1))
        bindings.add(Keys.Tab)(lambda _: self._complete_word())
        bindings.add(Keys.BracketedPaste)(self._paste)
        bindings.add(Keys.Any)(self._insert_key)
        return bindings

    def _insert(self, text: str) -> None:
        self.candidates = []
        self._buffer.insert_text(text)

    def _insert_key(self, event: KeyPressEvent) -> None:
        if event.data.isprintable() or event.data in JOINERS:
            self._insert(event.data)

    def _enter(self) -> None:
        before, after = self.parts
        if before.endswith("\\") and not after:
            self._buffer.delete_before_cursor()
            self._insert("\n")
            return
        line = self._buffer.text
        self._set("")
        self._remember(line)
        self._on_line(line)

    def _delete_or_end(self) -> None:
        if self._buffer.text:
            self._buffer.delete()
        else:
            self._on_line(None)

    def _delete_line(self) -> None:
        """Delete the line up to the cursor, or the line break before it."""
        before = self._buffer.document.current_line_before_cursor
        self._buffer.delete_before_cursor(len(before) or 1)

    def _move(self, step: int) -> None:
        """Move the cursor to another row; from the first or the last row, fetch another line of the history."""
        document = self._buffer.document
        if step < 0 and not document.on_first_line:
            self._buffer.cursor_up()
        elif step > 0 and not document.on_last_line:
            self._buffer.cursor_down()
        elif 0 <= self._index + step <= len(self._history):
            if self._index == len(self._history):
                self._draft = self._buffer.text
            self._index += step
            self._set(self._draft if self._index == len(self._history) else self._history[self._index])

    def _paste(self, event: KeyPressEvent) -> None:
        """Pasted text: line ends are part of it, and nothing in it is a key."""
        text = event.data.replace("\r\n", "\n").replace("\r", "\n")
        text = visible_text(text)
        if self._paste_stashed:
            self._remember(text)
        else:
            self._insert(text)
        self._paste_stashed = False

    def _complete_word(self) -> None:
        """Complete the word before the cursor as far as it is clear; several candidates are listed."""
        before, _ = self.parts
        found = self._complete(before)
        word = before[max(before.rfind(one) for one in " \n\t") + 1 :]
        common = commonprefix(found)  # noqa: RUF071 - of texts, not of paths
        if len(common) > len(word):
            self._buffer.delete_before_cursor(len(word))
            self._insert(common)
        self.candidates = found if len(found) > 1 else []


def visible_text(text: str) -> str:
    """A text without control characters."""
    return "".join(one for one in text if one.isprintable() or one in "\n\t" + JOINERS)
