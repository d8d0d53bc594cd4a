"""A unified diff for a terminal: each line with its number, in colour.

A removed line has its number in the old file, every other line its number in the new one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from rich.text import Text

from perdure.cli.text.plain import short

LINE = 500  # characters of a line
STYLES = {"+": "green", "-": "red"}
_HEAD = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")


def numbered_diff(lines: Iterable[str], indent: str = "    ") -> Iterator[Text]:
    """The rows of a diff. The head of a hunk becomes the numbers of its lines; lines before any head have none."""
    old = new = 0
    for line in lines:
        if found := _HEAD.match(line):
            if new:
                yield Text(f"{indent}   …", "dim")
            old, new = int(found[1]), int(found[2])
            continue
        sign = line[:1]
        row = Text(indent)
        if new and sign in ("+", "-", " "):
            row.append(f"{old if sign == '-' else new:>4} ", "dim")
            old, new = old + (sign != "+"), new + (sign != "-")
        yield row.append(short(line.expandtabs(4), LINE), STYLES.get(sign, "dim"))
