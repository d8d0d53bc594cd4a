"""A tick is handled once, also by a scheduler that read the schedule before another one handled the tick."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.clock import SECOND
from perdure.domain.schedule import Schedule, TickOutcome
from perdure.domain.session import Status
from perdure.store.moves import lease, schedule, session
from perdure.store.moves.session import NewSession
from perdure.store.store import Store
from tests.store.support.sessions import TTL

MINUTE = 60 * SECOND
DEFINITION: dict[str, Any] = {
    "cron": None, "every": MINUTE, "timezone": "UTC", "jitter": 0, "overlap": "skip", "catch_up": "all",
    "program": "report", "arguments": {}, "options": {},
}  # fmt: skip


def build(found: Schedule, _now: int, tick: int, id: str, uid: str) -> NewSession:
    return NewSession(id=id, uid=uid, program="report", arguments={}, schedule_uid=found.uid, scheduled_at=tick)


@pytest.mark.databases("sqlite", "postgres")
def test_skipped_tick_is_not_started_by_a_later_scheduler(store: Store) -> None:
    made = store.write_now(schedule.put("job", DEFINITION, by="ada"))
    first, second = ((made.last_tick or 0) + count * MINUTE for count in (1, 2))
    started = store.write_now(schedule.start_tick(made.uid, made.version, first, build))
    skipped = store.write_now(schedule.start_tick(made.uid, made.version, second, build))
    assert started is not None
    assert skipped is not None
    assert [started.outcome, skipped.outcome] == [TickOutcome.STARTED, TickOutcome.SKIPPED]
    uid = store.read_now(session.get_by_id, started.session).uid
    store.write_now(session.finish(store.write_now(lease.acquire(uid, "w", nonce="n", ttl=TTL)), Status.DONE))
    for tick in (first, second):
        assert store.write_now(schedule.start_tick(made.uid, made.version, tick, build)) is None
    assert store.read_now(session.count) == {"done": 1}
