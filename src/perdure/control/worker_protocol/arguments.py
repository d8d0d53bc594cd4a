"""The arguments of moves and reads on the way to the service.

The worker sends JSON; the service reads each argument as the type that the function declares. A record (a session, an
effect, a wait) is sent as its name only, and the service reads the record itself: what a worker knows of it may be old,
or not true. A holder is sent as it is, because the transaction compares it with the row.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import cache
from types import SimpleNamespace
from typing import Any, get_args, get_origin, get_type_hints

import msgspec

from perdure.control.worker_protocol import reads
from perdure.domain.effect import Effect
from perdure.domain.lease import Holder
from perdure.domain.session import SessionRecord
from perdure.domain.wait import Wait
from perdure.errors import ConfigError
from perdure.runtime.run.records import Records
from perdure.store.invocation import Invocation
from perdure.store.move import HolderMove, OutsiderMove, StoreTransaction
from perdure.store.moves import effect, session, wait

RECORDS = (SessionRecord, Effect, Wait)
SHOWN = ("uid", "name", "nonce", "epoch", "head", "ttl", "program", "alone")  # of a holder


TYPES = SimpleNamespace(Holder=Holder, Records=Records)  # what modules import for types only


class HolderSeen(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A holder as its worker sends it: the end of the log and the requests as it knows them."""

    uid: str
    name: str
    nonce: str
    epoch: int
    head: tuple[int, str]
    ttl: int = 0
    program: str = ""
    alone: bool = True

    def made(self) -> Holder:
        holder = Holder(self.uid, self.name, self.nonce, self.epoch, *self.head)
        holder.ttl, holder.program, holder.alone = self.ttl, self.program, self.alone
        return holder


class RecordName(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which record is meant."""

    session: str
    id: str = ""


class Given(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of one call."""

    args: list[Any] = []
    kwargs: dict[str, Any] = {}


def encode_arguments(invocation: Invocation) -> dict[str, Any]:
    """The arguments as what can be written as JSON."""
    return {
        "args": [_sent(one) for one in invocation.args],
        "kwargs": {name: _sent(one) for name, one in invocation.kwargs.items()},
    }


def _sent(value: Any) -> Any:
    if isinstance(value, Holder):
        return {name: getattr(value, name) for name in SHOWN}
    if isinstance(value, SessionRecord):
        return RecordName(value.uid)
    if isinstance(value, Effect | Wait):
        return RecordName(value.session_uid, value.id)
    if isinstance(value, list | tuple | set | frozenset):
        return [_sent(one) for one in value]
    if isinstance(value, dict):
        return {key: _sent(one) for key, one in value.items()}
    return reads.NAMES.get(value) if callable(value) else value


@cache
def parameters_of(factory: Callable[..., Any]) -> tuple[inspect.Signature, dict[str, Any]]:
    """The parameters that callers of a move or a read give, and their types."""
    leading: dict[str, Any] = {}
    if isinstance(factory, HolderMove):
        leading = {"_holder": Holder}
    elif isinstance(factory, OutsiderMove):
        leading = {"_uid": str, "_by": str}
    on = getattr(factory, "on", None)
    function = on or inspect.unwrap(factory)
    has_transaction = on is not None or factory in reads.NAMES
    own = list(inspect.signature(function).parameters.values())[has_transaction:]
    first = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_ONLY) for name in leading]
    types = get_type_hints(function, localns=vars(TYPES)) | leading
    return inspect.Signature([*first, *own]), {one.name: types.get(one.name, Any) for one in (*first, *own)}


def decode_arguments(
    factory: Callable[..., Any], given: Given, tx: StoreTransaction | None = None
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments as the function declares them. Records are read in the transaction; a move is given none."""
    signature, types = parameters_of(factory)
    try:
        bound = signature.bind(*given.args, **given.kwargs)
    except TypeError as error:
        raise ConfigError(f"These are not the arguments of it: {error}.") from None
    for name, value in bound.arguments.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_KEYWORD:
            bound.arguments[name] = {key: _decoded(Any, one, tx) for key, one in value.items()}
        else:
            bound.arguments[name] = _decoded(types[name], value, tx)
    return list(bound.args), bound.kwargs


def _decoded(kind: Any, given: Any, tx: StoreTransaction | None) -> Any:
    if kind is Any:
        return given
    inside = [one for one in (kind, *get_args(kind)) if isinstance(one, type) and one in RECORDS]
    try:
        if inside:
            return _records(kind, given, tx)
        if Holder in (kind, *get_args(kind)):
            seen = msgspec.convert(given, HolderSeen | None)
            return None if seen is None else seen.made()
        if _is_query(kind):
            return _query(msgspec.convert(given, str | None))
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        raise ConfigError(f"An argument is not what it must be: {error}.") from None


def _records(kind: Any, given: Any, tx: StoreTransaction | None) -> Any:
    if tx is None:
        return None  # what a worker knows of a record decides nothing
    if get_origin(kind) in (list, tuple, Sequence):
        return [_record(get_args(kind)[0], one, tx) for one in msgspec.convert(given, list[RecordName])]
    named = msgspec.convert(given, RecordName | None)
    return None if named is None else _record(kind, named, tx)


def _record(kind: Any, named: RecordName, tx: StoreTransaction) -> Any:
    if kind is Effect or Effect in get_args(kind):
        return effect.get(tx, named.session, named.id)
    if kind is Wait or Wait in get_args(kind):
        return wait.get(tx, named.session, named.id)
    return session.get(tx, named.session)


def _is_query(kind: Any) -> bool:
    return any(get_origin(one) is Callable for one in (kind, *get_args(kind)))


def _query(name: str | None) -> Callable[..., Any] | None:
    """A read that is an argument of another one."""
    if name is not None and name not in reads.RUN_STATES:
        raise ConfigError(f"There is no read {name!r:.60} of what a run begins with.")
    return None if name is None else reads.READS[name]
