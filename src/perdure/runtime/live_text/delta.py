"""A piece of live text, and what a watcher must know of the call that it belongs to."""

from __future__ import annotations

import msgspec

MOST = 1 << 20  # bytes of one answer; the rest is shown when it is recorded
POLL_INTERVAL = 0.05  # seconds between two looks of a watcher


class RetryNotice(msgspec.Struct, frozen=True):
    """The model could not answer, and is asked again: when, for which time of how many, and why."""

    due_at: int  # in microseconds on the clock of the store
    attempt: int
    most: int
    why: str
    requested: bool = False  # the provider asked for this delay


class Delta(msgspec.Struct, frozen=True):
    """A piece of a model's output, or the notice that it broke off or is retried: of which call, after which event."""

    session: str
    call: str
    after: int
    text: str = ""
    broke_off: bool = False
    retry: RetryNotice | None = None


class LiveTextHeader(msgspec.Struct, frozen=True, omit_defaults=True):
    """The first line of a file."""

    call: str
    after: int
    retry: RetryNotice | None = None
