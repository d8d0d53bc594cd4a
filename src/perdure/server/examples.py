"""Examples of answers and queries in the OpenAPI document, made from their types so that they always fit them."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import inspect

TIME = 1_795_000_000_000_000  # microseconds
VALUES: dict[str, Any] = {  # by the name of the field; others show their name
    "action": "dispatch", "actor": "worker-1", "actors": ["ada"], "arguments": {"pr": 7}, "because": "the tests pass",
    "body": {"text": "also check the docs"}, "by": "ada", "chain": "c" * 64, "code": "not-found", "cursor": 12,
    "decision": "approved", "digest": "d" * 64, "id": "review-7", "identity": "token:4k0w2m9xqp", "intent":
    {"tool": "post_comment", "arguments": {"pr": 7}}, "intent_digest": "1" * 64, "kind": "message", "limit": 50,
    "location": "dd/" + "d" * 64, "name": "nightly", "number": 12, "owner": "ada", "program": "review", "queue":
    "default", "quorum": 1, "reason": "it writes to the outside", "repository": "/srv/project", "session": "review-7",
    "session_uid": "01a1f43707f4", "size": 4096, "status": "waiting", "tool": "post_comment", "uid": "01a1f43707f4",
    "version": 3, "replay": "escalate", "state": "acknowledged", "requester": "ada", "gate": "merge", "voter": "grace",
    "effect_id": "e-228b281574dc2d09", "title": "Fix the build", "key": "branch", "scope": "team", "text": "Be brief.",
}  # fmt: skip


def example_of(kind: Any) -> Any:
    """An example of a type, as JSON."""
    return _value(inspect.type_info(kind), "", ())


def parameter_example(kind: type[msgspec.Struct], name: str) -> Any:
    """An example of a parameter of a query, also of one that may be left out."""
    field = next(one for one in inspect.type_info(kind).fields if one.encode_name == name)  # type: ignore[attr-defined]
    known = field.type
    if isinstance(known, inspect.UnionType):
        known = next(one for one in known.types if not isinstance(one, inspect.NoneType))
    return _value(known, name, ())


def _value(kind: inspect.Type, name: str, inside: tuple[type, ...]) -> Any:
    given = VALUES.get(name)
    match kind:
        case inspect.StructType():
            if kind.cls in inside:
                return {}
            return {one.encode_name: _value(one.type, one.encode_name, (*inside, kind.cls)) for one in kind.fields}
        case inspect.UnionType():
            return _one_of(kind, name, inside)
        case inspect.LiteralType():
            return given if given in kind.values else kind.values[0]
        case inspect.EnumType():
            words = [one.value for one in kind.cls]
            return given if given in words else words[0]
        case inspect.StrType():
            return given if isinstance(given, str) else name
        case inspect.IntType():
            if isinstance(given, int):
                return given
            return TIME if name.endswith("_at") or name in ("at", "since") else max(1, kind.ge or 0)
        case inspect.FloatType():
            return 1.0
        case inspect.BoolType():
            return False
        case inspect.ListType() | inspect.VarTupleType() | inspect.SetType() | inspect.FrozenSetType():
            item = kind.item_type
            is_again = isinstance(item, inspect.StructType) and item.cls in inside
            return [] if is_again else [_value(item, name.removesuffix("s"), inside)]
        case inspect.TupleType():
            return [_value(one, name, inside) for one in kind.item_types]
        case inspect.DictType():
            return given if isinstance(given, dict) else {}
        case _:
            return given


def _one_of(kind: inspect.UnionType, name: str, inside: tuple[type, ...]) -> Any:
    """A value of the type that the name suggests; else null, if that is possible."""
    given = VALUES.get(name)
    for one in kind.types:
        if given is not None and (found := _value(one, name, inside)) == given:
            return found
    has_null = any(isinstance(one, inspect.NoneType) for one in kind.types)
    return None if has_null else _value(kind.types[0], name, inside)
