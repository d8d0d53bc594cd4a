"""How values of one declared type become JSON and come back.

The usual case is one call of msgspec each way. What JSON cannot say has its own module: the order of sets, integers
beyond 2^53, and types that msgspec does not know. Digests are made of what this module writes, so that what it writes
for a type never changes; `tests/runtime/definitions/test_stored_form.py` holds them.
"""

from __future__ import annotations

import re
from functools import cached_property, partial
from typing import Any

import msgspec
from msgspec import inspect as types

from perdure.errors import ConfigError
from perdure.ids import canonical, encode
from perdure.runtime.definitions import big_integers, foreign_types
from perdure.runtime.definitions.set_order import SCALARS, sort_sets
from perdure.runtime.definitions.stored_types import parts
from perdure.secrets.reference import Secret

_LONG_NUMBER = re.compile(r"[0-9]{16}")


class StoredForm:
    """The stored form of one declared type."""

    def __init__(self, type_: Any) -> None:
        self._type = type_
        self._decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(type_, dec_hook=foreign_types.read)

    def plain(self, value: Any) -> Any:
        """A value as JSON values that have a canonical form. Raises ValueError or TypeError if there are none."""
        plain = self._written(self._with_sorted_sets(value))
        try:
            canonical(plain)
        except ConfigError:
            changed = big_integers.with_texts(plain, self._info)
            if changed == plain:
                raise
            canonical(changed)
            return changed
        return plain

    def open(self, plain: Any, secrets: list[Secret] | None = None) -> Any:
        """JSON values as the declared type. The secrets among them are added to `secrets`."""
        read = foreign_types.read
        if secrets is not None and self.has_secrets:
            read = partial(_read_and_note, secrets)
        try:
            return msgspec.convert(plain, self._type, str_keys=True, dec_hook=read)
        except msgspec.ValidationError:
            if not self._holds(types.IntType) or (changed := big_integers.with_integers(plain, self._info)) == plain:
                raise
        return msgspec.convert(changed, self._type, str_keys=True, dec_hook=read)

    def text(self, value: Any) -> str:
        """A value as JSON text."""
        if type(value) not in SCALARS:
            value = self._with_sorted_sets(value)
        text = encode(value, self._write_foreign)
        if _LONG_NUMBER.search(text) and self._holds(types.IntType):
            return encode(big_integers.with_texts(msgspec.json.decode(text), self._info))
        return text

    def read(self, text: str) -> Any:
        """JSON text as the declared type."""
        try:
            return self._decoder.decode(text)
        except msgspec.ValidationError:
            if not _LONG_NUMBER.search(text):
                raise
        return self.open(msgspec.json.decode(text))

    def schema(self) -> dict[str, Any]:
        """A struct type as JSON Schema."""
        foreign: dict[str, Any] = {}
        (schema,), made = msgspec.json.schema_components(
            [self._type], schema_hook=lambda cls: foreign_types.schema(cls, foreign)
        )
        opened: dict[str, Any] = made.pop(schema["$ref"].rsplit("/", 1)[-1])
        definitions = {**made, **foreign}
        return opened | ({"$defs": definitions} if definitions else {})

    @cached_property
    def _info(self) -> types.Type:
        return types.type_info(self._type)

    @cached_property
    def _foreign(self) -> tuple[type, ...]:
        """The paths, secrets and models in the declaration; others, such as `object`, are only checked."""
        declared = [part.cls for part in parts(self._info) if isinstance(part, types.CustomType)]
        return tuple(cls for cls in declared if foreign_types.is_foreign(cls))

    @cached_property
    def has_secrets(self) -> bool:
        return Secret in self._foreign

    def _holds(self, kind: type[types.Type]) -> bool:
        return any(isinstance(part, kind) for part in parts(self._info))

    def _written(self, value: Any) -> Any:
        return msgspec.to_builtins(value, str_keys=True, enc_hook=self._write_foreign)

    def _write_foreign(self, value: Any) -> Any:
        """Paths and models are written where they are declared, so that they are read back as what they were."""
        if isinstance(value, self._foreign):
            return foreign_types.write(value)
        raise TypeError(f"a value of type {type(value).__qualname__} has no stored form here")

    def _with_sorted_sets(self, value: Any) -> Any:
        return sort_sets(value, self._written)


def _read_and_note(secrets: list[Secret], cls: Any, stored: Any) -> Any:
    value = foreign_types.read(cls, stored)
    if isinstance(value, Secret):
        secrets.append(value)
    return value
