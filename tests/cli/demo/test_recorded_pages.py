"""The newcomer's page: what it says was said by these commands, and they say it today."""

from __future__ import annotations

import pytest

from tests.tidy.source import text
from tools.record import block, replaced, session, without_names

PAGE = "docs/how-to/newcomer.md"


@pytest.mark.slow
def test_newcomer_page_is_current() -> None:
    """When this fails because the commands say it better now: `python -m tools.record`."""
    page = text(PAGE)
    assert "Killed\n```" in page
    assert without_names(session(page)) == without_names(page)


def test_recording_replaces_the_previous_one() -> None:
    page = "# x\n\n<!-- recorded: demo -->\n```text\n```\n\nafter\n"
    once = replaced(page, "demo", "one\n")
    assert block(once, "demo") == "one\n"
    assert replaced(once, "demo", "two\n") == page.replace("```text\n", "```text\ntwo\n")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("effect e-1a2fc2b3f193c5cb of w-prndwqj4nc", "effect e-8b430b7be9c32081 of w-tw8y1tg4g9"),
        ("kill -9 17, asked 2m ago", "kill -9 23999, asked 1h 3m ago"),
        ("ended in the\n     middle", "ended in the middle"),
    ],
)
def test_ids_and_times_are_ignored(one: str, other: str) -> None:
    assert without_names(one) == without_names(other)


def test_words_and_numbers_are_compared() -> None:
    assert len({without_names(one) for one in ("1 comment", "2 comment", "1 commit", "exit 0", "exit 1")}) == 5
