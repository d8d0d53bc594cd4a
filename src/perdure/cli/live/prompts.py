"""Prompts: what a session waits for, shown exactly as the ledger has it, and the answer of the person."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from perdure.agent.permissions import GATE, allow, allowed
from perdure.cli.live.screen import Screen
from perdure.cli.shell import Shell
from perdure.cli.text.intent import lines_of
from perdure.cli.text.plain import safe, short, span, value
from perdure.cli.text.waits import WaitDescription
from perdure.domain.approval import Approval
from perdure.domain.effect import Effect
from perdure.domain.fact import Fact
from perdure.domain.session import SessionRecord
from perdure.domain.wait import Wait, WaitKind
from perdure.errors import ConfigError, PerdureError
from perdure.runtime.runtime import Runtime
from perdure.store.move import StoreTransaction
from perdure.store.moves import approval, effect

LINES = 12  # of one argument; `m` shows all
YES = "approved at the terminal"
CHOICES = "y approve · n deny, with a reason · a always allow in this session, with a reason · m more"
CHOICES_ONCE = "y approve · n deny, with a reason · m more"
VERDICTS = ("happened", "absent", "abandon")


class WaitPrompt:
    """One question at a time, at the bottom of a screen. `open_wait` is the wait that is asked about."""

    def __init__(
        self, shell: Shell, runtime: Runtime, screen: Screen, start: Callable[[], None], stash_typed: Callable[[], None]
    ) -> None:
        self.shell = shell
        self.runtime = runtime
        self.screen = screen
        self.open_wait: WaitDescription | None = None
        self._start = start
        self._stash_typed = stash_typed  # what was typed before a question was shown is not its answer
        self._reason_for = ""  # the vote that still needs a reason: n or a
        self._approval: tuple[Approval, Effect] | None = None

    def withdraw(self) -> None:
        """Close the question: it was answered, here or elsewhere, or the wait is over."""
        self.open_wait, self._reason_for, self._approval = None, "", None
        self.screen.ask(None)

    async def present(self, asked: WaitDescription) -> None:
        """Show a question, once."""
        if self.open_wait is not None and self.open_wait.wait.id == asked.wait.id:
            return
        if asked.wait.kind == WaitKind.APPROVAL and await self._is_allowed(asked):
            return
        if not is_for_message(asked):
            self._stash_typed()
        self.open_wait, self._reason_for = asked, ""
        match asked.wait.kind:
            case WaitKind.APPROVAL:
                self._show_approval()
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

    async def _is_allowed(self, asked: WaitDescription) -> bool:
        """Read the approval. If the tool is always allowed in this session, approve it and return True."""
        uid = asked.wait.session_uid
        row, found = await self.runtime.store.read(_approval_and_effect, uid, asked.wait.id)
        found = self.runtime.values.whole(found)
        self._approval = (row, found)
        fact = (await self.runtime.store.read(allowed, uid)).get(found.tool)
        if fact is None or not self._may_always(row):
            return False
        because = f"{fact.updated_by} always allows it in this session: {_reason(fact)}"
        return await self._try(self.runtime.approve(row.id, by=self.shell.by, because=because))

    def _show_approval(self) -> None:
        assert self._approval is not None
        row, found = self._approval
        self.screen.line(f"? {found.tool} needs your approval (gate {row.gate})", "bold")
        self._intent(found, LINES)
        self.screen.line("  " + self._choices(row), "dim")
        self.screen.ask("y/n/a/m > " if self._may_always(row) else "y/n/m > ")

    def _may_always(self, row: Approval) -> bool:

        return row.gate == GATE.name and row.quorum == 1

    def _choices(self, row: Approval) -> str:
        text = CHOICES if self._may_always(row) else CHOICES_ONCE
        return text if self.screen.speaks_unicode else text.replace("·", "|")

    def _intent(self, found: Effect, most: int | None) -> None:
        for line in lines_of(found, most):
            self.screen.line(line)

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
                await self._vote(line)
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

    async def _vote(self, line: str) -> None:
        assert self._approval is not None
        row, found = self._approval
        word, _, reason = line.partition(" ")
        if self._reason_for:
            word, reason, self._reason_for = self._reason_for, line, ""
        elif word.lower() in ("n", "no", "a", "always") and not reason.strip():
            self._reason_for = word.lower()[0]
            self.screen.ask("reason to deny > " if self._reason_for == "n" else "reason to allow > ")
            return
        match word.lower():
            case "y" | "yes":
                await self._try(self.runtime.approve(row.id, by=self.shell.by, because=reason.strip() or YES))
            case "n" | "no" if reason.strip():
                await self._try(self.runtime.deny(row.id, by=self.shell.by, because=reason))
            case "a" | "always" if self._may_always(row) and reason.strip():
                await self._always(row, found, reason)
            case "m" | "more":
                self._more(row, found)
            case _:
                self._ask_again(self._choices(row))

    async def _always(self, row: Approval, found: Effect, reason: str) -> None:

        move = allow(row.session_uid, self.shell.by, found.tool, because=reason)
        if await self._try(self.runtime.store.write(move), keep=True):
            await self._try(
                self.runtime.approve(row.id, by=self.shell.by, because=f"always allowed in this session: {reason}")
            )

    def _more(self, row: Approval, found: Effect) -> None:
        self._intent(found, None)
        facts = [
            ("effect", found.id), ("intent digest", found.intent_digest), ("key", found.idempotency_key),
            ("replay", found.replay), ("targets", value(found.targets)), ("asked by", row.requester),
            ("asked", f"{span(self.runtime.store.clock.now() - row.asked_at)} ago"), ("votes needed", str(row.quorum)),
        ]  # fmt: skip
        for name, text in facts:
            self.screen.line(f"    {name.ljust(13)}  {safe(text)}", "dim")
        self._ask_again(self._choices(row))

    async def _answer(self, line: str) -> None:
        assert self.open_wait is not None
        choices = self._detail("choices") or []
        if line.isdecimal() and 1 <= int(line) <= len(choices) and line not in choices:
            line = str(choices[int(line) - 1])
        if not line:
            self._ask_again("Type an answer, or press Ctrl-D to leave.")
            return
        await self._try(self.runtime.answer(self.open_wait.wait.id, line, by=self.shell.by))

    async def _settle(self, line: str) -> None:
        assert self.open_wait is not None
        word, _, reason = line.partition(" ")
        verdict = next((one for one in VERDICTS if word and one == word.lower()), None)
        if verdict is None or not reason.strip():
            self._ask_again("Type happened, absent or abandon, and how you know.")
            return
        id = self.open_wait.wait.ref or ""
        await self._try(self.runtime.settle(id, verdict, by=self.shell.by, because=reason.strip()))

    def _ask_again(self, text: str) -> None:
        """Show a line and leave the question open."""
        self.screen.line("  " + text, "dim")
        if self.open_wait is not None:
            prompts = {WaitKind.APPROVAL: "y/n/a/m > ", WaitKind.DOUBT: "verdict > "}
            self.screen.ask(prompts.get(WaitKind(self.open_wait.wait.kind), "> "))

    async def _try(self, act: Any, *, keep: bool = False) -> bool:
        """Do what the person chose; if it is refused, show why and ask again."""
        try:
            await act
        except PerdureError as error:
            shown = (
                error if not isinstance(error, ConfigError) or self.open_wait is None else _with_command(self, error)
            )
            self._ask_again(f"{shown.message} {shown.hint}".strip())
            return False
        if not keep:
            self.withdraw()
        return True


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


def _approval_and_effect(tx: StoreTransaction, uid: str, id: str) -> tuple[Approval, Effect]:
    row = approval.get(tx, uid, id)
    return row, effect.get(tx, uid, row.effect_id)


def _reason(fact: Fact) -> str:
    return short(str(fact.value.get("because") if isinstance(fact.value, dict) else fact.value))
