"""How much a queue got done, and how long its sessions took: numbers from the sessions that ended lately. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from perdure.clock import SECOND

HOUR = 3600 * SECOND
DAY = 24 * HOUR
PARTS = {HOUR: HOUR // 12, DAY: HOUR}  # how each time is divided


class EndedSession(msgspec.Struct, frozen=True):
    """A session that has ended. It could begin at `ready_at`; one that was cancelled before may never have begun."""

    queue: str
    status: str
    ready_at: int
    started_at: int | None
    ended_at: int


class LatencyWindow(msgspec.Struct, frozen=True, kw_only=True):
    """The sessions that ended within some time. Times are in microseconds, and null without a session to measure."""

    seconds: int
    ended: int = 0
    done: int = 0
    failed: int = 0
    cancelled: int = 0
    wait_p50: int | None = None  # from when it could begin until it began
    wait_p95: int | None = None
    run_p50: int | None = None  # from then until it ended, with all that it waited for
    run_p95: int | None = None
    parts: list[int] = []  # sessions that ended in each part of the time, the oldest first


class QueueLatency(msgspec.Struct, frozen=True, kw_only=True):
    """Throughput and latency of a queue over an hour and over a day.

    Not `is_complete`: so many sessions changed that only the last of them were read, and the numbers are of those.
    """

    name: str
    at: int
    hour: LatencyWindow
    day: LatencyWindow
    is_complete: bool = True


def summary(name: str, ended: Sequence[EndedSession], now: int, *, is_complete: bool = True) -> QueueLatency:
    """The numbers of a queue; `ended` are its own sessions."""
    return QueueLatency(
        name=name, at=now, hour=_window(ended, now, HOUR), day=_window(ended, now, DAY), is_complete=is_complete
    )


def _window(ended: Iterable[EndedSession], now: int, length: int) -> LatencyWindow:
    found = [one for one in ended if now - length < one.ended_at <= now]
    parts = [0] * (length // PARTS[length])
    for one in found:
        parts[len(parts) - 1 - (now - one.ended_at) // PARTS[length]] += 1
    begun = [(one.ready_at, one.started_at, one.ended_at) for one in found if one.started_at is not None]
    waits = sorted(max(0, started - ready) for ready, started, _ in begun)
    runs = sorted(max(0, end - started) for _, started, end in begun)
    statuses = [one.status for one in found]
    return LatencyWindow(
        seconds=length // SECOND, ended=len(found), done=statuses.count("done"), failed=statuses.count("failed"),
        cancelled=statuses.count("cancelled"), wait_p50=quantile(waits, 50), wait_p95=quantile(waits, 95),
        run_p50=quantile(runs, 50), run_p95=quantile(runs, 95), parts=parts,
    )  # fmt: skip


def quantile(ordered: Sequence[int], percent: int) -> int | None:
    """The smallest of the values that at least so many percent of them do not exceed; None if there are none."""
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)] if ordered else None
