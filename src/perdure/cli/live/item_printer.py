"""The items of a conversation, printed for a person: messages, calls as they run, diffs in colour, and the cost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rich.text import Text

from perdure.cli.live.items import JsonObject
from perdure.cli.live.screen import KEEP, Screen
from perdure.cli.text.grid import columns, fitted
from perdure.cli.text.plain import arguments, count, safe, short

DIFF = 40  # lines of a diff that are shown
RESULT = 1  # lines of any other result
TAIL = 8  # lines from the end of a failed command's output
MARKS = {"done": ("●", "green"), "failed": ("✗", "red"), "not started": ("○", "yellow"), "unknown": ("?", "yellow")}
PLAIN_MARKS = {"done": "*", "failed": "x", "not started": "o", "unknown": "?"}
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class ItemPrinter:
    """Prints stream objects on a screen."""

    def __init__(self, screen: Screen, now: Callable[[], int]) -> None:
        self.screen = screen
        self._now = now
        self._streamed = ""
        self._running: dict[str, tuple[str, int]] = {}
        self._turns = 0
        self._seen: set[str] = set()  # how notes start that would repeat what was just shown

    def show(self, one: JsonObject) -> None:
        item = one.get("item") or {}
        match one["type"], item.get("kind"):
            case "item.updated", "message" if item.get("broke_off"):
                self._streamed = ""
                self.screen.line("… the reply broke off here, and is not recorded", "yellow")
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
        """What runs now, for the bottom row."""
        spinner = SPINNER[frame % len(SPINNER)] if self.screen.speaks_unicode else "|/-\\"[frame % 4]
        if not self._running:
            return f"{spinner} thinking"
        name, since = next(iter(self._running.values()))
        more = f" and {len(self._running) - 1} more" if len(self._running) > 1 else ""
        took = f"{max(0, self._now() - since) / 1_000_000:.0f}s"
        return f"{spinner} {took} {fitted(name, max(8, min(columns(name), self.screen.width - 20 - len(more))))}{more}"

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
            return  # the person at this terminal saw it happen
        self.screen.line(str(item["text"]), "yellow" if item["about"] in ("limit", "model") else "cyan")

    def _progress(self, item: JsonObject, one: JsonObject) -> None:
        if item["status"] == "running" and item["id"] in self._running:
            self._running[item["id"]] = (self._running[item["id"]][0], int(one["at"]))
        elif item["status"] == "planned":
            self._running.pop(item["id"], None)

    def _call(self, item: JsonObject) -> None:
        if item["name"] == "ask_person" and item["status"] == "done":
            return  # the question and its answer were shown
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
        elif failed_command(item):
            self._end_of_output(str(item["result"]).splitlines(), item.get("effect"))
        else:
            self._result(str(item.get("result") if item.get("result") is not None else ""))

    def _end_of_output(self, lines: list[str], effect: Any) -> None:
        """How a failed command ended, and the end of its output: that is where the reason is."""
        self.screen.line(f"    {short(lines[0])}", "red")
        output = [line for line in lines[1:] if line.strip()]
        if len(output) > TAIL:
            whole = f"; `perdure effects {effect}` shows all" if effect else ""
            self.screen.line(f"    … {count(len(output) - TAIL, 'line')} before{whole}", "dim")
        for line in output[-TAIL:]:
            self.screen.line(Text("    " + short(line.expandtabs(4), 500), "dim"))

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
    """A call in one row: its name, and its arguments without the content of files."""
    given = item.get("arguments")
    if isinstance(given, dict) and item["name"] in ("edit_file", "write_file"):
        given = {"path": given.get("path")}
    return short(f"{safe(str(item['name']))} {arguments(given, 1000)}".rstrip(), room)


def diff_of(item: JsonObject) -> list[str]:
    """The lines of a change: the diff that `edit_file` returns, or the content that `write_file` wrote."""
    if item["name"] == "edit_file":
        return str(item.get("result") or "").splitlines()[1:]
    given = item.get("arguments")
    content = given.get("content") if isinstance(given, dict) else None
    return [f"+{line}" for line in content.splitlines()] if isinstance(content, str) else []


def failed_command(item: JsonObject) -> bool:
    """Whether a command ran and ended with anything but exit code 0."""
    result = item.get("result")
    return item["name"] == "run_command" and isinstance(result, str) and result.partition("\n")[0] not in ("", "exit 0")
