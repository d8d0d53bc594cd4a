"""An intent for a page: the arguments by name, a command as it is typed, a change of a file as a diff.

It is read from the row of the effect, which the approval is bound to, and never from what a model said about it. What
was recorded about the call (`about`) is shown beside the arguments and decides nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from perdure.domain.effect import Effect
from perdure.ids import encode

CHANGES = {"edit_file": ("old", "new"), "write_file": ("content",)}
COMMANDS = {"run_command": "command"}
SIGNS: dict[str, Literal["-", "+"]] = {"old": "-", "new": "+", "content": "+"}
MOST = 2000  # lines of a diff
ABOUT = ("folder", "sandbox", "network", "replaces", "count", "commits")
HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
DIGEST = re.compile(r"[0-9a-f]{64}")


class DiffLine(msgspec.Struct, frozen=True):
    """A line of a change: removed, added, or around it; a hunk begins with its own. `lead` and `tail` are the parts of
    the line that stay as they are."""

    sign: Literal["-", "+", " ", "@"]
    text: str
    number: int | None = None  # in the file after the change; of a removed line, before it
    lead: str = ""
    tail: str = ""

    @property
    def style(self) -> str:
        return {"-": "removed", "+": "added", " ": "around", "@": "hunk"}[self.sign]


class IntentView(msgspec.Struct, frozen=True):
    """What would be done."""

    tool: str
    facts: list[tuple[str, Any]]
    command: str | None = None
    lines: list[DiffLine] = []
    left_out: int = 0
    about: list[tuple[str, Any]] = []
    more: list[tuple[str, Any]] = []  # arguments of a change that its lines show: digests, and what is not used


def view_of(found: Effect, about: Any = None) -> IntentView:
    """The intent of an effect, whose arguments are in its row."""
    given: dict[str, Any] = found.intent if isinstance(found.intent, dict) else {"intent": found.intent}
    noted: dict[str, Any] = about if isinstance(about, dict) else {}
    changes, command = CHANGES.get(found.tool, ()), COMMANDS.get(found.tool)
    typed = given.get(command) if command is not None else None
    apart = {*changes, *([command] if isinstance(typed, str) and command else [])}
    lines = list(_change(given, changes, noted)) if changes else []
    facts = [(name, one) for name, one in given.items() if name not in apart]
    return IntentView(
        tool=found.tool, facts=[one for one in facts if not (changes and _is_detail(one[1]))],
        more=[one for one in facts if changes and _is_detail(one[1])],
        command=typed if isinstance(typed, str) else None, lines=lines[:MOST], left_out=max(0, len(lines) - MOST),
        about=[(name, noted[name]) for name in ABOUT if noted.get(name) is not None and name not in given],
    )  # fmt: skip


def _is_detail(value: Any) -> bool:
    return value is None or value is False or (isinstance(value, str) and DIGEST.fullmatch(value) is not None)


def _change(given: dict[str, Any], names: tuple[str, ...], about: dict[str, Any]) -> Iterator[DiffLine]:
    """The lines of a change, whole and with the lines around it if they were recorded."""
    first = about["line"] if isinstance(about.get("line"), int) else None
    before, after = (one if isinstance(one := about.get(name), list) and first else [] for name in ("before", "after"))
    lead, tail = (str(about.get(name) or "") if first else "" for name in ("lead", "tail"))
    start = None if first is None else first - len(before)
    for nth, text in enumerate(before):
        yield DiffLine(" ", str(text), None if start is None else start + nth)
    last = 0
    for name in names:
        value = given.get(name)
        texts = (value if isinstance(value, str) else encode(value)).splitlines() or ([""] if lead or tail else [])
        last = len(texts)
        for nth, text in enumerate(texts):
            yield DiffLine(
                SIGNS[name], text, None if first is None else first + nth,
                lead if nth == 0 else "", tail if nth == last - 1 else "",
            )  # fmt: skip
    for nth, text in enumerate(after):
        yield DiffLine(" ", str(text), None if first is None else first + last + nth)


def diff_lines(text: str) -> tuple[list[DiffLine], int]:
    """The lines of a unified diff with their numbers, and how many more there are.

    Inside a hunk, a line that looks like a header is not one.
    """
    made: list[DiffLine] = []
    old = new = None
    for one in text.removesuffix("\n").split("\n") if text else ():
        if (found := HUNK.match(one)) is not None:
            old, new = int(found[1]), int(found[2])
            made.append(DiffLine("@", one))
        elif old is None or new is None:
            made.append(DiffLine(" ", one))
        elif one.startswith("-"):
            made.append(DiffLine("-", one[1:], old))
            old += 1
        elif one.startswith("+"):
            made.append(DiffLine("+", one[1:], new))
            new += 1
        elif one.startswith("\\"):  # "No newline at end of file"
            made.append(DiffLine(" ", one))
        else:
            made.append(DiffLine(" ", one[1:], new))
            old, new = old + 1, new + 1
    return made[:MOST], max(0, len(made) - MOST)
