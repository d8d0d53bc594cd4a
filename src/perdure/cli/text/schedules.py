"""Schedules in words: when they tick, what comes next, and what a person should know."""

from __future__ import annotations

from datetime import timedelta

from perdure.cli.text.plain import count, safe, short
from perdure.clock import format_time, span
from perdure.domain.schedule import Schedule
from perdure.domain.schedule_times import EPOCH, zone

DROPPED = 86400 * 1_000_000  # how long missed ticks are mentioned, in microseconds


def describe_times(one: Schedule) -> str:
    """When a schedule ticks, in words."""
    when = f"every {span(one.every)}" if one.every is not None else f"{safe(one.cron or '')} {safe(one.timezone)}"
    return when + (f", up to {span(one.jitter)} later" if one.jitter else "")


def describe_next(one: Schedule, now: int) -> str:
    if one.paused_at is not None or one.next_due is None:
        return ""
    return f"in {span(one.next_due - now)}" if one.next_due >= now else f"overdue by {span(now - one.next_due)}"


def describe_last(one: Schedule, now: int) -> str:
    started = one.outcomes.get("started")
    return "" if started is None else f"{span(max(0, now - started['tick']))} ago"


def describe_state(one: Schedule, now: int) -> str:
    """What a person should know about a schedule; empty if all is well."""
    skipped, dropped, refused = (one.outcomes.get(key) or {} for key in ("skipped", "dropped", "refused"))
    found = [] if one.paused_at is None else [f"paused for {span(max(0, now - one.paused_at))}"]
    if skipped.get("count"):
        found.append(f"{count(skipped['count'], 'tick')} skipped: {safe(skipped['session'])} has not ended")
    if refused:
        found.append(f"cannot start: {short(refused['error'], 120)}")
    if dropped and now - dropped["at"] < DROPPED:
        found.append(f"missed {format_time(dropped['first'])} to {format_time(dropped['tick'])}")
    return "; ".join(found)


def local_time(tick: int, one: Schedule) -> str:
    """A tick in the time zone of its schedule."""
    if one.timezone == "UTC" or one.cron is None:
        return ""
    return (EPOCH + timedelta(microseconds=tick)).astimezone(zone(one.timezone)).strftime("  %a %H:%M %Z")
