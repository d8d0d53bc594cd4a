"""The words of a text, and what a search asks for."""

import pytest

from perdure.domain.search import LONGEST, parse_query, snippet, text_of, words_of
from perdure.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("git_push to src/cart.py", ["git", "push", "to", "src", "cart", "py"]),
        ("Crème BRÛLÉE Straße", ["creme", "brulee", "strasse"]),
        ("検索 test", ["検", "索", "test"]),
        ("\x1b[31mred\u202e", ["31mred"]),
        ("'; drop table event; --", ["drop", "table", "event"]),
        ("x" * 65, []),
    ],
)
def test_words_have_neither_case_nor_accents(text: str, words: list[str]) -> None:
    assert words_of(text) == words


def test_quotes_and_signs_join_words_to_terms() -> None:
    assert parse_query('"git push" cart.py main').terms == (("git", "push"), ("cart", "py"), ("main",))


@pytest.mark.parametrize("text", ["", "   ", '""', "* - ( )", " ".join("abcdefghijklmnopqrstu")])
def test_search_without_words_or_with_too_many_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_query(text)


def test_text_of_an_event_is_what_was_written() -> None:
    body = {
        "role": "tool", "effect": "e-1", "content": "exit 1", "identity": "os:0",
        "rows": {"effect": [{"intent_digest": "abc", "intent": {"path": "cart.py"}, "result": '{"text": "done"}'}]},
    }  # fmt: skip
    assert text_of(body) == "exit 1\ncart.py\ndone"
    assert text_of(None) == ""
    assert len(text_of({"content": "word " * LONGEST})) == LONGEST


def test_snippet_is_around_the_place_that_was_found() -> None:
    found = snippet("a " * 500 + "The\nPrice is wrong. " + "b " * 500, parse_query("price"))
    assert "The Price is wrong." in found
    assert found.startswith("… ")
    assert len(found) < 300
