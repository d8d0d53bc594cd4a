"""Search: the words of a text, what a search asks for, and the place in a text that answers it.

A word is a run of letters and digits; case and accents do not count, and each character of a script without spaces is a
word. Both databases get words that are cut here, so both find the same.

A search has terms, all of which must be in the same event. `push main` has two; `"git push"` and `cart.py` are one term
each, of words that follow one another. The last word of a term may be the beginning of a word.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from perdure.errors import ConfigError
from perdure.ids import decode

LONGEST = 20_000  # characters of an event that are searched
LONGEST_WORD = 64
MOST_TERMS = 20
AROUND = 80  # characters of a snippet before and after the place that was found
TEXTS = frozenset({  # keys of a body whose texts are searched
    "content", "text", "arguments", "intent", "result", "error", "title", "note", "decision", "rationale",
    "planned_action", "outcome", "question", "answer", "because", "prompt", "value", "reason", "detail", "tool", "name",
})  # fmt: skip
_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_WORD = re.compile(f"[{_UNSPACED}]|[^\\W_{_UNSPACED}]+")
_TERM = re.compile(r'"([^"]*)"|(\S+)')


class SearchTerms(msgspec.Struct, frozen=True):
    """What a search asks for: terms, each of words that follow one another."""

    terms: tuple[tuple[str, ...], ...]

    @property
    def fts(self) -> str:
        """As SQLite's FTS5 asks."""
        return " AND ".join(f'"{" ".join(term)}" *' for term in self.terms)

    @property
    def tsquery(self) -> str:
        """As PostgreSQL asks."""
        return " & ".join("(" + " <-> ".join(term) + ":*)" for term in self.terms)


class SearchHit(msgspec.Struct, frozen=True):
    """An event that answers a search; `number` 0 is the session itself: its id, title or prompt."""

    session_uid: str
    session_id: str
    number: int
    kind: str
    at: int
    text: str  # around the place that was found
    position: int  # in the index: later hits have smaller ones


def parse_query(text: str) -> SearchTerms:
    """Read what a person typed."""
    given = (words_of(phrase or word) for phrase, word in _TERM.findall(text[:1000]))
    terms = tuple(tuple(term) for term in given if term)
    if not terms:
        raise ConfigError("The search has no word.", hint='Give words that an event contains, or a "phrase".')
    if len(terms) > MOST_TERMS:
        raise ConfigError(f"The search has more than {MOST_TERMS} terms.", hint="Search for fewer words.")
    return SearchTerms(terms)


def words_of(text: str) -> list[str]:
    """The words of a text, as they are compared."""
    return [word for word in _WORD.findall(_folded(text)) if len(word) <= LONGEST_WORD]


def text_of(body: Any) -> str:
    """What people and models wrote in the body of an event, without its ids, digests and numbers."""
    return "\n".join(_texts(body, is_text=False))[:LONGEST]


def snippet(text: str, query: SearchTerms) -> str:
    """The part of a text around the first place that answers, on one line."""
    start = min((place for term in query.terms if (place := _place(text, term)) is not None), default=0)
    first, last = max(0, start - AROUND), start + 2 * AROUND
    found = " ".join(text[first:last].split())
    return ("… " if first else "") + found + (" …" if last < len(text) else "")


def _texts(value: Any, *, is_text: bool) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _texts(inner, is_text=is_text or key in TEXTS)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _texts(inner, is_text=is_text)
    elif isinstance(value, int) and is_text and not isinstance(value, bool):
        yield str(value)
    elif isinstance(value, str) and is_text:
        yield from _texts(opened, is_text=True) if (opened := _opened(value)) is not None else (value,)


def _opened(text: str) -> Any:
    """JSON in a text, such as the stored result of a tool; None if it is none."""
    if text[:1] not in ("{", "["):
        return None
    try:
        return decode(text)
    except (msgspec.MsgspecError, RecursionError):
        return None


def _folded(text: str) -> str:
    parts = unicodedata.normalize("NFKD", text)
    return "".join(one for one in parts if not unicodedata.combining(one)).casefold()


def _place(text: str, term: tuple[str, ...]) -> int | None:
    """Where the first word of a term is in a text as it was written."""
    for match in _WORD.finditer(text):
        if any(word.startswith(term[0]) for word in words_of(match[0])):
            return match.start()
    return None
