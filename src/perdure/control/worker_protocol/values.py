"""Values on the way to a worker: JSON, and of other types only those that are named here.

A tuple, a set, bytes, a record and a dict with other keys than text are an object with the one key `@`, which names the
type. Both sides have the same table, so no name leads to code (invariant 14). Enumerations arrive as their text.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from collections.abc import Set as AnySet
from enum import Enum
from typing import Any

import msgspec

from perdure.agent.files.branch import SessionFolder
from perdure.agent.history.catch_up import RecentChanges
from perdure.agent.history.inbox import InboxState
from perdure.agent.history.state_reader import AgentRecords
from perdure.agent.history.transcript import Line, State
from perdure.domain.approval import Approval
from perdure.domain.effect import Attempt, Effect
from perdure.domain.event import Event
from perdure.domain.exemption import Exemption
from perdure.domain.fact import Fact
from perdure.domain.inbox import InboxMessage
from perdure.domain.lease import Holder
from perdure.domain.policy import Budget
from perdure.domain.policy_version import PolicyFence, PolicyVersion
from perdure.domain.rate_limit import RateLimit
from perdure.domain.recovery_decision import GateFinding
from perdure.domain.restore import Restore
from perdure.domain.session import SessionRecord
from perdure.domain.step import Step
from perdure.domain.wait import Wait
from perdure.domain.worker import WorkerRecord
from perdure.errors import ConfigError, Damaged
from perdure.runtime.run.position import CallPosition
from perdure.runtime.run.records import Records, RunState
from perdure.runtime.workers.family import Entry
from perdure.store.moves.artifact import ArtifactClaim
from perdure.store.moves.claim import Claim
from perdure.store.moves.message import ModelUsage
from perdure.store.moves.rate_limit import Reservation

TAG = "@"
STRUCTS: dict[str, type[msgspec.Struct]] = {
    one.__name__: one
    for one in (
        Approval, ArtifactClaim, Attempt, Budget, Claim, Effect, Entry, Event, Exemption, Fact, GateFinding,
        InboxMessage, ModelUsage, PolicyFence, PolicyVersion, RateLimit, Reservation, Restore, RunState, SessionFolder,
        SessionRecord, State, Step, Wait, WorkerRecord,
    )
}  # fmt: skip
TUPLES: dict[str, type[tuple[Any, ...]]] = {
    one.__name__: one for one in (CallPosition, InboxState, Line, RecentChanges)
}
OBJECTS: dict[str, type[Any]] = {one.__name__: one for one in (AgentRecords, Holder, Records)}


def encode_value(value: Any) -> Any:
    """A value as JSON types."""
    if value is None or isinstance(value, bool | int | float) or type(value) is str:
        return value
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, msgspec.Raw):
        return msgspec.json.decode(value)
    if isinstance(value, bytes):
        return {TAG: "bytes", "of": b64encode(value).decode()}
    if isinstance(value, msgspec.Struct):
        return _tagged(STRUCTS, value, {name: getattr(value, name) for name in value.__struct_fields__})
    if isinstance(value, tuple):
        return {TAG: _name(TUPLES, value), "of": [encode_value(one) for one in value]}
    if isinstance(value, AnySet):
        return {TAG: "set" if isinstance(value, set) else "frozenset", "of": [encode_value(one) for one in value]}
    if isinstance(value, Mapping):
        return _encode_mapping(value)
    if isinstance(value, Sequence):
        return [encode_value(one) for one in value]
    return _tagged(OBJECTS, value, attributes(value))


def _encode_mapping(value: Mapping[Any, Any]) -> Any:
    if all(type(key) is str and key != TAG for key in value):
        return {key: encode_value(one) for key, one in value.items()}
    return {TAG: "dict", "of": [[encode_value(key), encode_value(one)] for key, one in value.items()]}


def _tagged(known: Mapping[str, type[Any]], value: Any, fields: Mapping[str, Any]) -> Any:
    return {TAG: _name(known, value), "of": {name: encode_value(one) for name, one in fields.items()}}


def _name(known: Mapping[str, type[Any]], value: Any) -> str:
    name = type(value).__name__
    if type(value) is tuple or known.get(name) is type(value):
        return name
    raise ConfigError(f"A value of type {name} has no form outside of the process.")


def attributes(value: Any) -> dict[str, Any]:
    """The attributes of an object of the table."""
    if isinstance(value, Holder):
        return {name: getattr(value, name) for name in Holder.__slots__}
    return dict(vars(value))


def decode_value(given: Any) -> Any:
    """A value from JSON types."""
    if isinstance(given, list):
        return [decode_value(one) for one in given]
    if not isinstance(given, dict):
        return given
    if TAG not in given:
        return {key: decode_value(one) for key, one in given.items()}
    name, of = given[TAG], given["of"]
    if name in STRUCTS:
        return STRUCTS[name](**{key: decode_value(one) for key, one in of.items()})
    if name in TUPLES:
        return TUPLES[name](*(decode_value(one) for one in of))
    if name in OBJECTS:
        made = object.__new__(OBJECTS[name])
        for key, one in of.items():
            setattr(made, key, decode_value(one))
        return made
    return _decode_builtin(name, of)


def _decode_builtin(name: str, of: Any) -> Any:
    if name == "bytes":
        return b64decode(of)
    found = [decode_value(one) for one in of]
    if name == "dict":
        return dict(found)
    kinds: dict[str, Any] = {"tuple": tuple, "set": set, "frozenset": frozenset}
    if name not in kinds:
        raise Damaged(f"The service answered with a value of the type {name!r:.60}.", hint="Update the worker.")
    return kinds[name](found)
