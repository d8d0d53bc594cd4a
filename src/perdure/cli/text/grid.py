"""Tables of plain text. Written without a library, because `perdure ls` must start fast."""

from __future__ import annotations

from collections.abc import Sequence
from unicodedata import category, east_asian_width

GAP = "  "
UNSEEN = ("Mn", "Me", "Cf")  # categories of characters that take no column: combining marks and joiners
LEAST = 12  # columns that remain of a cell that is cut


def grid(headings: Sequence[str], rows: Sequence[Sequence[str]], *, width: int) -> list[str]:
    """Lines of a table. A heading that ends in `~` marks a column that may be cut to fit; the others never are."""
    names = [heading.rstrip("~") for heading in headings]
    cells = [names, *([cell or "-" for cell in row] for row in rows)]
    widths = [max(columns(row[place]) for row in cells) for place in range(len(names))]
    over = sum(widths) + len(GAP) * (len(widths) - 1) - width
    for place in sorted((p for p, h in enumerate(headings) if h.endswith("~")), key=lambda p: -widths[p]):
        if over > 0:
            kept = max(min(LEAST, widths[place]), widths[place] - over)
            over -= widths[place] - kept
            widths[place] = kept
    return [GAP.join(fitted(cell, wide) for cell, wide in zip(row, widths, strict=True)).rstrip() for row in cells]


def fitted(text: str, width: int) -> str:
    """The text, cut or padded to a width."""
    if columns(text) > width:
        while text and columns(text) > width - 1:
            text = text[:-1]
        text += "…"
    return text + " " * (width - columns(text))


def columns(text: str) -> int:
    """How many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return sum(0 if category(one) in UNSEEN else 2 if east_asian_width(one) in "WF" else 1 for one in text)
