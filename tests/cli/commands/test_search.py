"""`perdure search`."""

from __future__ import annotations

import pytest

from tests.cli.support.terminal import Terminal


@pytest.fixture
def some(terminal: Terminal) -> Terminal:
    assert terminal.run("user_review", "review-7", "--title", "The \x1b[2J cart").code == 3
    assert terminal("run", "user_sleeper", "--id", "done-1", "--title", "Another cart").code == 0
    return terminal


def test_search_lists_what_was_said_with_its_place(some: Terminal) -> None:
    shown = some("search", "cart")
    assert shown.code == 0
    assert "review-7" in shown.out
    assert "done-1" in shown.out
    assert "\x1b[2J" not in shown.out
    hits = some("search", "--json", "--session", "review-7", "cart").lines
    assert [(one["session_id"], one["number"]) for one in hits] == [("review-7", 0)]


def test_search_without_a_hit_or_a_word_says_so(some: Terminal) -> None:
    assert some("search", "unheard-of").out == "No session contains these words.\n"
    assert some("search", "--json", "unheard-of").out == ""
    wrong = some("search", "--", "--")
    assert (wrong.code, "[config]" in wrong.err) == (2, True)


def test_search_does_not_create_a_store(terminal: Terminal) -> None:
    said = terminal("search", "cart")
    assert (said.code, "There is no store at" in said.err) == (1, True)
    assert list(terminal.folder.iterdir()) == []
