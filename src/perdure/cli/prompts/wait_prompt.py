"""Prompts: what a session waits for, shown exactly as the ledger has it, and the answer of the person."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from perdure.cli.live.screen import Screen
from perdure.cli.live.session_source import SessionSource
from perdure.cli.prompts.approval_prompt import ApprovalPrompt
from perdure.cli.shell import Shell
from perdure.cli.text.waits import WaitDescription
from perdure.domain.literals import VerdictWord
from perdure.domain.session import SessionRecord
from perdure.domain.wait import Wait, WaitKind
from perdure.errors import ConfigError, PerdureError
from perdure.runtime.runtime import Runtime

VERDICTS: tuple[VerdictWord, ...] = ("happened", "absent", "abandon")


class WaitPrompt:
    """One question at a time, at the bottom of a screen. `open_wait` is the wait that is asked about."""

    def __init__(
        self, shell: Shell, runtime: Runtime, source: SessionSource, screen: Screen, start: Callable[[], None],
        stash_typed: Callable[[], bool],
    ) -> None:  # fmt: skip
        self.shell = shell
        self.runtime = runtime
        self.screen = screen
        self.open_wait: WaitDescription | None = None
        self._start = start
        self._stash_typed = stash_typed  # what was typed before a question was shown is not its answer
        self._approval = ApprovalPrompt(shell, runtime, source, screen, self._try)

    def withdraw(self) -> None:
        """Close the question: it was answered, here or elsewhere, or the wait is over."""
        self.open_wait, self._approval.is_open = None, False
        self.screen.ask(None)

    @property
    def answerable(self) -> WaitDescription | None:
        """The wait that a line typed now answers; `TOO_EARLY` if its question was shown a moment ago."""
        return TOO_EARLY if self._is_approval and not self._approval.is_open else self.open_wait

    @property
    def _is_approval(self) -> bool:
        return self.open_wait is not None and self.open_wait.wait.kind == WaitKind.APPROVAL

    def tick(self) -> None:
        """Time has passed."""
        if self._is_approval:
            self._approval.tick(self._stash_typed)

    async def present(self, asked: WaitDescription) -> None:
        """Show a question, once."""
        if self.open_wait is not None and self.open_wait.wait.id == asked.wait.id:
            return
        if not is_for_message(asked):
            self._stash_typed()
        self.open_wait = asked
        match asked.wait.kind:
            case WaitKind.APPROVAL:
                self.screen.ask(None)
                await self._approval.show(asked.wait)
            case WaitKind.INPUT if asked.wait.ref is None:
                self.screen.ask("> ")
            case WaitKind.INPUT:
                self.screen.line(f"? {self._detail('question')}", "bold")
                for number, choice in enumerate(self._detail("choices") or (), 1):
                    self.screen.line(f"    {number} {choice}")
                self.screen.ask("answer > ")
            case WaitKind.DOUBT:
                self.screen.line(f"? {asked.what}", "bold")
                self.screen.line(
                    "  Check the outside system first. Type happened, absent or abandon, and how you know."
                )
                self.screen.ask("verdict > ")
            case WaitKind.PAUSED:
                self.screen.line("The session is paused.")
                self.screen.ask("Press Enter to resume > ")
            case WaitKind.QUARANTINE:
                self.screen.line(f"The session waits for {asked.what}.")
                self.screen.ask("Press Enter to try again, Ctrl-D to leave > ")
            case _:
                self.screen.line(f"The session waits for {asked.what}.")
                for one in asked.commands:
                    self.screen.line(f"    {self.shell.suggest(*one.words, app=one.app)}  {one.meaning}".rstrip())
                self.screen.ask("Press Enter to leave > ")

    def offer_to_take_over(self, view: SessionRecord) -> None:
        """Its worker is dead: offer the person to continue the session."""
        id = f"taken from {view.lease_holder}"
        if self.open_wait is None or self.open_wait.wait.id != id:
            lost = Wait(view.uid, id, WaitKind.LEASE, None, None, None, 0, None, None, None, 0, None)
            self._stash_typed()
            self.open_wait = WaitDescription(lost, "a worker")
            self.screen.ask("Press Enter to take it over > ")

    def _detail(self, name: str) -> Any:
        assert self.open_wait is not None
        detail = self.open_wait.wait.detail
        return detail.get(name) if isinstance(detail, dict) else None

    async def take(self, line: str) -> bool:
        """Act on a typed line. Returns False if the person wants to leave."""
        asked = self.open_wait
        assert asked is not None
        if is_for_message(asked):
            self.screen.ask(None)  # it is shown when it is in the transcript
        else:
            self.screen.answered(line)
        line = line.strip()
        match asked.wait.kind:
            case WaitKind.APPROVAL:
                await self._approval.take(line)
            case WaitKind.INPUT if asked.wait.ref is None:
                if not line:
                    return False
                await self._try(self.runtime.send(asked.wait.session_uid, line, by=self.shell.by))
            case WaitKind.INPUT:
                await self._answer(line)
            case WaitKind.DOUBT:
                await self._settle(line)
            case WaitKind.PAUSED | WaitKind.QUARANTINE:
                await self._try(self.runtime.resume(asked.wait.session_uid, by=self.shell.by))
            case WaitKind.LEASE:
                self.withdraw()
                self._start()
            case _:
                return False
        return True

    async def _answer(self, line: str) -> None:
        assert self.open_wait is not None
        asked, choices = self.open_wait.wait, self._detail("choices") or []
        if line.isdecimal() and 1 <= int(line) <= len(choices) and line not in choices:
            line = str(choices[int(line) - 1])
        if not line:
            self._ask_again("Type an answer, or press Ctrl-D to leave.")
            return
        await self._try(self.runtime.answer(asked.id, line, session=asked.session_uid, by=self.shell.by))

    async def _settle(self, line: str) -> None:
        assert self.open_wait is not None
        word, _, reason = line.partition(" ")
        verdict = next((one for one in VERDICTS if word and one == word.lower()), None)
        if verdict is None or not reason.strip():
            self._ask_again("Type happened, absent or abandon, and how you know.")
            return
        asked, how = self.open_wait.wait, reason.strip()
        await self._try(
            self.runtime.settle(asked.ref or "", verdict, session=asked.session_uid, by=self.shell.by, because=how)
        )

    def _ask_again(self, text: str) -> None:
        """Show a line and leave the question open."""
        self.screen.line("  " + text, "dim")
        if self._is_approval:
            self._approval.ask()
        elif self.open_wait is not None:
            self.screen.ask("verdict > " if self.open_wait.wait.kind == WaitKind.DOUBT else "> ")

    async def _try(self, act: Awaitable[Any]) -> bool:
        """Do what the person chose; if it is refused, show why and ask again."""
        try:
            await act
        except PerdureError as error:
            shown = (
                error if not isinstance(error, ConfigError) or self.open_wait is None else _with_command(self, error)
            )
            self._ask_again(f"{shown.message} {shown.hint}".strip())
            return False
        self.withdraw()
        return True


TOO_EARLY = WaitDescription(Wait("", "", WaitKind.APPROVAL, None, None, None, 0, None, None, None, 0, None), "")


def is_for_message(asked: WaitDescription) -> bool:
    """Whether the wait is not a question, but for the next message of the person."""
    return asked.wait.kind == WaitKind.INPUT and asked.wait.ref is None


def _with_command(prompt: WaitPrompt, error: ConfigError) -> ConfigError:
    """Add the command that does what this prompt cannot."""
    assert prompt.open_wait is not None
    if prompt.open_wait.wait.kind != WaitKind.DOUBT:
        return error
    line = prompt.shell.suggest(
        "settle", prompt.open_wait.wait.ref or "", "--happened", "--because", "TEXT", "--result", "JSON"
    )
    return ConfigError(error.message, hint=f"In another terminal: {line}")
