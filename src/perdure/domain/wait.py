"""A wait: one thing a waiting session waits for. Resolved once, then kept as the record of the answer."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, ClassVar

from perdure.domain.record import Record


class WaitKind(StrEnum):
    APPROVAL = "approval"
    INPUT = "input"
    TIMER = "timer"
    DOUBT = "doubt"
    EFFECT = "effect"
    LEASE = "lease"
    CHILD = "child"
    PAUSED = "paused"
    PROGRAM = "program"
    POLICY = "policy"
    QUARANTINE = "quarantine"
    SLOT = "slot"
    WORKSPACE = "workspace"
    BUDGET = "budget"


FOR_A_PERSON = frozenset(
    {
        WaitKind.APPROVAL,
        WaitKind.INPUT,
        WaitKind.DOUBT,
        WaitKind.PAUSED,
        WaitKind.PROGRAM,
        WaitKind.POLICY,
        WaitKind.QUARANTINE,
        WaitKind.WORKSPACE,
        WaitKind.BUDGET,
    }
)


RETRY = "retry"  # the ids of waits before a retry without a person begin with it


def needs_person(kind: str, ref: str | None, detail: Any) -> bool:
    """Whether a wait keeps work from continuing until a person acts.

    An agent that has answered waits for the next message, without a reason in `detail`: its work is done for now.
    """
    is_answered = kind == WaitKind.INPUT and ref is None and detail is None
    return kind in FOR_A_PERSON and not is_answered


class Wait(Record, frozen=True):
    """A row of `wait`; the numbers are those of the events that opened and resolved it."""

    json_columns: ClassVar[frozenset[str]] = frozenset({"detail", "answer"})

    session_uid: str
    id: str
    kind: str
    ref: str | None
    detail: Any
    due_at: int | None
    since: int
    answer: Any
    resolved_by: str | None
    resolved_at: int | None
    number: int
    resolved_number: int | None

    @property
    def versions_tried(self) -> frozenset[str]:
        """Of a wait for `program`: the versions of the code that the records of the session do not fit."""
        found = self.detail.get("versions") if isinstance(self.detail, dict) else None
        return frozenset(map(str, found)) if isinstance(found, list) else frozenset()

    @property
    def restart_tried(self) -> int | None:
        """Of such a wait: the restart of the program whose records they are."""
        return self.detail.get("restart") if isinstance(self.detail, dict) else None

    @property
    def is_for_other_code(self) -> bool:
        """Whether it is for code that fits the records, and not for the version that the session is pinned to."""
        return self.kind == WaitKind.PROGRAM and bool(self.versions_tried) and "pinned" not in self.detail

    @property
    def is_of_program(self) -> bool:
        """Whether it is for a message to a program (`s.receive`), and not to an agent."""
        return self.kind == WaitKind.INPUT and isinstance(self.detail, dict) and "receive" in self.detail

    @property
    def retry_numbers(self) -> tuple[int, int] | None:
        """For a wait before a retry without a person: which retry it is, and of how many."""
        detail = self.detail if self.kind == WaitKind.TIMER and isinstance(self.detail, dict) else {}
        number, most = detail.get("retry"), detail.get("of")
        return (number, most) if isinstance(number, int) and isinstance(most, int) else None
