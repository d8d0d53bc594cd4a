"""The type of messages that a program receives."""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.errors import ConfigError
from perdure.ids import encode
from perdure.runtime.definitions import foreign_types
from perdure.runtime.definitions.stored_form import StoredForm
from perdure.runtime.definitions.stored_types import why_unstorable
from perdure.runtime.description import short_text


class MessageType:
    """How messages of one declared type are checked and read; without a type, every message fits."""

    def __init__(self, declared: Any) -> None:
        self._declared = Any if declared is None else declared
        self.name = getattr(declared, "__qualname__", None) or str(declared)
        if (why := why_unstorable(self._declared)) is not None:
            raise ConfigError(f"s.receive: messages of type {self.name} cannot be stored: {why}.")
        self._form = StoredForm(self._declared)

    def read(self, text: str) -> Any:
        """A message, from its recorded JSON text."""
        try:
            return self._form.read(text)
        except Exception as error:  # pydantic has its own errors, and a validator may raise anything
            said = short_text(error, 2000)
            raise ConfigError(f"The message that was received is not of type {self.name}: {said}") from None

    def why_unfit(self, body: Any) -> str | None:
        """Why a message is not of this type; None if it is."""
        try:
            self._form.read(encode(body))
        except Exception as error:
            return short_text(error, 200)
        return None

    def detail(self, unfit: list[str]) -> dict[str, Any]:
        """What a wait for such a message shows; `unfit` says which unread messages are not of this type, and why."""
        shown: dict[str, Any] = {"receive": True}
        if self._declared is not Any:
            shown |= {"type": self.name, "schema": self.schema(), "why": f"It must be of type {self.name}."}
        if unfit:
            more = f" and {len(unfit) - 3} more" if len(unfit) > 3 else ""
            shown["why"] += f" Not of this type, and left unread: {'; '.join(unfit[:3])}{more}."
        return shown

    def schema(self) -> dict[str, Any]:
        """The type as JSON Schema. A pydantic model is any object here: it may convert what it is given."""
        (schema,), parts = msgspec.json.schema_components([self._declared], schema_hook=_loose)
        return schema | ({"$defs": parts} if parts else {})


def _loose(cls: type) -> dict[str, Any]:
    if foreign_types.is_path(cls):
        return {"type": "string"}
    return {"type": "object"} if foreign_types.is_model(cls) else {"title": cls.__name__}


def message_body(message: Any) -> Any:
    """A message as JSON values, by the type of the object that is sent."""
    if isinstance(message, str | None):
        return message
    if (why := why_unstorable(type(message))) is not None:
        raise ConfigError(f"A message of type {type(message).__qualname__} cannot be sent: {why}.")
    try:
        return StoredForm(type(message)).plain(message)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"The message cannot be stored as JSON: {short_text(error, 200)}.") from None
