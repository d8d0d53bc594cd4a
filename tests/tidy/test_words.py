"""The project is written in plain technical English: none of the words listed here occurs in it."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from tests.tidy.source import ROOT, files, relative, text

FOLDERS = ("src", "tests", "docs", "tools", "benchmarks", "examples")
SUFFIXES = (".py", ".md", ".sql", ".toml")

# The word, and what to write instead.
ODD = {
    r"(?<![`\"])(no|some|any|every)body(?![`\"])": "no process, no one, a user, another process; or the passive voice",
    r"who(m)?ever": "the caller, the user, the process that",
    r"(go|goes|going|went|gone) on": "continue, resume; happen",
    r"(?<!\")(?<!dead )letters?(?!,? (?:and |or )?digits?)": "character",
    r"(a|the) yes": "approval",
    r"of then": "as they were",
    r"(asks?|says?) nothing": "needs no input; does not respond",
    r"at the worst moment": "name the moment",
    r"(what )?came of( it)?": "the outcome",
    r"stands still": "waits, is idle, does not progress",
    r"shepherd": "command runner",
    r"the keeper": "hook runner",
    r"the pen": "control group",
    r"its heart": "heartbeat",
    r"hands of": "name the part",
    r"homecoming": "merge",
    r"overhear\w*": "follow the live text",
}
PATTERN = re.compile("|".join(rf"\b(?:{word})\b" for word in ODD), re.IGNORECASE)

# Files, or folders with a slash at the end, in which the words may occur, and why.
ALLOWED = {
    "src/perdure/store/migrations/0001_": "a released migration is never edited",
    "src/perdure/store/migrations/0002_": "a released migration is never edited",
    "src/perdure/store/migrations/0003_": "a released migration is never edited",
    "src/perdure/store/migrations/0004_": "a released migration is never edited",
    "src/perdure/store/migrations/0005_": "a released migration is never edited",
    "tests/interchange/corpus/": "bundles of earlier releases are never edited",
    "tests/security/goals.py": "a command names the user nobody",
    "tests/tidy/test_words.py": "it lists the words",
    "tests/tidy/test_modules.py": "it lists names that modules may not have",
}


@cache
def pages() -> tuple[Path, ...]:
    named = [*ROOT.glob("*.md"), *ROOT.glob("*.toml"), ROOT / "Makefile"]
    return (*named, *(path for suffix in SUFFIXES for path in files(*FOLDERS, suffix=suffix)))


def odd_lines(content: str) -> list[tuple[int, str]]:
    """The lines with one of the words, and the word."""
    if not PATTERN.search(content):
        return []
    found = [(number, PATTERN.search(line)) for number, line in enumerate(content.splitlines(), start=1)]
    return [(number, match[0]) for number, match in found if match]


def test_no_page_or_module_uses_an_odd_word() -> None:
    found = [
        f"{relative(path)}:{number}: {word}"
        for path in pages()
        if not relative(path).startswith(tuple(ALLOWED))
        for number, word in odd_lines(text(path))
    ]
    assert found == []


@pytest.mark.parametrize(
    "line", ["Nobody can tell.", "the session goes on", "bound to 20 letters", "# what came of it", "a yes of a person"]
)
def test_an_odd_word_is_found(line: str) -> None:
    assert odd_lines(f"first\n{line}\n")[0][0] == 2


@pytest.mark.parametrize(
    "line",
    [
        "a letterhead",
        "go once",
        "the body",
        "yesterday",
        "the pencil",
        "come often",
        "user `nobody`",
        "letters, digits",
        "Dead letters",
    ],
)
def test_other_words_are_allowed(line: str) -> None:
    assert odd_lines(line) == []
