"""Which archived sessions a list has, and the search for a text in a session. Only what its row says is searched."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from perdure.domain.session import SessionRecord
from perdure.domain.text import content_text

ARCHIVED: Mapping[str, int] = MappingProxyType({"without": 0, "only": 1, "with": 2})  # as statements compare them


def has_text(one: SessionRecord, text: str) -> bool:
    """Whether the id, the title or the prompt of a session has a text, ignoring case."""
    prompt = one.arguments.get("prompt") if isinstance(one.arguments, dict) else None
    fields = (one.id, one.title or "", content_text(prompt) or "")
    return any(text.casefold() in field.casefold() for field in fields)
