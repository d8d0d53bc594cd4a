"""A schedule: starts a session at certain times."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, ClassVar

from perdure.domain.record import Record


class Overlap(StrEnum):
    """What a tick does while a session of its schedule has not ended."""

    SKIP = "skip"  # it starts no session
    QUEUE = "queue"  # its session begins when those before it have ended
    CANCEL = "cancel"  # the session that has not ended is cancelled


class CatchUp(StrEnum):
    """Which ticks are made up that were missed, because no scheduler ran or the schedule was paused."""

    ALL = "all"
    LAST = "last"
    NONE = "none"


class TickOutcome(StrEnum):
    """The outcome of a tick."""

    STARTED = "started"
    SKIPPED = "skipped"  # a session of the schedule had not ended
    DROPPED = "dropped"  # it was missed and not made up
    REFUSED = "refused"  # its session could not be started; that is tried again


class Schedule(Record, frozen=True):
    """A row of `schedule`. It has a cron expression or a period; times and periods are in microseconds."""

    json_columns: ClassVar[frozenset[str]] = frozenset({"arguments", "options", "outcomes"})

    uid: str
    name: str
    cron: str | None
    every: int | None
    timezone: str
    jitter: int
    overlap: str  # skip, queue or cancel: what a tick does while a session of the schedule has not ended
    catch_up: str  # all, last or none: which of the ticks are made up that were missed
    program: str
    arguments: Any
    options: Any  # of the sessions that it starts: owner, repository, queue, priority, key, retries, timeout
    last_tick: int | None
    next_due: int | None
    paused_at: int | None
    removed_at: int | None
    version: int
    updated_by: str
    updated_at: int
    outcomes: Any  # the newest tick of each outcome: started, skipped, dropped, refused
