"""An intent in full: what a person sees before approving or denying it.

Each argument is shown with its name, and a change of a file as a diff. What was recorded about the call follows: its
folder and sandbox, the lines around an edit, the commits of a push. The arguments decide what is done, so they are
always shown. A short view limits the number of lines and their width, so that nothing scrolls away; omitted lines and
characters are counted and marked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from rich.text import Text

from perdure.cli.text.plain import count, safe
from perdure.domain.effect import Effect
from perdure.ids import encode, host

WIDTH = 400  # characters of one line
DIFF = 40  # lines of a diff
TOTAL = 80  # lines in all
MORE = "m shows all"
SIGNS = {"old": "-", "new": "+", "content": "+"}
STYLES = {"-": "red", "+": "green", " ": "dim"}
SANDBOXES = {
    "none": ": the command runs with all rights of the user",
    "unavailable": ": the command will be refused",
}
CHANGES = {"edit_file": ("old", "new"), "write_file": ("content",)}
_SPACES = re.compile(r"(?<=\S) {40,}")  # not at the start of a line, where it is indentation


def lines_of(found: Effect, most: int | None, *, more: str = MORE, about: Any = None) -> Iterator[Text]:
    """The lines of an intent. `most` limits the lines of each argument; None shows everything.

    `about` is what was recorded about the call when approval was requested (`agent.toolbox.call_details`).
    """
    lines = list(_lines(found, most, more, about if isinstance(about, dict) else {}))
    kept = lines if most is None else lines[:TOTAL]
    yield from kept
    if len(lines) > len(kept):
        yield Text(f"    … {count(len(lines) - len(kept), 'more line')}; {more}", "dim")


def _lines(found: Effect, most: int | None, more: str, about: dict[str, Any]) -> Iterator[Text]:
    given = found.intent if isinstance(found.intent, dict) else {"intent": found.intent}
    changes = CHANGES.get(found.tool, ())
    facts = [(name, _text(one)) for name, one in given.items() if name not in changes]
    facts += [(name, text) for name, text in _facts(about) if name not in given]
    widest = max((len(safe(name)) for name, _ in facts), default=0)
    for name, text in facts:
        lines = text.splitlines() or [""]
        for nth, line in enumerate(lines[:most]):
            yield Text(f"    {(safe(name) if nth == 0 else '').ljust(widest)}  {_bounded(line, most, more)}")
        if most is not None and len(lines) > most:
            yield Text(f"    {''.ljust(widest)}  … {count(len(lines) - most, 'more line')}; {more}", "dim")
    if changes:
        yield from _change(found, given, most, more, about)


def _facts(about: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What was recorded about the call, by name."""
    if isinstance(folder := about.get("folder"), str):
        elsewhere = f" on {about['host']}" if isinstance(about.get("host"), str) and about["host"] != host() else ""
        yield "folder", folder + elsewhere
    if isinstance(level := about.get("sandbox"), str):
        yield "sandbox", level + SANDBOXES.get(level, "")
    if isinstance(network := about.get("network"), str):
        yield "network", network
    if isinstance(lines := about.get("replaces"), int):
        yield "replaces", f"a file of {count(lines, 'line')}"
    if isinstance(commits := about.get("commits"), list):
        total = about["count"] if isinstance(about.get("count"), int) else len(commits)
        rest = [f"and {total - len(commits)} more"] if total > len(commits) else []
        yield "commits", "\n".join([count(total, "commit"), *map(str, commits), *rest])


def _change(found: Effect, given: dict[str, Any], most: int | None, more: str, about: dict[str, Any]) -> Iterator[Text]:
    """The change of a file, with the lines around it and their numbers if they were recorded."""
    first = about["line"] if isinstance(about.get("line"), int) else None
    around = [one if isinstance(one := about.get(name), list) and first else [] for name in ("before", "after")]
    parts = [(name, _whole(_text(given.get(name)).splitlines(), about)) for name in CHANGES[found.tool]]
    start = (first or 1) - len(around[0])
    lines = [(" ", start + nth, str(line)) for nth, line in enumerate(around[0])]
    for name, texts in parts:
        lines += [(SIGNS[name], (first or 1) + nth, line) for nth, line in enumerate(texts)]
    end = (first or 1) + len(parts[-1][1])
    lines += [(" ", end + nth, str(line)) for nth, line in enumerate(around[1])]
    shown = None if most is None else max(most, DIFF)
    for sign, number, line in lines[:shown]:
        place = f"{number:>5} " if first else ""
        yield Text(f"    {place}{sign}{_bounded(line, most, more)}", STYLES[sign])
    if shown is not None and len(lines) > shown:
        yield Text(f"    … {count(len(lines) - shown, 'more line')}; {more}", "dim")


def _whole(lines: list[str], about: dict[str, Any]) -> list[str]:
    """Lines with what stays around them in the first and in the last one, if that was recorded."""
    lead, tail = (one if isinstance(one := about.get(name), str) else "" for name in ("lead", "tail"))
    made = lines or ([""] if lead or tail else [])
    return [(lead if nth == 0 else "") + line + (tail if nth == len(made) - 1 else "") for nth, line in enumerate(made)]


def _text(given: Any) -> str:

    return given if isinstance(given, str) else encode(given)


def _bounded(line: str, most: int | None, more: str) -> str:
    """One line, escaped. A long run of spaces would push the rest out of sight, so it is replaced by its length."""
    shown = _SPACES.sub(lambda found: f" [{len(found[0])} spaces] ", safe(line, keep="\t"))
    if most is None or len(shown) <= WIDTH:
        return shown
    return f"{shown[:WIDTH]}… ({count(len(shown) - WIDTH, 'more character')}; {more})"
