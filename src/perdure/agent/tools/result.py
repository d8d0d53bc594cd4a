"""The result of a tool: text for the model, limited and without control characters, and facts for the record."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from perdure.agent.files.workspace import here
from perdure.errors import StoreError
from perdure.secrets.redaction import redact

LIMIT = 50_000  # characters of one result; the whole is stored as an artifact if the store has a folder for them
LINE = 2_000


class ToolResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result of a tool: text for the model, and facts for the record.

    origin    where the text came from: `file:src/a.py`, `web:https://…`, `command:…`
    origins   further ones, such as the hosts that a command names
    read      path in the folder -> digest of its content as read or written; None: there is no such file
    artifact  digest of the whole, when the text is only a part of it
    failed    the call worked, and its result is a failure, such as an exit code
    changed   files in the folder may have changed
    """

    __module__ = "perdure"

    text: str
    origin: str | None = None
    origins: list[str] = []
    read: dict[str, str | None] = {}
    artifact: str | None = None
    failed: bool = False
    changed: bool = False


class _Source(msgspec.Struct, frozen=True):
    origin: str | None = None
    read: dict[str, str | None] = {}


def source_of(result: str, arguments: Mapping[str, Any]) -> str | None:
    """The reference of a read-only call, from its stored result: the path, the address or the command that it read."""
    source = msgspec.json.decode(result, type=_Source)
    path = next(iter(source.read), arguments.get("path"))
    found = source.origin.removeprefix("file:").removeprefix("web:") if source.origin else path
    return str(found) if found else None


def text_result(text: str, **more: Any) -> ToolResult:
    """Text of any length, as a result: a long text is cut, and stored whole as an artifact."""
    shown = plain(redact(text))
    if len(shown) <= LIMIT:
        return ToolResult(shown, **more)
    head = shown[: LIMIT - 100]
    head = head[: head.rfind("\n") + 1] or head
    return ToolResult(
        f"{head}\n[cut: {len(head)} of {len(shown)} characters are shown]", artifact=_store_text(shown), **more
    )


def _store_text(text: str) -> str | None:
    """Store the bytes first; the recorded result claims them. A full disk costs the rest of the text, not the call."""
    if (artifacts := here().artifacts) is None:
        return None
    try:
        return artifacts.put(text.encode())[0]
    except StoreError:
        return None


def plain(text: str) -> str:
    """The text with control and bidirectional characters and broken surrogates shown as escapes."""
    return _HARMFUL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


_HARMFUL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def short(text: str, limit: int = 200) -> str:
    """The beginning of a text on one line, for a sentence."""
    shown = plain(text[: limit + 1]).replace("\n", "\\n")
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"
