"""A diff as a person reads it: every line has the number that it has in its file."""

from __future__ import annotations

from perdure.cli.display.diff import numbered_diff

DIFF = ["@@ -9,3 +9,4 @@", " a", "-b", "+B", "+new", " c", "@@ -120 +121 @@", "-x\x1b[2J", "+y\tz"]


def test_lines_have_the_numbers_of_their_file() -> None:
    assert [row.plain for row in numbered_diff(DIFF, "")] == [
        "   9  a",
        "  10 -b",
        "  10 +B",
        "  11 +new",
        "  12  c",
        "   …",
        " 120 -x\\x1b[2J",
        " 121 +y  z",
    ]


def test_lines_without_a_head_have_no_numbers() -> None:
    assert [row.plain for row in numbered_diff(["-old", "+new", "[2 more lines]"], "")] == [
        "-old",
        "+new",
        "[2 more lines]",
    ]
