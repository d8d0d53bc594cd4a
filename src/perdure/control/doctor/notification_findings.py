"""Findings about notifications: what people were not told."""

from __future__ import annotations

from collections.abc import Iterator

from perdure.control.doctor.report import Finding, note, risk
from perdure.store.moves.notification import ChannelCounts


def of_notifications(channels: list[ChannelCounts]) -> Iterator[Finding]:
    for one in channels:
        why = f" The last error: {one.error}." if one.error else ""
        if one.failed:
            yield risk(
                f"{one.failed} {'notification was' if one.failed == 1 else 'notifications were'} given up on the "
                f"channel {one.channel}.{why}",
                "Correct the settings of the channel, try `perdure notifications test NAME`, and send them again with "
                "`perdure notifications retry`.",
            )
        if one.waiting and one.error:
            yield risk(
                f"{one.waiting} {'notification waits' if one.waiting == 1 else 'notifications wait'} for the next "
                f"attempt on the channel {one.channel}.{why}",
                "Nothing is lost; `perdure notifications test NAME` shows whether the channel works.",
            )
        elif one.waiting:
            yield note(
                f"No process sends to the channel {one.channel}: {one.waiting} wait for it.",
                "Start a worker whose setting `notifications` describes it, or `perdure notifications rm NAME`.",
            )
