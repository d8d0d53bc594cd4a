"""What a person types at a conversation: lines with history and completion, and messages with their files."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from perdure.cli.attachments import Message, attach_files
from perdure.cli.input.completion import complete_word
from perdure.cli.input.keyboard import Keyboard
from perdure.cli.input.message_history import add_to_history, read_history
from perdure.cli.live.screen import Screen
from perdure.cli.live.slash_commands import NAMES, text_of
from perdure.errors import ConfigError


class MessageInput:
    """The input of one terminal. `folder` is where attached files are found."""

    def __init__(
        self, screen: Screen, folder: Path, on_line: Callable[[str | None], None], on_escape: Callable[[], None]
    ) -> None:
        self._screen = screen
        self._folder = folder
        self.keyboard = keyboard = Keyboard(
            sys.stdin.fileno(),
            screen.console.file,
            on_line,
            screen.refresh,
            plain=not screen.draws,
            on_escape=on_escape,
            complete=lambda text: complete_word(text, NAMES, folder),
            history=read_history(),
        )
        screen.typed, screen.candidates = lambda: keyboard.typed, lambda: keyboard.candidates
        keyboard.answer_keys = lambda: screen.keys

    def stash_typed(self) -> bool:
        """Put an unfinished line into the history, because it is not the answer to a question that is shown now.

        Returns whether there was one.
        """
        if not self.keyboard.stash_typed():
            return False
        self._screen.line("  Your unfinished line was put aside. The up key brings it back.", "dim")
        return True

    def compose(self, line: str) -> Message | None:
        """A message with the files that it names; None if it cannot be sent. It is then in the editor again."""
        try:
            composed = attach_files(text_of(line), self._folder, lambda note: self._screen.line(f"  {note}", "dim"))
        except ConfigError as error:
            self._screen.line(f"  {error.message} {error.hint}".rstrip(), "yellow")
            self.keyboard.put_back(line)
            self._screen.refresh()
            return None
        add_to_history(line)
        return composed
