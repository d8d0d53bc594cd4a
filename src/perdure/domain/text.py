"""Text that a stranger wrote, made visible: every character that is not seen is shown as its escape.

Controls, marks of direction and spaces of other widths are not printable. Fillers, variation selectors and blank
patterns are printable for Python and are not seen by people, so they are escaped too. Joiners stay where a script needs
them between its characters, and where they make one emoji of several.
"""

from __future__ import annotations

import re

BLANK = "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef"
SCRIPT = "\u0600-\u0dff"  # from Arabic to Sinhala: scripts in which a joiner changes the form of characters
EMOJI = "\u203c-\u3299\U0001f000-\U0001faff"
_BLANK = re.compile(f"[{BLANK}]")
_JOINED = re.compile(
    f"(?<=[{SCRIPT}])[\u200c\u200d](?=[{SCRIPT}])|(?<=[{EMOJI}])\ufe0f?\u200d(?=[{EMOJI}])|(?<=[{EMOJI}])\ufe0f"
)


def visible(text: str, *, keep: str = "") -> str:
    """The text with everything escaped that is not seen, but for the characters to keep."""
    if text.isprintable() and not _BLANK.search(text):
        return text
    joined = {place for found in _JOINED.finditer(text) for place in range(*found.span()) if _follows(text, found)}
    return "".join(
        one if place in joined or one in keep or (one.isprintable() and not _BLANK.match(one)) else _escape(one)
        for place, one in enumerate(text)
    )


def _follows(text: str, found: re.Match[str]) -> bool:
    """Whether the character before a joiner is itself seen."""
    return not _BLANK.match(text[found.start() - 1])


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode()
