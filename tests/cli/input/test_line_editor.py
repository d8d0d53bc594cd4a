"""The editor of a message: keys, several lines, history, completion, and keys that it must not mistake for text."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure.cli.input.completion import complete_word
from perdure.cli.input.line_editor import LineEditor

LEFT, RIGHT, UP, DOWN, HOME, DELETE = "\x1b[D", "\x1b[C", "\x1b[A", "\x1b[B", "\x1b[H", "\x1b[3~"


class Editor(LineEditor):
    """An editor that keeps what was entered."""

    def __init__(self, *history: str, folder: Path = Path()) -> None:
        self.lines: list[str | None] = []
        commands = ["/diff", "/fork", "/for"]
        super().__init__(self.lines.append, str, lambda text: complete_word(text, commands, folder), history)

    @property
    def text(self) -> str:
        return "|".join(self.parts)


@pytest.mark.parametrize(
    ("typed", "text"),
    [
        ("helo" + LEFT + "l", "hell|o"),
        ("b" + HOME + "a" + RIGHT + "c", "abc|"),
        ("one two three\x17\x17", "one |"),
        ("one two" + "\x1bb" + "\x1bd", "one |"),
        ("one\x15two", "two|"),
        ("one" + HOME + DELETE + "\x04", "|e"),
        ("one\x7f\x08", "o|"),
        ("a\\\nb", "a\nb|"),
        ("a\\\rb", "a\nb|"),
        ("a\x1b\nb\x1b\rc", "a\nb\nc|"),
        ("日本" + LEFT + "の", "日の|本"),
        ("\u0645\u06cc\u200c\u062e", "\u0645\u06cc\u200c\u062e|"),
        ("one\ttwo", "onetwo|"),
    ],
)
def test_keys_edit_the_text(typed: str, text: str) -> None:
    for pieces in ([typed], list(typed)):
        editor = Editor()
        for one in pieces:
            editor.feed(one)
        assert (editor.text, editor.lines) == (text, [])


@pytest.mark.parametrize(
    "sequence",
    [
        "\x1b[99;99z",
        "\x1b[<0;10;20M",
        "\x1b[?62;c",
        "\x1b[12;34R",
        "\x1bOP",
        "\x1b[15~",
        "\x07\x00",
        "\x1b[I",
        "\x1a",
        "\x11\x1a",
    ],
)
def test_unknown_sequences_and_control_keys_are_no_text(sequence: str) -> None:
    editor = Editor()
    editor.feed(f"a{sequence}b")
    assert editor.text == "ab|"


def test_escape_by_itself_is_told_from_the_start_of_a_sequence() -> None:
    editor = Editor()
    editor.feed("ab\x1b")
    editor.feed("[D")
    assert (editor.flush(), editor.text) == (False, "a|b")
    editor.feed("\x1b")
    assert (editor.flush(), editor.flush(), editor.text) == (True, False, "a|b")


def test_up_key_fetches_earlier_lines_and_down_the_draft() -> None:
    editor = Editor("first", "two\nrows")
    editor.feed("draft" + UP)
    assert editor.text == "two\nrows|"
    editor.feed(UP)  # to the upper row of the same text
    assert editor.text == "two|\nrows"
    editor.feed(UP + UP)
    assert editor.text == "first|"
    editor.feed(DOWN + DOWN + DOWN)
    assert editor.text == "draft|"
    editor.feed("\n\n" + UP)
    assert (editor.lines, editor.text) == (["draft", ""], "draft|")


def test_ctrl_d_ends_only_without_text() -> None:
    editor = Editor()
    editor.feed("a\x04\x7f\x04")
    assert editor.lines == [None]


def test_tab_completes_commands_and_files(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    for name in ("alpha.py", "alps.py", ".hidden", "two words", "src/one.py"):
        (tmp_path / name).touch()
    editor = Editor(folder=tmp_path)
    for typed, text, candidates in (
        ("/d\t", "/diff|", []),
        ("/f\t", "/for|", ["/fork", "/for"]),
        ("see @al\t", "see @alp|", ["@alpha.py", "@alps.py"]),
        ("see @s\to\t", "see @src/one.py|", []),
        ("@t\t", "@t|", []),
        ("@.h\t", "@.hidden|", []),
        ("@no/such\t", "@no/such|", []),
        ("a /d\t", "a /d|", []),
    ):
        editor.clear()
        editor.feed(typed)
        assert (editor.text, editor.candidates) == (text, candidates)
    editor.feed("x")
    assert editor.candidates == []


def test_line_that_was_not_sent_comes_back_unless_more_was_typed() -> None:
    editor = Editor()
    editor.put_back("again")
    assert editor.text == "again|"
    editor.put_back("other")
    assert editor.text == "again|"
