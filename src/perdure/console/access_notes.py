"""Who looked: transcripts and approvals that a person read in the console, where the policy asks for a record of it.

An open page reads itself again and again. One reader of one thing is recorded once in each process and hour,
before it is shown; a read that cannot be recorded is refused.
"""

from __future__ import annotations

from collections.abc import Iterable

from perdure.clock import SECOND, Clock
from perdure.server.operation import ShownRead

HOUR = 3600 * SECOND
KEPT = 10_000  # reads that are remembered


class AccessNotes:
    """The reads of people that this process has recorded lately."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._noted: dict[tuple[str, ShownRead], int] = {}

    def is_noted(self, identity: str, one: ShownRead) -> bool:
        """Whether it was recorded within the hour."""
        return self._clock.now() - self._noted.get((identity, one), -HOUR) < HOUR

    def note(self, identity: str, read: Iterable[ShownRead]) -> None:
        """These were recorded now."""
        for one in read:
            self._noted.pop((identity, one), None)
            self._noted[identity, one] = self._clock.now()
        while len(self._noted) > KEPT:
            del self._noted[next(iter(self._noted))]
