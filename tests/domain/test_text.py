"""Characters that are not seen are escaped, except where a script needs them."""

from __future__ import annotations

import pytest

from perdure.domain.text import visible

PERSIAN = "می\u200cخواهم"
HINDI = "क्\u200dष"
MALAYALAM = "അവന്\u200d വന്നു"  # a joiner at the end of a word
KHMER = "ភាសា\u200bខ្មែរ"
FAMILY = "👩\u200d👩\u200d👧"
RAINBOW = "🏳\ufe0f\u200d🌈"
RUNNER = "🏃🏽\u200d♂\ufe0f"
KEYCAP = "1\ufe0f\u20e3"
TEXT_STYLE = "☎\ufe0e"
NAME = "葛\U000e0100城"  # a variant of a character in Japanese names
MONGOLIAN = "\u182d\u180b\u1820"
ENGLAND = "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f"
COMBINED = "e\u0301 n\u0303 ก\u0e49"


@pytest.mark.parametrize(
    "text",
    [
        *(PERSIAN, HINDI, MALAYALAM, KHMER, FAMILY, RAINBOW, RUNNER, KEYCAP, TEXT_STYLE, NAME, MONGOLIAN, ENGLAND),
        *(COMBINED, "©\ufe0f", "plain"),
    ],
)
def test_characters_that_a_script_needs_are_kept(text: str) -> None:
    assert visible(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\u200db", "a\\u200db"),
        ("pay\u200bpal", "pay\\u200bpal"),
        ("\u202eabc\u202c", "\\u202eabc\\u202c"),
        ("\u2066a\u2069", "\\u2066a\\u2069"),
        ("a\u200f\u061c\ufeff\u2060", "a\\u200f\\u061c\\ufeff\\u2060"),
        ("a\ufe0f", "a\\ufe0f"),
        ("1\ufe0f", "1\\ufe0f"),
        ("漢\U000e0100\U000e0101", "漢\U000e0100\\U000e0101"),
        ("😀\ufe0f\ufe0f", "😀\ufe0f\\ufe0f"),
        ("🏴\U000e0068\U000e0069\U000e007f", "🏴\\U000e0068\\U000e0069\\U000e007f"),
        ("\U000e0041", "\\U000e0041"),
        (f"{PERSIAN}\u200c\u200c", f"{PERSIAN}\\u200c\\u200c"),
        ("\u3164\u2800\u115f", "\\u3164\\u2800\\u115f"),
        ("\x1b[2J\x9b\x00\r", "\\x1b[2J\\x9b\\x00\\r"),
    ],
)
def test_other_unseen_characters_are_escaped(text: str, shown: str) -> None:
    assert visible(text) == shown
