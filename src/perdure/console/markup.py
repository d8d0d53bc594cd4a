"""Text of programs, models and other people as HTML that cannot do anything.

    mark      everything is escaped; what is not seen (controls, marks of direction, ANSI) is a visible mark
    secrets   known ones, and what looks like one, are masked
    cut       long texts and long lines are cut, and the number of characters that are left out is shown
    json      values as JSON, on one line or indented

Nothing here returns HTML that it did not write itself: text passes `escape` before it becomes `Markup`.
"""

from __future__ import annotations

from typing import Any

import msgspec
from markupsafe import Markup, escape

from perdure.domain.text import content_text, parts
from perdure.ids import encode
from perdure.secrets.mask import mask as mask_secrets

KEPT = "\n\t"
LONGEST = 20_000  # characters of one text on a page
LONGEST_LINE = 2_000
SHORT = 200


def mark(text: Any, *, keep: str = KEPT) -> Markup:
    """A text with a visible mark for each run of characters that are not seen."""
    return Markup(
        "".join(_mark(part) if is_hidden else escape(part) for part, is_hidden in parts(_text(text), keep=keep))
    )


def pieces(text: str) -> list[tuple[str, bool]]:
    """The same for text that a script appends: each piece as it is shown, and whether it is a mark."""
    return [(_escaped(part) if is_hidden else part, is_hidden) for part, is_hidden in parts(text, keep=KEPT)]


def line(text: Any, limit: int = SHORT) -> Markup:
    """The start of a text on one line, marked; an ellipsis shows that there is more."""
    given = " ".join(_text(text)[: 4 * limit].split("\n"))
    return mark(given, keep="") if len(given) <= limit else mark(given[: limit - 1], keep="") + "…"


def ticks(text: Any, limit: int = SHORT) -> Markup:
    """The same, with what is between backticks as code."""
    parts_of = _text(text)[: 4 * limit].split("`")
    if len(parts_of) % 2 == 0:  # one is without its pair
        return line(text, limit)
    made = Markup()
    for nth, part in enumerate(parts_of):
        made += Markup("<code>{}</code>").format(line(part, limit)) if nth % 2 else line(part, limit)
    return made


def block(text: Any, limit: int = LONGEST) -> Markup:
    """A text of several lines, marked and cut."""
    given = _text(text)
    if len(given) <= min(limit, LONGEST_LINE):
        return mark(given)
    lines = [_bounded(one) for one in given[:limit].split("\n")]
    made = Markup("\n").join(lines)
    return made if len(given) <= limit else made + _left_out(len(given) - limit)


def json(value: Any, limit: int = LONGEST) -> Markup:
    """A value as indented JSON, or a text as it is."""
    if isinstance(value, str):
        return block(value, limit)
    return block(msgspec.json.format(encode(value), indent=2), limit)


def short_json(value: Any, limit: int = SHORT) -> Markup:
    """A value as short JSON on one line; a text without quotes."""
    return line(value, limit)


def is_tall(text: Any) -> bool:
    """Whether a text may need a box that scrolls, which the keyboard must reach."""
    given = _text(text)
    return len(given) > 700 or given.count("\n") > 12


def words(content: Any) -> str:
    """The content of a message as text."""
    text = content_text(content)
    return text if text is not None else "" if content is None else encode(content)


def error(given: Any) -> str:
    """A recorded error as a sentence."""
    if not isinstance(given, dict):
        return _text(given)
    kind, message = given.get("type"), given.get("message")
    return f"{kind}: {message}" if kind and message else str(message or kind or given.get("code") or encode(given))


def money(micros: int) -> str:
    """Millionths of a dollar: `$0.0042`, `$1.27`."""
    dollars = micros / 1_000_000
    return f"${dollars:,.2f}" if dollars >= 1 or not micros else f"${dollars:.4f}"


def _text(given: Any) -> str:
    return mask_secrets(given if isinstance(given, str) else "" if given is None else encode(given))


def _bounded(text: str) -> Markup:
    if len(text) <= LONGEST_LINE:
        return mark(text)
    return mark(text[:LONGEST_LINE]) + _left_out(len(text) - LONGEST_LINE)


def _left_out(number: int) -> Markup:
    return Markup('<span class="cut">… {:,} more characters</span>').format(number)


def _mark(hidden: str) -> Markup:
    return Markup('<span class="mark" title="{} characters that are not seen">{}</span>').format(
        len(hidden), _escaped(hidden)
    )


def _escaped(hidden: str) -> str:
    return hidden[:50].encode("unicode_escape").decode() + ("…" if len(hidden) > 50 else "")
