"""Findings about schedules: ticks that no process handles, that are refused, or that are skipped again and again."""

from __future__ import annotations

from collections.abc import Iterator

from perdure.clock import SECOND
from perdure.control.doctor.report import Finding, risk, stuck
from perdure.domain.schedule import Schedule, TickOutcome

LATE = 60 * SECOND  # longer than a service sleeps
OFTEN = 3  # skipped ticks in a row


def of_schedules(schedules: list[Schedule], now: int) -> Iterator[Finding]:
    """What is wrong with the schedules that are not paused."""
    for one in schedules:
        if one.paused_at is not None:
            continue
        if refused := one.outcomes.get(TickOutcome.REFUSED):
            yield stuck(
                f"Schedule {one.name} cannot start its session: {refused['error']}",
                "Remove the cause; it is tried again every minute.",
            )
        elif one.next_due is not None and now - one.next_due > LATE:
            minutes = (now - one.next_due) // LATE
            yield stuck(
                f"Schedule {one.name} is overdue by {minutes} minutes: no process handles schedules.",
                "Start `perdure worker` or `perdure serve`.",
            )
        skipped = one.outcomes.get(TickOutcome.SKIPPED) or {}
        if skipped.get("count", 0) >= OFTEN:
            yield risk(
                f"{skipped['count']} ticks of schedule {one.name} were skipped: {skipped['session']} has not ended.",
                f"See `perdure show {skipped['session']}`, or change --overlap of the schedule.",
            )
