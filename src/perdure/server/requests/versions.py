"""Versions of what requests read and change: the ETag of an answer, and what `If-Match` is compared with.

The version of a session is the number of its last event; that of a queue, a schedule, a principal and the policy counts
its changes. A record that does not exist has version 0. Tasks and decisions change with their session.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from perdure.domain.session import SessionRecord
from perdure.errors import NotFound
from perdure.server.operation import Context, Operation, Touch
from perdure.store.move import StoreTransaction, read_head
from perdure.store.moves import policy, principal, queue, schedule

Version = Callable[[StoreTransaction, Context], int]


def of_session(tx: StoreTransaction, context: Context) -> int:
    """Locks the row of the session."""
    return read_head(tx, context.uid).cursor


def of_queue(tx: StoreTransaction, context: Context) -> int:
    found = queue.get(tx, context.params["name"])
    return 0 if found is None else found.version


def of_schedule(tx: StoreTransaction, context: Context) -> int:
    try:
        return schedule.get(tx, context.params["name"]).version
    except NotFound:
        return 0


def of_principal(tx: StoreTransaction, context: Context) -> int:
    found = principal.with_name(tx, context.params["name"])
    return 0 if found is None else found.version


def of_policy(tx: StoreTransaction, _: Context) -> int:
    found = policy.newest(tx)
    return 0 if found is None else found.version


CHANGED: dict[str, Version] = {
    "queues.set": of_queue,
    "schedules.put": of_schedule,
    "schedules.pause": of_schedule,
    "schedules.resume": of_schedule,
    "schedules.remove": of_schedule,
    "principals.set": of_principal,
    "principals.remove": of_principal,
    "policy.set": of_policy,
    "policy.freeze": of_policy,
    "policy.thaw": of_policy,
}


def version_of(operation: Operation) -> Version | None:
    """How the version of what an operation changes is read; None: it takes no `If-Match`."""
    if operation.method == "GET":
        return None
    return of_session if operation.touches is Touch.SESSION else CHANGED.get(operation.name)


def is_next(of: Version, version: int, expected: int) -> bool:
    """Whether a record has been changed at most once since a version. The first change of a queue makes it 2."""
    return version <= expected + 1 or (of is of_queue and (expected, version) == (0, 2))


def has_version(operation: Operation) -> bool:
    """Whether an answer of an operation has an ETag."""
    kind = operation.answer
    names = kind.__struct_fields__ if isinstance(kind, type) and issubclass(kind, msgspec.Struct) else ()
    return operation.partial or "cursor" in names or "version" in names


def entity_tag(found: Any) -> str | None:
    """The ETag of an answer, if what it shows has a version."""
    version = found.cursor if isinstance(found, SessionRecord) else getattr(found, "version", None)
    return f'"{version}"' if isinstance(version, int) else None


def has_already(given: str | None, tag: str) -> bool:
    """Whether `If-None-Match` names what is there."""
    if given is None:
        return False
    named = {one.strip().removeprefix("W/") for one in given.split(",")}
    return bool(named & {tag.removeprefix("W/"), "*"})
