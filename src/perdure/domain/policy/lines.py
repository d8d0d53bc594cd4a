"""Lines of a TOML text: where each table and each key stands, so that an error can name its line."""

from __future__ import annotations

import re

Place = tuple[str | int, ...]

_HEADER = re.compile(r"\s*(\[\[?)\s*([A-Za-z0-9_\-.\s\"']+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"\s*((?:[A-Za-z0-9_-]+|\"[^\"]*\"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+|\"[^\"]*\"|'[^']*'))*)\s*=")
_PART = re.compile(r"[A-Za-z0-9_-]+|\"[^\"]*\"|'[^']*'")
_QUOTES = re.compile(r"\"\"\"|'''")


class Lines:
    """The line of each table and key of a text, by its place: names, and numbers in arrays of tables."""

    def __init__(self, text: str) -> None:
        self._lines: dict[Place, int] = {}
        self._counts: dict[Place, int] = {}
        table: Place = ()
        quote = ""
        for number, line in enumerate(text.splitlines(), start=1):
            if quote:
                quote = "" if line.count(quote) % 2 else quote
                continue
            if (header := _HEADER.match(line)) is not None:
                table = self._table(header[2], array=header[1] == "[[")
                self._lines.setdefault(table, number)
                continue
            if (key := _KEY.match(line)) is not None:
                parts = tuple(_plain(part) for part in _PART.findall(key[1]))
                for length in range(1, len(parts) + 1):
                    self._lines.setdefault((*table, *parts[:length]), number)
            if (found := _QUOTES.search(line)) is not None and line.count(found[0]) % 2:
                quote = found[0]

    def of(self, *place: str | int) -> int:
        """The line of a place, or of the nearest place around it."""
        while place and place not in self._lines:
            place = place[:-1]
        return self._lines.get(place, 1)

    def _table(self, header: str, *, array: bool) -> Place:
        """The place of a header: each name that is an array of tables is followed by the number of its newest table."""
        place: Place = ()
        names = [_plain(part) for part in _PART.findall(header)]
        for position, name in enumerate(names):
            place = (*place, name)
            if array and position == len(names) - 1:
                self._counts[place] = self._counts.get(place, -1) + 1
            if place in self._counts:
                place = (*place, self._counts[place])
        return place


def _plain(part: str) -> str:
    return part.strip("\"'")
