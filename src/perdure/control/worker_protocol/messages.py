"""What is sent: a move or a read by its name, and its result.

An error of a move is an answer too: it keeps its details, which a program may need, such as who holds a resource.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from perdure import errors
from perdure.control.worker_protocol.values import encode_value
from perdure.domain.lease import Holder
from perdure.errors import PerdureError

RETURNED = ("epoch", "confirmed_epoch", "head", "cancel_requested", "pause_requested", "interrupt_requested")
LONGEST_WAIT = 20.0  # seconds that the service holds a request for wake-ups


class Welcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker must know of the service. Its id ends with `.` and `tag`."""

    tag: str
    name: str
    now: int
    restore_epoch: int
    schema_version: int
    keeps_artifacts: bool


class WorkFailure(msgspec.Struct, frozen=True, omit_defaults=True):
    """An error of a move or a read."""

    type: str
    message: str
    hint: str = ""
    retry: bool = False
    details: dict[str, Any] = {}


class WorkAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of a move or a read, and the time of the store. `holder` is the holder as it is now."""

    now: int
    restore_epoch: int = 0
    value: Any = None
    holder: dict[str, Any] | None = None
    error: WorkFailure | None = None


class TopicsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The topics that may have changed, and the version from which to wait."""

    service: str
    version: int
    changed: list[str]


def failure_of(error: PerdureError) -> WorkFailure:
    details = {key: one for key, one in error.details.items() if isinstance(one, str | int | float | bool | None)}
    return WorkFailure(type(error).__name__, error.message, error.hint, error.retry, details)


def error_of(said: WorkFailure) -> PerdureError:
    """The error as the store would have raised it."""
    kind = error_types().get(said.type, PerdureError)
    made = kind(said.message, hint=said.hint or None, **said.details)
    made.retry = said.retry
    return made


@cache
def error_types() -> dict[str, type[PerdureError]]:
    kinds = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, PerdureError)]
    return {kind.__name__: kind for kind in kinds}


def shown_holder(holder: Holder) -> dict[str, Any]:
    """What a move may have changed of its holder."""
    return {name: encode_value(getattr(holder, name)) for name in RETURNED}


def update_holder(holder: Holder, shown: dict[str, Any]) -> None:
    """Take over what a move has changed of its holder; the end of the log only moves forward."""
    (cursor, chain) = shown["head"]["of"]
    holder.advance(cursor, chain)
    for name in RETURNED:
        if name != "head":
            setattr(holder, name, shown[name])
