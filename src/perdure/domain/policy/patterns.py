"""Patterns of a policy: names with `*` and `?`, and paths in which `*` stays inside one folder and `**` does not."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

Matcher = Callable[[str], bool]


def names(patterns: Iterable[str]) -> Matcher:
    """Whether a name matches one of several patterns; `*` stands for any characters."""
    return _matcher(patterns, _name_expression)


def paths(patterns: Iterable[str]) -> Matcher:
    """Whether a path matches one of several patterns. A pattern of a folder matches everything in it.

    A pattern without a slash matches a file or folder of this name at any depth.
    """
    return _matcher(patterns, _path_expression)


def is_literal(pattern: str) -> bool:
    """Whether a pattern matches only itself."""
    return not any(sign in pattern for sign in "*?")


def _matcher(patterns: Iterable[str], expression: Callable[[str], str]) -> Matcher:
    found = list(patterns)
    if expression is _name_expression and all(map(is_literal, found)):
        return frozenset(found).__contains__
    compiled = re.compile("|".join(f"(?:{expression(one)})" for one in found), re.DOTALL)
    return lambda text: compiled.fullmatch(text) is not None


def _name_expression(pattern: str) -> str:
    return "".join({"*": ".*", "?": "."}.get(sign, re.escape(sign)) for sign in pattern)


def _path_expression(pattern: str) -> str:
    start = "" if "/" in pattern.rstrip("/") else "(?:.*/)?"
    found = []
    for part in re.findall(r"\*\*/|/\*\*$|\*\*|\*|\?|[^*?]", pattern.rstrip("/") or "/"):
        known = {"**/": "(?:.*/)?", "/**": "(?:/.*)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
        found.append(known.get(part, re.escape(part)))
    return f"{start}{''.join(found)}(?:/.*)?"
