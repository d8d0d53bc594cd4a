"""Text of strangers becomes HTML that shows what is in it and does nothing."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.console import markup
from perdure.console.intent import MOST, diff_lines, view_of
from perdure.console.live import LiveAnswer
from perdure.console.page import local_path
from perdure.runtime.stream.events import TextDelta


def test_html_is_shown_as_text() -> None:
    assert markup.mark("<b onclick='x'>&") == "&lt;b onclick=&#39;x&#39;&gt;&amp;"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31m", r"\x1b"),
        ("\u202e", r"\u202e"),
        ("\x07\x08", r"\x07\x08"),
        ("\u200b", r"\u200b"),
        ("\ufeff", r"\ufeff"),
    ],
)
def test_what_is_not_seen_becomes_a_mark(text: str, shown: str) -> None:
    assert f">{shown}</span>" in markup.mark(f"a{text}b")


def test_text_between_backticks_is_code() -> None:
    assert markup.ticks("run `perdure <x>` now") == "run <code>perdure &lt;x&gt;</code> now"
    assert markup.ticks("a lone ` stays") == "a lone ` stays"


def test_text_that_looks_like_a_mark_is_not_one() -> None:
    assert markup.mark(r"\u202e") == r"\u202e"
    assert "<span" in markup.mark("\u202e")


def test_long_texts_and_lines_are_cut_with_a_count() -> None:
    assert "… 28,000 more characters" in markup.block("x" * 30_000, 30_000)
    assert "… 5 more characters" in markup.block("a\n" * 10 + "b" * 5, 20)
    assert markup.line("a\nb" * 200, 10) == "a ba ba b…"


def test_an_answer_is_limited_over_all_its_pieces() -> None:
    answer = LiveAnswer()
    sent = [answer.event(TextDelta("s", reply, "x" * 15_000)) for reply in ("r-1", "r-1", "r-1", "r-2")]
    assert [None if one is None else (one.count("x"), '"is_cut":true' in one) for one in sent] == [
        (15_001, False), (5_001, True), None, (15_001, False),
    ]  # fmt: skip


@given(st.text(), st.integers(1, 50))
def test_no_text_becomes_a_tag(text: str, limit: int) -> None:
    for shown in (
        markup.mark(text),
        markup.ticks(text, limit),
        markup.line(text, limit),
        markup.block(text, limit),
        markup.json([text]),
    ):
        bare = str(shown).replace("</span>", "").replace("<code>", "").replace("</code>", "")
        for tag in ('<span class="mark" title="', '<span class="cut">'):
            bare = bare.replace(tag, "")
        assert "<" not in bare
        assert all(one.isprintable() or one in "\n\t" for one in bare)


@given(st.text())
def test_only_paths_of_the_service_are_local(text: str) -> None:
    found = local_path(text)
    assert found is None or (found.startswith("/") and not found.startswith(("//", "/\\")))


def test_lines_of_a_diff_have_their_numbers_and_one_sign() -> None:
    lines, left_out = diff_lines(
        "new file\n@@ -3,2 +4,2 @@ def f()\n around\n--- a\n+++ b\n\\ No newline at end of file\n"
    )
    assert [(one.sign, one.number, one.text) for one in lines] == [
        (" ", None, "new file"), ("@", None, "@@ -3,2 +4,2 @@ def f()"), (" ", 4, "around"), ("-", 4, "-- a"),
        ("+", 5, "++ b"), (" ", None, "\\ No newline at end of file"),
    ]  # fmt: skip
    assert left_out == 0


def test_a_long_diff_says_how_many_lines_are_left_out() -> None:
    lines, left_out = diff_lines("@@ -1 +1,2100 @@\n" + "+x\n" * 2100)
    assert (len(lines), left_out) == (MOST, 101)
    assert diff_lines("") == ([], 0)


def test_an_edit_is_shown_with_the_lines_around_it() -> None:
    found = SimpleNamespace(tool="edit_file", intent={
        "path": "a.py", "old": "x = 1", "new": "x = 2\ny = 3", "before": "a" * 64, "after": "b" * 64, "all": False,
    })  # fmt: skip
    about = {
        "line": 7,
        "before": ["# before"],
        "after": ["# after"],
        "folder": "/repo",
        "lead": "  ",
        "tail": "  # why",
    }
    view = view_of(found, about)  # type: ignore[arg-type]
    assert [(one.number, one.sign, one.lead + one.text + one.tail) for one in view.lines] == [
        (6, " ", "# before"), (7, "-", "  x = 1  # why"), (7, "+", "  x = 2"), (8, "+", "y = 3  # why"),
        (9, " ", "# after"),
    ]  # fmt: skip
    assert (view.facts, view.about) == ([("path", "a.py")], [("folder", "/repo")])
    assert [name for name, _ in view.more] == ["before", "after", "all"]
