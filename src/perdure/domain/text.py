"""Text of messages, and text that a stranger wrote, made visible: what is not seen is shown as its escape.

Controls, marks of direction and spaces of other widths are not printable. Fillers, variation selectors and blank
patterns are printable for Python and are not seen by people, so they are escaped too. They stay only where a script
needs them, directly after or between its own characters:

    joiner             between characters from Arabic to Sinhala, and after a mark that removes a vowel (virama)
    zero-width space   between words of Thai, Lao, Burmese and Khmer
    variation          after an emoji, a digit of a keycap, an ideograph, a character of Mongolian: one for each
    joiner, tags       where they make one emoji of several, and in the flags of England, Scotland and Wales
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

BLANK = "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef"
SCRIPT = "\u0600-\u0dff"  # from Arabic to Sinhala: scripts in which a joiner changes the form of characters
VIRAMA = "\u094d\u09cd\u0a4d\u0acd\u0b4d\u0bcd\u0c4d\u0ccd\u0d4d\u0dca"
UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17b3\u17b6-\u17ff"
IDEOGRAPH = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
EMOJI = "\u00a9\u00ae\u203c-\u3299\U0001f000-\U0001faff"
_FLAGS = "|".join("".join(chr(0xE0000 + ord(one)) for one in name) for name in ("gbeng", "gbsct", "gbwls"))
_BLANK = re.compile(f"[{BLANK}]")
_NEEDED = re.compile(
    f"(?<=[{SCRIPT}])[\u200c\u200d](?=[{SCRIPT}])|(?<=[{VIRAMA}])[\u200c\u200d]"
    f"|(?<=[{UNSPACED}])\u200b(?=[{UNSPACED}])"
    f"|(?<=[{EMOJI}])\ufe0f?\u200d(?=[{EMOJI}])|(?<=[{EMOJI}])[\ufe0e\ufe0f]|(?<=[0-9#*])\ufe0f(?=\u20e3)"
    f"|(?<=[{IDEOGRAPH}])[\ufe00-\ufe02\U000e0100-\U000e01ef]|(?<=[\u1820-\u18aa])[\u180b-\u180d]"
    f"|(?<=\U0001f3f4)(?:{_FLAGS})\U000e007f"
)


def visible(text: str, *, keep: str = "") -> str:
    """The text with everything escaped that is not seen, but for the characters to keep."""
    if text.isprintable() and not _BLANK.search(text):
        return text
    return "".join(_escape(part) if is_hidden else part for part, is_hidden in parts(text, keep=keep))


def parts(text: str, *, keep: str = "") -> Iterator[tuple[str, bool]]:
    """The text in parts: runs of characters that are seen, and runs of those that are not."""
    rest = text
    for one in keep:
        rest = rest.replace(one, "")
    if rest.isprintable() and not _BLANK.search(rest):  # nearly every text; looking at each character is slow
        if text:
            yield text, False
        return
    needed = {place for found in _NEEDED.finditer(text) for place in range(*found.span()) if _follows(text, found)}

    def is_hidden(place: int) -> bool:
        one = text[place]
        return not (place in needed or one in keep or (one.isprintable() and not _BLANK.match(one)))

    for hidden, places in groupby(range(len(text)), is_hidden):
        yield "".join(text[place] for place in places), hidden


def content_text(content: Any) -> str | None:
    """The content of a message as text, with a mention of each attached file; None if it is something else."""
    if isinstance(content, str):
        return content
    is_prompt = (
        isinstance(content, list) and content and all(isinstance(one, Mapping) and "type" in one for one in content)
    )
    if not is_prompt:
        return None
    return "\n\n".join(filter(None, [_part_text(part) for part in content]))


def _part_text(part: Mapping[str, Any]) -> str:
    if part["type"] == "text":
        return str(part.get("text") or "")
    size = int(part.get("size") or 0)
    return f"[attached: {part.get('name')}, {part.get('media_type')}, {max(1, size >> 10):,} KiB]"


def _follows(text: str, found: re.Match[str]) -> bool:
    """Whether the character before a joiner is itself seen."""
    return not _BLANK.match(text[found.start() - 1])


def _escape(text: str) -> str:
    return text.encode("unicode_escape").decode()
