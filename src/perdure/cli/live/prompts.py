"""Asking in place: what a session waits for, shown exactly as the ledger has it, and the person's answer taken here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
YES = "said yes at the terminal"
MORE = "y yes · n no, and why · a always in this session, and why · m more"
ONCE = "y yes · n no, and why · m more"
VERDICTS = ("happened", "absent", "abandon")


class WaitPrompt:
    """One question at a time, at the bottom of a screen. `asked` is the one that is open."""

    def __init__(
        self, shell: Shell, runtime: Runtime, screen: Screen, go_on: Callable[[], None], stash_typed: Callable[[], None]
    ) -> None:
        self.shell = shell
        self.runtime = runtime
        self.screen = screen
        self.asked: WaitDescription | None = None
        self._go_on = go_on
        self._stash_typed = stash_typed  # what was typed before a question was shown is no answer to it
        self._for = ""  # what a reason is awaited for: deny or allow
        self._approval: tuple[Approval, Effect] | None = None

    def withdraw(self) -> None:
        """Somebody else answered, or it is over."""
        self.asked, self._for, self._approval = None, "", None
        self.screen.ask(None)

    async def present(self, asked: WaitDescription) -> None:
        """Show a question, once."""
        if self.asked is not None and self.asked.wait.id == asked.wait.id:
            return
        if asked.wait.kind == WaitKind.APPROVAL and await self._is_allowed(asked):
            return
        if not is_for_message(asked):
            self._stash_typed()
        self.asked, self._for = asked, ""
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
                self.screen.line("  Look outside first. Type happened, absent or abandon, and how you know.")
                self.screen.ask("verdict > ")
            case WaitKind.PAUSED:
                self.screen.line("It is paused.")
                self.screen.ask("Enter lets it go on > ")
            case WaitKind.QUARANTINE:
                self.screen.line(f"It waits for {asked.what}.")
                self.screen.ask("Enter tries again, Ctrl-D leaves > ")
            case _:
                self.screen.line(f"It waits for {asked.what}.")
                for way in asked.ways:
                    self.screen.line(f"    {self.shell.suggest(*way.words, app=way.app)}  {way.meaning}".rstrip())
                self.screen.ask("Enter leaves > ")

    def offer_to_take_over(self, view: SessionRecord) -> None:
        """Its worker is dead: whoever sits here may let another go on."""
        id = f"taken from {view.lease_holder}"
        if self.asked is None or self.asked.wait.id != id:
            orphan = Wait(view.uid, id, WaitKind.LEASE, None, None, None, 0, None, None, None, 0, None)
            self._stash_typed()
            self.asked = WaitDescription(orphan, "somebody to take it over")
            self.screen.ask("Enter takes it over > ")

    def _detail(self, name: str) -> Any:
        assert self.asked is not None
        detail = self.asked.wait.detail
        return detail.get(name) if isinstance(detail, dict) else None

    async def _is_allowed(self, asked: WaitDescription) -> bool:
        """Read what is asked for, and give the yes that was given for the whole session."""
        from perdure.agent.permissions import allowed

        uid = asked.wait.session_uid
        row, found = await self.runtime.store.read(_asked_for, uid, asked.wait.id)
        found = self.runtime.values.whole(found)
        self._approval = (row, found)
        said = (await self.runtime.store.read(allowed, uid)).get(found.tool)
        if said is None or not self._may_always(row):
            return False
        because = f"{said.updated_by} always allows it in this session: {_reason(said)}"
        return await self._try(self.runtime.approve(row.id, by=self.shell.by, because=because))

    def _show_approval(self) -> None:
        assert self._approval is not None
        row, found = self._approval
        self.screen.line(f"? {found.tool} asks for your yes (gate {row.gate})", "bold")
        self._intent(found, LINES)
        self.screen.line("  " + self._choices(row), "dim")
        self.screen.ask("y/n/a/m > " if self._may_always(row) else "y/n/m > ")

    def _may_always(self, row: Approval) -> bool:
        from perdure.agent.permissions import GATE

        return row.gate == GATE.name and row.quorum == 1

    def _choices(self, row: Approval) -> str:
        said = MORE if self._may_always(row) else ONCE
        return said if self.screen.speaks_unicode else said.replace("·", "|")

    def _intent(self, found: Effect, most: int | None) -> None:
        for line in lines_of(found, most):
            self.screen.line(line)

    async def take(self, line: str) -> bool:
        """Take what was typed. False: the person wants to leave."""
        asked = self.asked
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
                self._go_on()
            case _:
                return False
        return True

    async def _vote(self, line: str) -> None:
        assert self._approval is not None
        row, found = self._approval
        word, _, reason = line.partition(" ")
        if self._for:
            word, reason, self._for = self._for, line, ""
        elif word.lower() in ("n", "no", "a", "always") and not reason.strip():
            self._for = word.lower()[0]
            self.screen.ask("why not > " if self._for == "n" else "why always > ")
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
                self._again(self._choices(row))

    async def _always(self, row: Approval, found: Effect, reason: str) -> None:
        from perdure.agent.permissions import allow

        move = allow(row.session_uid, self.shell.by, found.tool, because=reason)
        if await self._try(self.runtime.store.write(move), keep=True):
            await self._try(self.runtime.approve(row.id, by=self.shell.by, because=f"always in this session: {reason}"))

    def _more(self, row: Approval, found: Effect) -> None:
        self._intent(found, None)
        facts = [
            ("effect", found.id), ("intent digest", found.intent_digest), ("key", found.idempotency_key),
            ("replay", found.replay), ("targets", value(found.targets)), ("asked by", row.requester),
            ("asked", f"{span(self.runtime.store.clock.now() - row.asked_at)} ago"), ("votes needed", str(row.quorum)),
        ]  # fmt: skip
        for name, said in facts:
            self.screen.line(f"    {name.ljust(13)}  {safe(said)}", "dim")
        self._again(self._choices(row))

    async def _answer(self, line: str) -> None:
        assert self.asked is not None
        choices = self._detail("choices") or []
        if line.isdecimal() and 1 <= int(line) <= len(choices) and line not in choices:
            line = str(choices[int(line) - 1])
        if not line:
            self._again("Type an answer, or press Ctrl-D to leave.")
            return
        await self._try(self.runtime.answer(self.asked.wait.id, line, by=self.shell.by))

    async def _settle(self, line: str) -> None:
        assert self.asked is not None
        word, _, reason = line.partition(" ")
        verdict = next((one for one in VERDICTS if word and one == word.lower()), None)
        if verdict is None or not reason.strip():
            self._again("Type happened, absent or abandon, and how you know.")
            return
        id = self.asked.wait.ref or ""
        await self._try(self.runtime.settle(id, verdict, by=self.shell.by, because=reason.strip()))

    def _again(self, said: str) -> None:
        """The question stays open."""
        self.screen.line("  " + said, "dim")
        if self.asked is not None:
            prompts = {WaitKind.APPROVAL: "y/n/a/m > ", WaitKind.DOUBT: "verdict > "}
            self.screen.ask(prompts.get(WaitKind(self.asked.wait.kind), "> "))

    async def _try(self, act: Any, *, keep: bool = False) -> bool:
        """Do what the person said; if that is refused, say why and ask again."""
        try:
            await act
        except PerdureError as error:
            said = error if not isinstance(error, ConfigError) or self.asked is None else _with_command(self, error)
            self._again(f"{said.message} {said.hint}".strip())
            return False
        if not keep:
            self.withdraw()
        return True


def is_for_message(asked: WaitDescription) -> bool:
    """Whether it is no question, but room for whatever a person wants to say next."""
    return asked.wait.kind == WaitKind.INPUT and asked.wait.ref is None


def _with_command(asking: WaitPrompt, error: ConfigError) -> ConfigError:
    """What cannot be said at this prompt can be said by a command."""
    assert asking.asked is not None
    if asking.asked.wait.kind != WaitKind.DOUBT:
        return error
    line = asking.shell.suggest(
        "settle", asking.asked.wait.ref or "", "--happened", "--because", "TEXT", "--result", "JSON"
    )
    return ConfigError(error.message, hint=f"In another terminal: {line}")


def _asked_for(tx: StoreTransaction, uid: str, id: str) -> tuple[Approval, Effect]:
    row = approval.get(tx, uid, id)
    return row, effect.get(tx, uid, row.effect_id)


def _reason(said: Fact) -> str:
    return short(str(said.value.get("because") if isinstance(said.value, dict) else said.value))
