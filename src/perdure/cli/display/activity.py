"""What a session does now: the status line, such as "running `make test` · 12 s", and what its command prints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rich.text import Text

from perdure.cli.live.screen import Screen
from perdure.cli.text.grid import columns, fitted
from perdure.cli.text.plain import arguments, elapsed, safe, short
from perdure.cli.text.waits import WaitDescription
from perdure.domain.wait import WaitKind
from perdure.runtime.live_text.delta import RetryNotice

SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
LINES = 5  # of a command's output
NAME = 200  # characters of a call
WAITING = "model.waiting"

OutputTail = Callable[[str, int, int], list[str]]  # of an effect and an attempt, so many lines


class RunningCall:
    """A call that has no result yet."""

    def __init__(self, name: str, since: int) -> None:
        self.name = name
        self.since: int | None = since  # None while it waits for approval
        self.effect: str | None = None
        self.attempt = 1


class Activity:
    """Follows the stream objects of a session. `idle` is what it does while it neither calls nor writes anything."""

    def __init__(
        self, screen: Screen, now: Callable[[], int], tail: OutputTail | None = None, idle: str = "thinking"
    ) -> None:
        self.rows: list[Text] = []  # the end of what the running command prints
        self.is_writing = False  # live text of the model arrives
        self._screen = screen
        self.now = now
        self._tail = tail
        self._idle = idle
        self._calls: dict[str, RunningCall] = {}
        self._since = now()
        self._retry: RetryNotice | None = None  # the model is asked again at its time
        self.progress: Callable[[str], str] = lambda _effect: ""  # what the tool of an effect reported
        self.waits: list[WaitDescription] = []  # what the session waits for, other than a person

    def show(self, one: dict[str, Any]) -> None:
        """Take one stream object into account."""
        item = one.get("item") or {}
        if item.get("kind") in ("note", "approval", "question"):
            return
        self._retry = RetryNotice(**{k: v for k, v in one.items() if k != "type"}) if one["type"] == WAITING else None
        is_text = one["type"] == "item.updated" and item.get("kind") == "message" and not item.get("broke_off")
        if not (is_text and self.is_writing):  # the time of an answer counts from its first word
            self._since = int(one.get("at") or self.now())
        self.is_writing = is_text
        if item.get("kind") != "tool_call":
            return
        if one["type"] == "item.started":
            self._calls[item["id"]] = RunningCall(call_text(item), self._since)
        elif one["type"] == "item.completed":
            self._calls.pop(item["id"], None)
        elif (call := self._calls.get(item["id"])) is not None:
            call.since = self._since if item["status"] == "running" else None
            call.effect, call.attempt = item.get("effect"), int(item.get("attempt") or 1)
        self.rows = []  # the next status reads them again

    def status(self, frame: int) -> str:
        """What runs now, for the bottom row. Also reads what the command has printed."""
        spinner = SPINNER[frame % len(SPINNER)] if self._screen.speaks_unicode else "|/-\\"[frame % 4]
        running = [one for one in self._calls.values() if one.since is not None]
        self.rows = self._output(running)
        if self.waits:
            return f"{spinner} {fitted(describe_wait_now(self.waits, self.now()), self._screen.width - 4).rstrip()}"
        if self._retry is not None and self._retry.due_at > self.now():
            return f"{spinner} {fitted(describe_retry(self._retry, self.now()), self._screen.width - 4).rstrip()}"
        if not running:
            return f"{spinner} {self._text('writing' if self.is_writing else self._idle, self._since)}"
        first = running[0]
        more = f" and {len(running) - 1} more" if len(running) > 1 else ""
        progress = self.progress(first.effect) if first.effect else ""
        what = f"{first.name}: {short(progress)}" if progress else first.name
        return f"{spinner} {self._text(what, first.since or 0, more)}"

    @property
    def retry_text(self) -> str:
        """When and why the model is asked again, if it is."""
        return "" if self._retry is None else describe_retry(self._retry, self.now())

    def _text(self, what: str, since: int, more: str = "") -> str:
        """What happens and since when; a long text is cut, so that the time is always seen."""
        dot = " · " if self._screen.speaks_unicode else ", "
        took = f"{more}{dot}{elapsed(self.now() - since)}"
        return fitted(what, max(8, min(columns(what), self._screen.width - 4 - len(took)))).rstrip() + took

    def _output(self, running: Sequence[RunningCall]) -> list[Text]:
        """The end of what the first command prints that prints anything."""
        for one in running:
            if self._tail is not None and one.effect and (lines := self._tail(one.effect, one.attempt, LINES)):
                return [Text("    " + safe(line.expandtabs(4)), "dim") for line in lines]
        return []


def describe_retry(retry: RetryNotice, now: int, *, because: bool = False) -> str:
    """Why the model is asked again, and when. With `because`, in the words of the error."""
    why = "the provider asks for patience" if retry.requested and not because else retry.why.rstrip(".")
    return safe(f"{why}: next try in {elapsed(retry.due_at - now + 999_999)} ({retry.attempt} of {retry.most})")


def describe_wait_now(waits: Sequence[WaitDescription], now: int) -> str:
    """The first of several waits; a time is counted down."""
    one, more = waits[0].wait, f" (and {len(waits) - 1} more)" if len(waits) > 1 else ""
    detail = one.detail if isinstance(one.detail, dict) else {}
    if one.kind == WaitKind.TIMER and one.due_at is not None:
        if one.ref == "model" and "attempt" in detail:
            return describe_retry(RetryNotice(one.due_at, detail["attempt"], detail["most"], "", True), now) + more
        return f"waiting: {elapsed(one.due_at - now + 999_999)} more{more}"
    return f"waiting for {waits[0].what}{more}"


def call_text(item: dict[str, Any]) -> str:
    """A call for the status line: the command that runs, or the call."""
    given = item.get("arguments")
    if item["name"] == "run_command" and isinstance(given, dict) and isinstance(given.get("command"), str):
        first, _, more = given["command"].strip().partition("\n")
        return f"running `{short(first, NAME)}{' …' if more else ''}`"
    return call_line(item, NAME)


def call_line(item: dict[str, Any], room: int) -> str:
    """A call in one row: its name, and its arguments without the content of files."""
    given = item.get("arguments")
    if isinstance(given, dict) and item["name"] in ("edit_file", "write_file"):
        given = {"path": given.get("path")}
    return short(f"{safe(str(item['name']))} {arguments(given, 1000)}".rstrip(), room)
