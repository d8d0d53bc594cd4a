"""What the doctor reports about schedules."""

from typing import Any

import msgspec
import pytest

from perdure.clock import SECOND
from perdure.control.doctor.schedule_findings import of_schedules
from perdure.store.moves import schedule
from perdure.store.store import Store

HOUR = 3600 * SECOND
DEFINITION: dict[str, Any] = {
    "cron": None, "every": HOUR, "timezone": "UTC", "jitter": 0, "overlap": "skip", "catch_up": "last",
    "program": "p", "arguments": {}, "options": {},
}  # fmt: skip


@pytest.mark.databases("memory")
def test_overdue_skipped_and_refused_schedules_are_found(store: Store) -> None:
    made = store.write_now(schedule.put("nightly", DEFINITION, by="ada"))

    def found(**columns: object) -> list[tuple[str, str]]:
        rows = of_schedules([msgspec.structs.replace(made, **columns)], 10 * HOUR)
        return [(one.level, one.what) for one in rows]

    assert found(next_due=10 * HOUR - 60 * SECOND) == []
    assert found(next_due=9 * HOUR, paused_at=1) == []
    overdue = "Schedule nightly is overdue by 60 minutes: no process handles schedules."
    assert found(next_due=9 * HOUR) == [("stuck", overdue)]
    skipped = {"skipped": {"count": 3, "session": "s-1", "tick": 0, "at": 0}}
    said = "3 ticks of schedule nightly were skipped: s-1 has not ended."
    assert found(next_due=11 * HOUR, outcomes=skipped) == [("risk", said)]
    refused = {"refused": {"error": "The queue is full.", "at": 0}}
    said = "Schedule nightly cannot start its session: The queue is full."
    assert found(next_due=9 * HOUR, outcomes=refused) == [("stuck", said)]
