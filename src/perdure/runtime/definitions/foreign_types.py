"""Declared types that msgspec does not know: paths, secrets and pydantic models.

A path is stored as text, a secret as its reference, a pydantic model as `model_dump(mode="json")`. Pydantic
is optional: a class can only be a model of it if another module has imported it already.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Set
from pathlib import PurePath
from typing import Any

import msgspec

from perdure.runtime.definitions.big_integers import with_texts_everywhere
from perdure.runtime.definitions.set_order import rank
from perdure.secrets.reference import Secret


def is_path(cls: Any) -> bool:
    return isinstance(cls, type) and issubclass(cls, PurePath)


def is_secret(cls: Any) -> bool:
    return cls is Secret


def is_model(cls: Any) -> bool:
    """Whether it is a pydantic model, of version 2 or later."""
    base = getattr(sys.modules.get("pydantic"), "BaseModel", None)
    return base is not None and isinstance(cls, type) and issubclass(cls, base) and hasattr(cls, "model_dump")


def is_foreign(cls: Any) -> bool:
    """Whether this module writes and reads values of the type."""
    return is_path(cls) or is_secret(cls) or is_model(cls)


def why_unstorable(cls: Any) -> str | None:
    """Why values of a path or model cannot be stored and read back; None if they can."""
    if is_path(cls) or is_secret(cls):
        return None
    try:
        schema = json.dumps(cls.model_json_schema(mode="serialization"))
    except Exception as error:  # a field may be of any type
        return f"{cls.__qualname__} has no JSON form: {str(error).splitlines()[0]}"
    if '"writeOnly": true' in schema:
        return f"{cls.__qualname__} has a secret field, which pydantic does not write"
    return None


def write(value: Any) -> Any:
    """A path, secret or model as JSON values."""
    if is_path(type(value)):
        return str(value)
    if is_secret(type(value)):
        return value.reference
    dumped = _with_ordered_sets(value.model_dump(mode="json"), value.model_dump())
    stored = with_texts_everywhere(dumped)
    if stored is not dumped and read(type(value), stored).model_dump() != value.model_dump():
        raise ValueError(f"{type(value).__qualname__} holds an integer beyond 2^53 in a field that is not an int")
    return stored


def read(cls: Any, stored: Any) -> Any:
    """The path, secret or model that was written; for other types the stored value, which msgspec then checks."""
    if is_path(cls) and isinstance(stored, str):
        return cls(stored)
    if is_secret(cls) and isinstance(stored, str):
        return Secret(stored)
    if is_model(cls) and not isinstance(stored, cls):
        return cls.model_validate_json(msgspec.json.encode(stored), **_both_names())
    return stored


def schema(cls: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    """A path, secret or model as JSON Schema; the parts that it refers to are added to `definitions`."""
    if is_path(cls):
        return {"type": "string", "format": "path"}
    if is_secret(cls):
        return {"type": "string", "description": "A reference to a secret, such as env:NAME; never its value."}
    if not is_model(cls):
        raise NotImplementedError
    made: dict[str, Any] = cls.model_json_schema(ref_template=f"#/$defs/{cls.__name__}.{{model}}")
    definitions.update({f"{cls.__name__}.{name}": part for name, part in made.pop("$defs", {}).items()})
    return made


def _both_names() -> dict[str, bool]:
    """Read fields by their names, as they are written, and by their aliases, as a JSON schema shows them."""
    version = tuple(int(part) for part in sys.modules["pydantic"].VERSION.split(".")[:2])
    return {"by_alias": True, "by_name": True} if version >= (2, 11) else {}


def _with_ordered_sets(dumped: Any, value: Any) -> Any:
    """JSON values in which the elements of sets are sorted; `value` is the same data before it became JSON."""
    if isinstance(dumped, list) and isinstance(value, Set):
        return sorted(dumped, key=rank)
    if isinstance(dumped, list) and isinstance(value, list | tuple) and len(dumped) == len(value):
        return [_with_ordered_sets(*pair) for pair in zip(dumped, value, strict=True)]
    if isinstance(dumped, dict) and isinstance(value, dict) and len(dumped) == len(value):
        parts = zip(dumped.items(), value.values(), strict=True)
        return {key: _with_ordered_sets(part, before) for (key, part), before in parts}
    return dumped
