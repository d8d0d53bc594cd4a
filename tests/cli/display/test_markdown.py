"""Markdown as a person sees it: the same however it arrives, wrapped between words, and never a control."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from perdure.cli.display.markdown import LONGEST, MarkdownStream

DOCUMENT = """# One
Some **bold** text, *italic*, `code **x**` and a [link](https://example.com/a_(b)).

- an item that is long enough to be wrapped
  1. nested
- [x] done
> quoted

```python
def f(x):  # a line of code that is much wider than the terminal
\treturn "**not bold**"
```
---
| name | value |
|------|-------|
| a \\| b | **1** |
| 漢字 | |
the end
"""


def rows_of(text: str, width: int = 30, size: int = 10_000) -> list[Text]:
    stream = MarkdownStream(width)
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    return [row for piece in pieces for row in stream.feed(piece)] + stream.end()


def plain(text: str, width: int = 30) -> list[str]:
    return [row.plain for row in rows_of(text, width)]


def styles(line: str) -> list[tuple[str, str]]:
    """The parts of a line that have a style of their own."""
    (row,) = rows_of(line, 200)
    return [(row.plain[span.start : span.end], str(span.style)) for span in row.spans if str(span.style)]


def test_document_is_rendered() -> None:
    assert plain(DOCUMENT) == [
        "One",
        "Some bold text, italic, code",
        "**x** and a link",
        "(https://example.com/a_(b)).",
        "",
        "• an item that is long enough",
        "  to be wrapped",
        "  1. nested",
        "☑ done",
        "│ quoted",
        "",
        "```python",
        "def f(x):  # a line of code that is much wider than the terminal",
        '\treturn "**not bold**"',
        "```",
        "─" * 30,
        "name    value",
        "─────────────",
        "a | b   1",
        "漢字",
        "the end",
    ]


@pytest.mark.parametrize("size", [1, 2, 7, 100])
def test_pieces_give_the_same_rows_as_the_whole(size: int) -> None:
    assert [row.plain for row in rows_of(DOCUMENT, 30, size)] == plain(DOCUMENT)


@pytest.mark.parametrize(
    ("line", "shown", "styled"),
    [
        ("**bold** and ***both***", "bold and both", [("bold", "bold"), ("both", "bold italic")]),
        ("~~gone~~ _it_", "gone it", [("gone", "strike"), ("it", "italic")]),
        ("**a *b* c**", "a b c", [("a ", "bold"), ("b", "bold italic"), (" c", "bold")]),
        ("2*3*4 and 2 * 3 * 4", "2*3*4 and 2 * 3 * 4", []),
        ("__init__.py, a_b_c, *args, **kwargs", "__init__.py, a_b_c, *args, **kwargs", []),
        ("\\*not\\* C:\\new", "*not* C:\\new", []),
        ("``a`b`` and `` ` ``", "a`b and `", [("a`b", "cyan"), ("`", "cyan")]),
        ("[x](https://evil.example)", "x (https://evil.example)", [(" (https://evil.example)", "underline dim")]),
        ("![alt](a.png) [https://a.b](https://a.b)", "alt (a.png) https://a.b",
         [(" (a.png)", "underline dim"), ("https://a.b", "underline dim")]),
        ("# a **b** #", "a b", [("a b", "bold underline"), ("b", "bold")]),
        ("#no heading", "#no heading", []),
    ],
)  # fmt: skip
def test_inline_marks(line: str, shown: str, styled: list[tuple[str, str]]) -> None:
    assert plain(line, 200) == [shown]
    assert styles(line) == styled


def test_long_word_is_not_broken() -> None:
    address = "https://example.com/" + "a" * 60
    assert plain(f"see the address {address} for more") == ["see the address", address, "for more"]
    assert plain("漢字" * 40) == ["漢字" * 40]


def test_rows_are_at_most_as_wide_as_the_terminal() -> None:
    rows = rows_of("- " + "字 word " * 30, 30)
    assert max(row.cell_len for row in rows) <= 30
    assert [row.plain[:2] for row in rows[1:]] == ["  "] * (len(rows) - 1)


def test_unfinished_line_is_folded_to_the_width() -> None:
    stream = MarkdownStream(30)
    assert stream.feed("x" * 100) == []
    assert [row.plain for row in stream.pending()] == ["x" * 30] * 3 + ["x" * 10]
    assert [row.plain for row in stream.end()] == ["x" * 100]
    assert stream.pending() == []


def test_very_long_line_is_finished_in_parts() -> None:
    stream = MarkdownStream(80)
    rows = [row for _ in range(1000) for row in stream.feed("word " * 10)]
    assert len("".join(row.plain for row in stream.pending())) <= LONGEST
    assert " ".join(row.plain for row in rows + stream.end()).split() == ["word"] * 10_000


def test_very_long_line_of_code_is_not_broken() -> None:
    stream = MarkdownStream(80)
    rows = [row for piece in ["```\n", *["code" * 100] * 100, "\n```"] for row in stream.feed(piece)]
    assert [row.plain for row in rows + stream.end()] == ["```", "code" * 10_000, "```"]


def test_lines_that_only_look_like_a_table_stay() -> None:
    assert plain("| lonely\n| a | b |\nend") == ["| lonely", "| a | b |", "end"]
    assert plain("```\n| a |\n|---|\n") == ["```", "| a |", "|---|"]


@given(st.text(alphabet=st.sampled_from("*_~`[]()<>|-#> \\\n\t\x1b\x9b\u202e\u200dab1.!:/字"), max_size=200))
def test_any_text_is_rendered_without_controls(text: str) -> None:
    whole = rows_of(text)
    assert [row.plain for row in whole] == [row.plain for row in rows_of(text, 30, 1)]
    stream = MarkdownStream(30)
    for character in text:
        finished = [*stream.feed(character), *stream.pending()]
        assert all(row.plain.replace("\t", "").isprintable() for row in finished)


def test_joiners_survive_between_pieces() -> None:
    text = "می\u200cخواهم 👩\u200d👩\u200d👧 क्\u200dष"
    assert [row.plain for row in rows_of(text, 80, 1)] == [text]
