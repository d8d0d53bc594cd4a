"""The question whether a call may be made: what it would do, and one key for each answer.

A key counts only when nothing was typed for a moment after the call was shown. So what a person is typing when the
question appears is never its answer; it is put aside.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

from perdure.cli.live.screen import Screen
from perdure.cli.live.session_source import SessionSource
from perdure.cli.shell import Shell
from perdure.cli.text.intent import lines_of
from perdure.cli.text.plain import safe, value
from perdure.clock import span
from perdure.domain.approval import Approval
from perdure.domain.approval_summary import asking_rules, consequence
from perdure.domain.effect import Effect
from perdure.domain.wait import Wait
from perdure.runtime.runtime import Runtime
from perdure.store.moves import approval

LINES = 12  # of one argument; `m` shows all
QUIET = 0.4  # seconds without a key before an answer is accepted
WIDTHS = {"y": "once", "s": "this", "t": "tool"}


class ApprovalPrompt:
    """One call at a time. `vote` does what the person chose, and returns whether it was accepted."""

    def __init__(
        self, shell: Shell, runtime: Runtime, source: SessionSource, screen: Screen,
        vote: Callable[[Awaitable[Any]], Awaitable[bool]],
    ) -> None:  # fmt: skip
        self.shell = shell
        self.runtime = runtime
        self._source = source
        self.screen = screen
        self.is_open = False  # an answer is accepted now
        self._vote = vote
        self._typed = ("", "")
        self._quiet_since = 0.0
        self._choice = ""  # the answer that still waits for its reason
        self._row: Approval
        self._effect: Effect
        self._detail: dict[str, Any] = {}
        self._may_remember = False

    async def show(self, asked: Wait) -> None:
        """Show the call and the answers; the keys count from `tick` on."""
        self._row, self._effect, self._detail, self._may_remember = await self._source.approval(asked)
        self.is_open, self._choice = False, ""
        self._typed, self._quiet_since = self.screen.typed(), time.monotonic()
        self.screen.line(f"? {self._effect.tool} needs your approval (gate {self._row.gate})", "bold")
        self._show_call(LINES)
        for rule in asking_rules(self._detail):
            self.screen.line(f"    rule  {safe(rule)}")
        self._show_choices()

    def tick(self, stash_typed: Callable[[], bool]) -> None:
        """Accept answers once nothing was typed for a moment."""
        typed, now = self.screen.typed(), time.monotonic()
        if self.is_open:
            return
        if typed != self._typed:
            self._typed, self._quiet_since = typed, now
        elif now - self._quiet_since >= QUIET:
            if stash_typed():  # keys that were not read yet
                self._typed, self._quiet_since = self.screen.typed(), now
                return
            self.is_open = True
            self.ask()

    def ask(self) -> None:
        """Show the prompt for the next key, or for a reason."""
        if self._choice:
            optional = "" if self._needs_reason else ", or Enter for none"
            self.screen.ask(f"reason{optional} > ")
        else:
            keys = "".join(self._keys)
            self.screen.ask("/".join(self._keys) + " > ", keys=keys + keys.upper())

    async def take(self, line: str) -> None:
        """Act on a key, or on the reason for one."""
        if self._choice:
            choice, self._choice = self._choice, ""
            if not line and self._needs_reason:
                self.screen.line(f"  The gate {self._row.gate} needs a reason.", "dim")
                self.ask()
            else:
                await self._cast(choice, line or None)
            return
        word, _, reason = line.partition(" ")
        key = _WORDS.get(word.lower(), word.lower())
        if key == "m":
            self._more()
        elif key not in self._keys:
            self._show_choices()
            self.ask()
        elif reason.strip() or (key != "n" and not self._needs_reason):
            await self._cast(key, reason.strip() or None)
        else:
            self._choice = key
            self.ask()

    async def _cast(self, key: str, because: str | None) -> None:
        id, uid, by = self._row.id, self._row.session_uid, self.shell.by
        if key == "n":
            await self._vote(self.runtime.deny(id, session=uid, by=by, because=because))
        else:
            width: Any = WIDTHS[key]
            await self._vote(self.runtime.approve(id, session=uid, by=by, because=because, remember=width))

    @property
    def _needs_reason(self) -> bool:
        return self._detail.get("reason") == approval.REQUIRED

    @property
    def _keys(self) -> dict[str, str]:
        """The keys, and what each answer covers."""
        tool = safe(self._effect.tool)
        wide = {
            "s": "approve it, and allow exactly this call again in this session",
            "t": f"approve it, and allow every call of {tool} in this session",
        }
        keys = {"y": "approve this call, once"} | (wide if self._may_remember else {})
        return keys | {"n": "deny it; you may add a reason", "m": "more: the whole call, its ids and its digest"}

    def _show_choices(self) -> None:
        for key, meaning in self._keys.items():
            self.screen.line(f"  {key}  {meaning}", "dim")

    def _show_call(self, most: int | None) -> None:
        for line in lines_of(self._effect, most, about=self._detail.get("about")):
            self.screen.line(line)

    def _more(self) -> None:
        row, found = self._row, self._effect
        self._show_call(None)
        facts = [
            ("effect", found.id), ("intent digest", found.intent_digest), ("key", found.idempotency_key),
            ("replay", found.replay), ("targets", value(found.targets)), ("asked by", row.requester),
            ("asked", f"{span(self.runtime.store.clock.now() - row.asked_at)} ago"), ("votes needed", str(row.quorum)),
            ("approving", consequence(found.tool, found.replay, missing=row.quorum)),
        ]  # fmt: skip
        for name, text in facts:
            self.screen.line(f"    {name.ljust(13)}  {safe(text)}", "dim")
        self._show_choices()
        self.ask()


_WORDS = {"yes": "y", "session": "s", "tool": "t", "no": "n", "more": "m"}
