"""A session as a person at a terminal sees it: text as it streams in, calls as they run, diffs in colour, what it cost.

The last row of a terminal is the bottom: a prompt with what is typed, or what is running and for how long. Whatever is
told goes above it. Where nothing can be drawn over (a pipe, a dumb terminal) there are only lines.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.text import Text

from perdure.cli.live.items import JsonObject
from perdure.cli.shell import UNBOUNDED
from perdure.cli.text.grid import columns, fitted
from perdure.cli.text.plain import arguments, count, safe, short

KEEP = "\n\t"
DIFF = 40  # lines of a diff that are shown
RESULT = 1  # lines of any other result
MARKS = {"done": ("●", "green"), "failed": ("✗", "red"), "not started": ("○", "yellow"), "unknown": ("?", "yellow")}
PLAIN_MARKS = {"done": "*", "failed": "x", "not started": "o", "unknown": "?"}
WHEEL = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class Screen:
    """Where it is shown. Everything that comes from outside is made harmless before it is printed."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(highlight=False, emoji=False, markup=False, legacy_windows=False)
        self.draws = self.console.is_terminal and not self.console.is_dumb_terminal
        self.speaks_unicode = (self.console.encoding or "").lower().startswith("utf")
        self.prompt: str | None = None
        self.typed: Callable[[], str] = str
        self._bottom = ""
        self._drawn = False  # the bottom is on the screen
        self._open = False  # a line of streamed text has not ended

    @property
    def width(self) -> int:
        return max(20, self.console.width) if self.console.is_terminal else UNBOUNDED

    @property
    def is_open(self) -> bool:
        """Whether a line is still being said."""
        return self._open

    def line(self, text: str | Text = "", style: str = "") -> None:
        """A line of its own; text that may have come from anywhere is made harmless."""
        self._clear()
        self.end()
        shown = text if isinstance(text, Text) else Text(safe(text, keep=KEEP), style)
        self.console.print(shown, soft_wrap=True)
        self._draw()

    def piece(self, text: str) -> None:
        """More of a line that is still being said."""
        self._clear()
        self.console.print(Text(safe(text, keep=KEEP)), soft_wrap=True, end="")
        self._open = not text.endswith("\n")
        if not self._open:
            self._draw()

    def end(self) -> None:
        """End a line that was still being said."""
        if self._open:
            self.console.print()
            self._open = False

    def ask(self, prompt: str | None) -> None:
        """Show a prompt at the bottom, or none."""
        fresh, self.prompt = prompt != self.prompt, prompt
        if self.draws:
            self.refresh()
        elif prompt is not None and fresh:
            self.end()
            self.console.print(Text(prompt), end="", soft_wrap=True)
            self._open = False

    def answered(self, line: str) -> None:
        """The person pressed Enter: what was typed stays to be read."""
        prompt, self.prompt = self.prompt, None
        if self.draws and prompt is not None:
            self._clear()
            self._bottom = ""
            self.line(Text(prompt + safe(line)))

    def refresh(self, status: str | None = None) -> None:
        """Draw the bottom again: the prompt, or what goes on."""
        if not self.draws or self._open:
            return
        typed = safe(self.typed())
        text = self.prompt + typed if self.prompt is not None else " ".join(filter(None, (status, typed)))
        room = self.width - 1
        while columns(text) > room:
            text = "…" + text[2:] if typed else fitted(text, room)
        if text != self._bottom or status is None:
            self._clear()
            self._bottom = text
            self._draw()

    def _clear(self) -> None:
        if self._drawn:
            self.console.file.write("\r\x1b[2K")
            self._drawn = False

    def _draw(self) -> None:
        if self._bottom and self.draws and not self._open:
            self.console.file.write(self._bottom)
            self._drawn = True
        self.console.file.flush()

    def leave(self) -> None:
        """Nothing stays at the bottom."""
        self._clear()
        self.end()
        self._bottom, self.prompt = "", None
        self.console.file.flush()


