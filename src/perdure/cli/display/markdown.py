"""Markdown for a terminal, rendered line by line while it arrives.

A finished line is rendered once and never changes; only the rows of a table wait for its end. So live text is printed
as soon as a line is complete, and never twice. Line breaks are kept as the model wrote them.

Words are wrapped at the width. A line of code, and a word that is wider than the terminal, such as an address, are not
broken: the terminal wraps them, and copying them returns what was written. All text is escaped before it is parsed.
"""

from __future__ import annotations

import io
import re

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from perdure.cli.text.plain import safe

LONGEST = 4000  # characters of a line; a longer one is rendered in parts
LONGEST_CODE = 400_000  # … of a line of code
ROWS = 200  # of a table; the rest is shown as it was written
CODE, ADDRESS = "cyan", "underline dim"
_FENCE = re.compile(r"\s*(`{3,}|~{3,})\s*([^`]*)$")
_HEADING = re.compile(r" {0,3}(#{1,6})\s+(.*?)(?:\s+#+)?\s*$")
_RULE = re.compile(r" {0,3}(?:(?:\* *){3,}|(?:- *){3,}|(?:_ *){3,})$")
_ITEM = re.compile(r"(\s*)([-*+]|\d{1,9}[.)])\s+(?:\[([ xX])\]\s+)?(?=\S)")
_QUOTE = re.compile(r" {0,3}((?:> ?)+)")
_TABLE = re.compile(r"\s*\|")
_DELIMITER = re.compile(r"\s*\|?(?:\s*:?-+:?\s*\|)*\s*:?-+:?\s*\|?\s*$")
_CELL = re.compile(r"(?<!\\)\|")
_INLINE = re.compile(
    r"(?P<code>(?<!`)`+(?!`))(?P<verbatim>.{1,998}?)(?<!`)(?P=code)(?!`)"
    r"|\\(?P<escaped>[!-/:-@\[-`{-~])"
    r"|!?\[(?P<label>[^\]\[]*)\]\((?P<to>[^()\s]*(?:\([^()\s]*\)[^()\s]*)*)(?:\s+\"[^\"]*\")?\)"
    r"|<(?P<address>(?:https?|mailto):[^<>\s]+)>"
    r"|(?P<mark>\*\*\*|\*\*|~~|(?<!\w)(?:\*|___|__|_))(?P<inner>(?=[^\s*_~]).{,998}?[^\s*_~])(?P=mark)(?![*~_])"
)
_STYLES = {"***": "bold italic", "___": "bold italic", "**": "bold", "__": "bold", "*": "italic", "_": "italic"}


