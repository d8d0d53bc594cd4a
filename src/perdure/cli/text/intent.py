"""An intent in full: what a person sees before approving or denying it.

Each argument is shown with its name, and a change of a file as a diff. A short view limits the number of lines and
their width, so that nothing scrolls away; omitted lines and characters are counted and marked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from rich.text import Text

from perdure.cli.text.plain import count, safe
from perdure.domain.effect import Effect
from perdure.ids import encode

WIDTH = 400  # characters of one line
DIFF = 40  # lines of a diff
TOTAL = 80  # lines in all
MORE = "m shows all"
CHANGES = {"edit_file": ("old", "new"), "write_file": ("content",)}
_SPACES = re.compile(r"(?<=\S) {40,}")  # not at the start of a line, where it is indentation


def lines_of(found: Effect, most: int | None, *, more: str = MORE) -> Iterator[Text]:
    """The lines of an intent. `most` limits the lines of each argument; None shows everything."""
    lines = list(_lines(found, most, more))
    kept = lines if most is None else lines[:TOTAL]
    yield from kept
    if len(lines) > len(kept):
        yield Text(f"    … {count(len(lines) - len(kept), 'more line')}; {more}", "dim")


def _lines(found: Effect, most: int | None, more: str) -> Iterator[Text]:
    given = found.intent if isinstance(found.intent, dict) else {"intent": found.intent}
    changes = CHANGES.get(found.tool, ())
    widest = max((len(safe(name)) for name in given if name not in changes), default=0)
    for name, one in given.items():
        if name in changes:
            continue
        lines = _text(one).splitlines() or [""]
        for nth, line in enumerate(lines[:most]):
            yield Text(f"    {(safe(name) if nth == 0 else '').ljust(widest)}  {_bounded(line, most, more)}")
        if most is not None and len(lines) > most:
            yield Text(f"    {''.ljust(widest)}  … {count(len(lines) - most, 'more line')}; {more}", "dim")
    if changes:
        yield from _change(found, given, most, more)


def _change(found: Effect, given: dict[str, Any], most: int | None, more: str) -> Iterator[Text]:
    signs = {"old": "-", "new": "+", "content": "+"}
    lines = [f"{signs[name]}{line}" for name in CHANGES[found.tool] for line in _text(given.get(name)).splitlines()]
    shown = None if most is None else max(most, DIFF)
    for line in lines[:shown]:
        yield Text(f"    {_bounded(line, most, more)}", "green" if line.startswith("+") else "red")
    if shown is not None and len(lines) > shown:
        yield Text(f"    … {count(len(lines) - shown, 'more line')}; {more}", "dim")


def _text(given: Any) -> str:

    return given if isinstance(given, str) else encode(given)


def _bounded(line: str, most: int | None, more: str) -> str:
    """One line, escaped. A long run of spaces would push the rest out of sight, so it is replaced by its length."""
    shown = _SPACES.sub(lambda found: f" [{len(found[0])} spaces] ", safe(line, keep="\t"))
    if most is None or len(shown) <= WIDTH:
        return shown
    return f"{shown[:WIDTH]}… ({count(len(shown) - WIDTH, 'more character')}; {more})"
