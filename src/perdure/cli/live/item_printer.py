"""The items of a conversation, printed for a person: messages, calls as they run, diffs in colour, and the cost."""

from __future__ import annotations

import re
from typing import Any

from rich.text import Text

from perdure.cli.attachments import without_contents
from perdure.cli.display.activity import Activity, call_line
from perdure.cli.display.diff import numbered_diff
from perdure.cli.display.reply_text import ReplyText
from perdure.cli.live.items import CUT, STOPS, JsonObject
from perdure.cli.live.screen import KEEP, Screen
from perdure.cli.text.plain import count, safe, short

DIFF = 40  # lines of a diff that are shown
RESULT = 1  # lines of any other result
TAIL = 5  # lines from the end of a command's output
FAILED_TAIL = 8  # … of one that failed
_COLOURS = re.compile(r"\\x1b\[[0-9;]*[mK]")  # sequences that a tool's result has as text
MARKS = {"done": ("●", "green"), "failed": ("✗", "red"), "not started": ("○", "yellow"), "unknown": ("?", "yellow")}
PLAIN_MARKS = {"done": "*", "failed": "x", "not started": "o", "unknown": "?"}


class ItemPrinter:
    """Prints stream objects on a screen."""

    def __init__(self, screen: Screen, activity: Activity) -> None:
        self.screen = screen
        self.activity = activity
        self._reply = reply = ReplyText(screen, activity.now)
        screen.live = lambda: [*reply.rows, *activity.rows]
        self._turns = 0
        self._seen: set[str] = set()  # how notes start that would repeat what was just shown

    def show(self, one: JsonObject) -> None:
        self.activity.show(one)
        item = one.get("item") or {}
        match one["type"], item.get("kind"):
            case "item.updated", "message" if item.get("broke_off"):
                self._reply.end()
                self.screen.line("… the reply broke off here, and is not recorded", "yellow")
            case "item.updated", "message":
                self._reply.append(item["delta"])
            case "item.completed", "message":
                self._message(item)
            case "item.completed", "tool_call":
                self._call(item)
            case "item.completed", "note":
                self._note(item)
            case "item.completed", "approval":
                self._decided(item)
            case "item.completed", "question":
                self.screen.line(f"  {item['by']} answered: {item['answer']}", "dim")
            case "model.waiting", _ if not self.screen.draws:
                self.screen.line(f"  {self.activity.retry_text}", "yellow")
            case "turn.completed", _:
                self._cost(one["usage"])

    def status(self, frame: int) -> str:
        """What happens now, for the bottom row. The live area is brought up to date too."""
        self._reply.update()
        return self.activity.status(frame)

    def _message(self, item: JsonObject) -> None:
        if item["role"] == "user":
            if self._turns:
                self.screen.line("")
            self._turns += 1
            self.screen.line(Text("> " + safe(without_contents(str(item["text"])), keep=KEEP), "bold"))
        elif self._reply.received and self._reply.received == item["text"]:
            self._reply.end()
        else:
            self._reply.end()
            self._reply.whole(str(item["text"]))
        if item.get("stop") == CUT:
            self.screen.line("… the reply was cut here", "yellow")

    def _note(self, item: JsonObject) -> None:
        news = [one for one in item.get("items") or () if not str(one).startswith(tuple(self._seen))]
        if item["about"] == "away" and item.get("items") and not news:
            return  # the person at this terminal saw it happen
        self.screen.line(without_contents(str(item["text"])), "yellow" if item["about"] in STOPS else "cyan")

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
        elif item["name"] == "run_command" and isinstance(item.get("result"), str):
            self._command(item["result"], item.get("effect"))
        else:
            self._result(str(item.get("result") if item.get("result") is not None else ""))

    def _command(self, result: str, effect: Any) -> None:
        """How a command ended, and the end of its output. If it failed, that is where the reason is."""
        head, _, text = _COLOURS.sub("", result).partition("\n")
        output = [line for line in text.splitlines() if line.strip()]
        failed = head not in ("", "exit 0")
        if not failed and len(output) < 2:
            self._result(result)
            return
        self.screen.line(f"    {short(head)}", "red" if failed else "dim")
        most = FAILED_TAIL if failed else TAIL
        if len(output) > most:
            whole = f"; `perdure effects {effect}` shows all" if effect else ""
            self.screen.line(f"    … {count(len(output) - most, 'line')} before{whole}", "dim")
        for line in output[-most:]:
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
        for row in numbered_diff(lines[:most]):
            self.screen.line(row)
        if len(lines) > most:
            self.screen.line(f"    … {count(len(lines) - most, 'more line')}", "dim")

    def _decided(self, item: JsonObject) -> None:
        self._seen.add("an approval was decided")
        what = f"{item['name']}: " if item.get("name") else ""
        style = "green" if item["decision"] == "approved" else "red"
        why = f": {short(str(item['because']))}" if item.get("because") else ""
        self.screen.line(f"  {what}{item['decision']} by {item['by']}{why}", style)

    def _cost(self, usage: dict[str, Any]) -> None:
        parts = [count(usage["model_calls"], "model call")]
        if tokens := usage["tokens_in"] + usage["tokens_out"]:
            parts.append(f"{tokens:,} tokens")
        if usage["cost_micros"]:
            parts.append(f"${usage['cost_micros'] / 1_000_000:.4f}")
        self.screen.line("  " + (" · " if self.screen.speaks_unicode else ", ").join(parts), "dim")


def diff_of(item: JsonObject) -> list[str]:
    """The lines of a change: the diff that `edit_file` returns, or the content that `write_file` wrote."""
    if item["name"] == "edit_file":
        return str(item.get("result") or "").splitlines()[1:]
    given = item.get("arguments")
    content = given.get("content") if isinstance(given, dict) else None
    return ["@@ -0,0 +1 @@", *(f"+{line}" for line in content.splitlines())] if isinstance(content, str) else []