class MarkdownStream:
    """Takes pieces of Markdown, and returns rows that are finished. `pending` are the rows of what is not."""

    def __init__(self, width: int, *, unicode: bool = True) -> None:
        self._width = max(20, width)
        self._unicode = unicode
        self._line = ""  # the line that is not complete
        self._fence = ""  # what ends the block of code
        self._table: list[str] = []

    def feed(self, text: str) -> list[Text]:
        """The rows that are finished by one more piece."""
        *lines, self._line = (self._line + text).split("\n")
        rows = [row for line in lines for row in self._finish(line)]
        while len(self._line) > (LONGEST_CODE if self._fence else LONGEST):
            cut = self._line.rfind(" ", LONGEST // 2, LONGEST) + 1 or LONGEST
            rows += self._finish(self._line[:cut])
            self._line = self._line[cut:]
        return rows

    def end(self) -> list[Text]:
        """The rows of the rest: the text is complete."""
        line, self._line = self._line, ""
        rows = (self._finish(line) if line else []) + self._end_table()
        self._fence = ""
        return rows

    def pending(self) -> list[Text]:
        """The rows of what is not finished, as they look now."""
        rows = [Text(safe(line)) for line in self._table]
        rows += self._code(self._line[-LONGEST:]) if self._fence else self._render(self._line)
        folded = [part for row in rows for part in row.wrap(_CONSOLE, self._width, overflow="fold")]
        return folded if self._line or self._table else []

    def _finish(self, line: str) -> list[Text]:
        """The rows of a complete line. A block of code and a table last for several lines."""
        if self._fence:
            ends = line.strip().startswith(self._fence) and not line.strip().strip(self._fence[0])
            self._fence = "" if ends else self._fence
            return [Text(safe(line), "dim")] if ends else self._code(line)
        if found := _FENCE.match(line):
            self._fence = found[1]
            return [*self._end_table(), Text(safe(line), "dim")]
        if _TABLE.match(line) and len(self._table) < ROWS:
            self._table.append(line)
            return []
        return [*self._end_table(), *self._render(line)]

    @staticmethod
    def _code(line: str) -> list[Text]:
        return [Text(safe(line, keep="\t"), CODE)]

    def _render(self, line: str) -> list[Text]:
        """The rows of a line that is not part of a block."""
        if found := _HEADING.match(line):
            return self._wrapped(_inline(found[2], "bold underline" if len(found[1]) == 1 else "bold"), "", "")
        if _RULE.match(line):
            return [Text(("─" if self._unicode else "-") * min(40, self._width), "dim")]
        if found := _ITEM.match(line):
            return self._item(found, line[found.end() :])
        if found := _QUOTE.match(line):
            mark = ("│ " if self._unicode else "| ") * found[1].count(">")
            return self._wrapped(_inline(line[found.end() :], "italic"), mark, mark)
        indent = safe(line[: len(line) - len(line.lstrip(" \t"))].expandtabs(4))
        return self._wrapped(_inline(line.strip()), indent, indent)

    def _item(self, found: re.Match[str], text: str) -> list[Text]:
        mark = found[2] if found[2][0].isdigit() else "•" if self._unicode else "-"
        if found[3] is not None:
            done = found[3] != " "
            mark = ("☑" if done else "☐") if self._unicode else "[x]" if done else "[ ]"
        head = safe(found[1].expandtabs(4)) + mark + " "
        return self._wrapped(_inline(text), head, " " * cell_len(head))

    def _wrapped(self, text: Text, first: str, rest: str) -> list[Text]:
        """The rows of a text, broken between words; every row but the first begins with `rest`."""
        if cell_len(rest) > self._width // 2:
            rest = ""
        rows: list[Text] = []
        start, plain = 0, text.plain
        while True:
            head = rest if rows else first
            end = _break(plain, start, self._width - cell_len(head))
            rows.append(Text(head).append_text(text[start:end]))
            start = end + 1
            if start >= len(plain):
                return rows

    def _end_table(self) -> list[Text]:
        """The rows of the table, now that it is complete; lines that are not a table stay as they are."""
        lines, self._table = self._table, []
        if len(lines) < 2 or not _DELIMITER.match(lines[1]):
            return [row for line in lines for row in self._render(line)]
        head, *body = [_cells(line) for line in [lines[0], *lines[2:]]]
        table = Table(box=box.SIMPLE_HEAD if self._unicode else box.ASCII2, pad_edge=False, show_edge=False)
        for cell in head:
            table.add_column(_inline(cell), overflow="fold")
        for cells in body:
            table.add_row(*(_inline(cell) for cell in [*cells, *[""] * len(head)][: len(head)]))
        console = Console(file=io.StringIO(), width=self._width, force_terminal=True, color_system="standard",
                          legacy_windows=False, highlight=False)  # fmt: skip
        with console.capture() as captured:
            console.print(table)
        return [Text.from_ansi(line.rstrip()) for line in captured.get().rstrip("\n").split("\n")]


_CONSOLE = Console(file=io.StringIO(), width=80)


def _break(text: str, start: int, width: int) -> int:
    """Where the row that starts there ends: at a space, or at the end. A word that does not fit is not broken."""
    end, columns = -1, 0
    for place in range(start, len(text)):
        if text[place] == " " and place > start:
            if columns > width:
                return end if end >= 0 else place
            end = place
        columns += cell_len(text[place])
    return end if columns > width and end >= 0 else len(text)


def _cells(line: str) -> list[str]:
    found = [cell.strip().replace("\\|", "|") for cell in _CELL.split(line.strip())]
    return found[1 : -1 if found[-1] == "" else None]


def _inline(line: str, style: str = "") -> Text:
    """A line with emphasis, code and links. The address of a link is always shown."""
    return _append(Text("", style), safe(line.expandtabs(4)), "", 3)


def _append(made: Text, line: str, style: str, depth: int) -> Text:
    place = 0
    for found in _INLINE.finditer(line) if len(line) <= LONGEST else ():
        made.append(line[place : found.start()], style)
        place = found.end()
        if found["code"]:
            made.append(found["verbatim"].strip() or found["verbatim"], f"{style} {CODE}".strip())
        elif found["escaped"]:
            made.append(found["escaped"], style)
        elif found["address"]:
            made.append(found["address"], ADDRESS)
        elif found["mark"] is None:
            _link(made, found["label"], found["to"], style)
        elif depth and _is_emphasis(found):
            _append(made, found["inner"], f"{style} {_STYLES.get(found['mark'], 'strike')}".strip(), depth - 1)
        else:
            made.append(found[0], style)
    return made.append(line[place:], style)


def _is_emphasis(found: re.Match[str]) -> bool:
    """Whether marks are meant as such: `2*3*4` and `__init__` are not."""
    after = found.string[found.end() : found.end() + 1]
    if found["mark"] == "*" or found["mark"][0] == "_":
        return not (after.isalnum() or after == "_") and (len(found["mark"]) == 1 or " " in found["inner"])
    return True


def _link(made: Text, label: str, to: str, style: str) -> None:
    if label and label != to:
        made.append(label, style)
        made.append(f" ({to})" if to else "", ADDRESS)
    else:
        made.append(to or label, ADDRESS)
