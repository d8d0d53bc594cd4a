"""What people do with many sessions at once, and which sessions that does not fit. It is for previews: the move itself
has the last word."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from perdure.domain.session import TERMINAL, SessionRecord, Status
from perdure.domain.wait import Wait, WaitKind
from perdure.errors import PerdureError, StoreError
from perdure.runtime.definitions.program import get_program
from perdure.store.move import StoreTransaction
from perdure.store.moves import session_retry
from perdure.store.moves.session_end import is_message_wait


class SessionChange(StrEnum):
    """A change that is made to many sessions."""

    CANCEL = "cancel"
    PAUSE = "pause"
    RESUME = "resume"
    RETRY = "retry"
    ARCHIVE = "archive"


HELD = frozenset({WaitKind.PAUSED, WaitKind.QUARANTINE, WaitKind.CHILD})  # what a resume ends, here or in a child


def objection(tx: StoreTransaction, change: SessionChange, one: SessionRecord, waits: Sequence[Wait]) -> str | None:
    """Why a change does not fit a session as it is; None: it does."""
    if one.sealed_at is not None:
        return "It continues in another store."
    match change:
        case SessionChange.CANCEL | SessionChange.PAUSE if one.status in TERMINAL:
            return f"It has ended: it is {one.status}."
        case SessionChange.CANCEL if one.cancel_requested_at is not None:
            return "It was asked to end already."
        case SessionChange.PAUSE if one.pause_requested_at is not None or _waits_for(waits, WaitKind.PAUSED):
            return "It is paused already, or pauses after what it does now."
        case SessionChange.RESUME if not _is_held(one, waits):
            return f"It is {one.status}, and nothing holds it that a resume ends."
        case SessionChange.RETRY:
            return _retry_objection(tx, one, waits)
        case SessionChange.ARCHIVE if one.archived_at is not None:
            return "It is archived already."
        case SessionChange.ARCHIVE if one.status not in TERMINAL and not _rests(one, waits):
            return f"It is {one.status}, and does not only wait for a message."
    return None


def _retry_objection(tx: StoreTransaction, one: SessionRecord, waits: Sequence[Wait]) -> str | None:
    if any(asked.retry_numbers is not None for asked in waits):
        return None
    try:
        session_retry.check(tx, one)
        get_program(one.program)
    except StoreError:
        raise
    except PerdureError as error:
        return error.message
    return None


def _waits_for(waits: Sequence[Wait], kind: WaitKind) -> bool:
    return any(one.kind == kind for one in waits)


def _is_held(one: SessionRecord, waits: Sequence[Wait]) -> bool:
    requested = one.pause_requested_at is not None or one.interrupt_requested_at is not None
    return one.status not in TERMINAL and (
        requested or any(asked.kind in HELD or asked.is_for_other_code for asked in waits)
    )


def _rests(one: SessionRecord, waits: Sequence[Wait]) -> bool:
    return one.status == Status.WAITING and all(map(is_message_wait, waits))
