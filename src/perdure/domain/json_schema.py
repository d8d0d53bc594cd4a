"""JSON Schema, as far as it is needed to refuse a message that its receiver could not read.

A keyword that is not known here excludes nothing: what passes is read by the receiver, which decides. So nothing is
refused here that the receiver could read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from perdure.domain.record import same_json

_LONG_INTEGER = re.compile(r"-?[0-9]{16,}\Z")  # how an integer beyond 2^53 is stored
DEPTH = 50


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: (_is_number(value) and value == value // 1) or _is_long_integer(value),
    "number": lambda value: _is_number(value) or _is_long_integer(value),
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list | tuple),
    "object": lambda value: isinstance(value, dict),
}


def _is_long_integer(value: Any) -> bool:
    return isinstance(value, str) and _LONG_INTEGER.match(value) is not None


def mismatch(schema: Mapping[str, Any], value: Any) -> str | None:
    """Why a value cannot be what the schema describes; None if it may be."""
    return _mismatch(schema, value, schema.get("$defs", {}), "the message", 0)


def _mismatch(schema: Any, value: Any, definitions: Mapping[str, Any], where: str, depth: int) -> str | None:
    if not isinstance(schema, Mapping) or depth > DEPTH:
        return None
    if "$ref" in schema:
        return _mismatch(definitions.get(schema["$ref"].rsplit("/", 1)[-1]), value, definitions, where, depth + 1)
    for word in ("anyOf", "oneOf"):
        if word in schema:
            found = [_mismatch(one, value, definitions, where, depth + 1) for one in schema[word]]
            return f"{where} is of none of its types" if found and all(found) else None
    if "enum" in schema and not any(same_json(value, one) for one in schema["enum"]):
        return f"{where} is not one of {', '.join(map(str, schema['enum'][:20]))}"
    kind = schema.get("type")
    if isinstance(kind, str) and not _is_of(kind, schema, value):
        return f"{where} is not of type {kind}"
    if isinstance(value, dict):
        return _object_mismatch(schema, value, definitions, where, depth)
    if isinstance(value, list | tuple) and isinstance(schema.get("items"), Mapping):
        parts = enumerate(value[len(schema.get("prefixItems", ())) :])
        found = [_mismatch(schema["items"], one, definitions, f"{where}[{at}]", depth + 1) for at, one in parts]
        return next(filter(None, found), None)
    return None


def _is_of(kind: str, schema: Mapping[str, Any], value: Any) -> bool:
    if kind not in _TYPES or (schema.get("format") == "decimal" and _is_number(value)):
        return True
    return _TYPES[kind](value)


def _object_mismatch(
    schema: Mapping[str, Any], value: dict[str, Any], definitions: Mapping[str, Any], where: str, depth: int
) -> str | None:
    fields: Mapping[str, Any] = schema.get("properties", {})
    missing = [name for name in schema.get("required", ()) if name not in value and "enum" not in fields.get(name, {})]
    if missing:
        return f"{where} has no {missing[0]}"
    other = schema.get("additionalProperties")
    for name, part in value.items():
        if name not in fields and other is False:
            return f"{where} has an unknown field {name}"
        if (why := _mismatch(fields.get(name, other), part, definitions, f"{where}.{name}", depth + 1)) is not None:
            return why
    return None