class ItemPrinter:
    """The objects of the vocabulary, told to a person."""

    def __init__(self, screen: Screen, now: Callable[[], int]) -> None:
        self.screen = screen
        self._now = now
        self._streamed = ""
        self._running: dict[str, tuple[str, int]] = {}
        self._turns = 0
        self._seen: set[str] = set()  # the beginnings of notes that would say what was just seen here

    def tell(self, one: JsonObject) -> None:
        item = one.get("item") or {}
        match one["type"], item.get("kind"):
            case "item.updated", "message" if item.get("broke_off"):
                self._streamed = ""
                self.screen.line("… this broke off, and is not on record", "yellow")
            case "item.updated", "message":
                self._streamed += item["delta"]
                self.screen.piece(item["delta"])
            case "item.completed", "message":
                self._message(item)
            case "item.started", "tool_call":
                self._running[item["id"]] = (call_line(item, 200), int(one["at"]))
            case "item.updated", "tool_call":
                self._progress(item, one)
            case "item.completed", "tool_call":
                self._running.pop(item["id"], None)
                self._call(item)
            case "item.completed", "note":
                self._note(item)
            case "item.completed", "approval":
                self._decided(item)
            case "item.completed", "question":
                self.screen.line(f"  {item['by']} answered: {item['answer']}", "dim")
            case "turn.completed", _:
                self._cost(one["usage"])

    def status(self, frame: int) -> str:
        """What runs now, for the bottom."""
        wheel = WHEEL[frame % len(WHEEL)] if self.screen.speaks_unicode else "|/-\\"[frame % 4]
        if not self._running:
            return f"{wheel} thinking"
        name, since = next(iter(self._running.values()))
        more = f" and {len(self._running) - 1} more" if len(self._running) > 1 else ""
        took = f"{max(0, self._now() - since) / 1_000_000:.0f}s"
        return f"{wheel} {took} {fitted(name, max(8, min(columns(name), self.screen.width - 20 - len(more))))}{more}"

    def _message(self, item: JsonObject) -> None:
        streamed, self._streamed = self._streamed, ""
        if item["role"] == "user":
            if self._turns:
                self.screen.line("")
            self._turns += 1
            self.screen.line(Text("> " + safe(str(item["text"]), keep=KEEP), "bold"))
        elif streamed and streamed == item["text"]:
            self.screen.end()
        else:
            self.screen.line(str(item["text"]))

    def _note(self, item: JsonObject) -> None:
        news = [one for one in item.get("items") or () if not str(one).startswith(tuple(self._seen))]
        if item["about"] == "away" and item.get("items") and not news:
            return  # whoever sits here saw it happen
        self.screen.line(str(item["text"]), "yellow" if item["about"] in ("limit", "model") else "cyan")

    def _progress(self, item: JsonObject, one: JsonObject) -> None:
        if item["status"] == "running" and item["id"] in self._running:
            self._running[item["id"]] = (self._running[item["id"]][0], int(one["at"]))
        elif item["status"] == "planned":
            self._running.pop(item["id"], None)

    def _call(self, item: JsonObject) -> None:
        if item["name"] == "ask_person" and item["status"] == "done":
            return  # the question and its answer were told
        mark, style = MARKS.get(item["status"], ("●", "yellow"))
        if not self.screen.speaks_unicode:
            mark = PLAIN_MARKS.get(item["status"], "*")
        took = f"{item['seconds']:.1f}s"
        head = Text("  ").append(mark, style).append(" ")
        head.append(call_line(item, max(16, self.screen.width - 6 - len(took))))
        self.screen.line(head.append(f"  {took}", "dim"))
        if item["status"] not in ("done", "undone"):
            self.screen.line(f"    {item['status']}: {short(str(item.get('result')), 300)}", style)
        elif item["name"] in ("edit_file", "write_file"):
            self._lines(diff_of(item), DIFF, str(item.get("result")))
        else:
            self._result(str(item.get("result") if item.get("result") is not None else ""))

    def _result(self, text: str) -> None:
        lines = [line for line in text.splitlines() if line.strip()]
        if not lines:
            return
        left = len(lines) - RESULT - 1
        shown = "  ".join(line.strip() for line in lines[: RESULT + 1])
        more = f"  (+{count(left, 'line')})" if left > 0 else ""
        room = min(self.screen.width, 160) - 5 - len(more)
        self.screen.line(Text("    " + short(shown.expandtabs(1), max(16, room)) + more, "dim"))

    def _lines(self, lines: list[str], most: int, otherwise: str) -> None:
        if not lines:
            self._result(otherwise)
        for line in lines[:most]:
            style = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "dim")
            self.screen.line(Text("    " + short(line.expandtabs(4), 500), style))
        if len(lines) > most:
            self.screen.line(f"    … {count(len(lines) - most, 'more line')}", "dim")

    def _decided(self, item: JsonObject) -> None:
        self._seen.add("an approval was decided")
        what = f"{item['name']}: " if item.get("name") else ""
        style = "green" if item["decision"] == "approved" else "red"
        self.screen.line(f"  {what}{item['decision']} by {item['by']}: {short(str(item.get('because')))}", style)

    def _cost(self, usage: dict[str, Any]) -> None:
        parts = [count(usage["model_calls"], "model call")]
        if tokens := usage["tokens_in"] + usage["tokens_out"]:
            parts.append(f"{tokens:,} tokens")
        if usage["cost_micros"]:
            parts.append(f"${usage['cost_micros'] / 1_000_000:.4f}")
        self.screen.line("  " + (" · " if self.screen.speaks_unicode else ", ").join(parts), "dim")


def call_line(item: JsonObject, room: int) -> str:
    """A call in one row: its name, and what matters of its arguments."""
    given = item.get("arguments")
    if isinstance(given, dict) and item["name"] in ("edit_file", "write_file"):
        given = {"path": given.get("path")}
    return short(f"{safe(str(item['name']))} {arguments(given, 1000)}".rstrip(), room)


def diff_of(item: JsonObject) -> list[str]:
    """The lines of a change: a tool of ours shows what it replaced; of a file written whole, what it holds now."""
    if item["name"] == "edit_file":
        return str(item.get("result") or "").splitlines()[1:]
    given = item.get("arguments")
    content = given.get("content") if isinstance(given, dict) else None
    return [f"+{line}" for line in content.splitlines()] if isinstance(content, str) else []


def make_screen(file: Any = None) -> Screen:
    """A screen on a stream, by default the standard output."""
    console = Console(file=file or sys.stdout, highlight=False, emoji=False, markup=False, legacy_windows=False)
    return Screen(console)
