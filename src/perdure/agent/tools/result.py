"""What a tool gives back: text for the model, bounded and harmless, and what the record wants to know of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from perdure.agent.files.workspace import here
from perdure.errors import StoreError

LIMIT = 50_000  # letters of one result; the whole is kept as an artifact where there is a place for it
LINE = 2_000


class ToolResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a tool gives back: text for the model, and what the record wants to know of it.

    origin    where the text came from: `file:src/a.py`, `web:https://…`, `command:…`
    read      path in the folder -> digest of its content as read or written; None: there is no such file
    artifact  digest of the whole, when the text is only a part of it
    failed    it did what was asked, and the answer is bad news
    changed   files in the folder may have changed
    """

    __module__ = "perdure"

    text: str
    origin: str | None = None
    read: dict[str, str | None] = {}
    artifact: str | None = None
    failed: bool = False
    changed: bool = False


class _Source(msgspec.Struct, frozen=True):
    origin: str | None = None
    read: dict[str, str | None] = {}


def source_of(result: str, arguments: Mapping[str, Any]) -> str | None:
    """The reference of a look, from its stored result: the path, the address or the command that it looked at."""
    said = msgspec.json.decode(result, type=_Source)
    path = next(iter(said.read), arguments.get("path"))
    found = said.origin.removeprefix("file:").removeprefix("web:") if said.origin else path
    return str(found) if found else None


def text_result(text: str, **more: Any) -> ToolResult:
    """Text of any length, as a result: what is too long is cut, and kept whole elsewhere."""
    shown = plain(text)
    if len(shown) <= LIMIT:
        return ToolResult(shown, **more)
    head = shown[: LIMIT - 100]
    head = head[: head.rfind("\n") + 1] or head
    return ToolResult(
        f"{head}\n[cut: {len(head)} of {len(shown)} characters are shown]", artifact=_store_text(shown), **more
    )


def _store_text(text: str) -> str | None:
    """The bytes first; whoever records the result claims them. A full disk costs the rest of the text, not the call."""
    if (artifacts := here().artifacts) is None:
        return None
    try:
        return artifacts.put(text.encode())[0]
    except StoreError:
        return None


def plain(text: str) -> str:
    """The text with what could move a cursor, turn a line around or break an encoder shown as its escape."""
    return _HARMFUL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


_HARMFUL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def short(text: str, limit: int = 200) -> str:
    """The beginning of a text on one line, for a sentence."""
    shown = plain(text[: limit + 1]).replace("\n", "\\n")
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"
