"""`rt.audit`: the questions of an audit from a program."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

import perdure
from perdure.errors import ConfigError, NotFound
from perdure.evaluation.audit.history import write_history
from perdure.runtime.audit import read_range
from perdure.store.store import open_store


@pytest.mark.databases("sqlite", "postgres")
async def test_a_program_asks_for_rows_with_named_columns(target: str) -> None:
    with open_store(target) as store:
        made = write_history(store, events=4_000, recent=2_000)
    async with perdure.open(target) as rt:
        assert "failed-runs" in [one.name for one in rt.audit_questions()]
        rows = [row async for row in rt.audit("failed-runs", since=made.since, tool="call_api")]
        assert {(row["session"], row["tool"]) for row in rows} == {
            one for one in made.truth["failed-runs"] if one[1] == "call_api"
        }
        assert dict(rows[0]) == rows[0].to_dict()
        assert len([row async for row in rt.audit("incidents", limit=3)]) == 3
        assert {one.tool async for one in rt.effects(reach="outside", target="branch:main")} == {"git_push"}
        assert {one.tool async for one in rt.effects(reach="machine", target="branch:main")} == set()
        assert {one.reach async for one in rt.effects(reach="workspace")} == {"workspace"}
        assert (await rt.audit_report(since=made.since)).count("<svg") == 4
        with pytest.raises(NotFound):
            _ = [row async for row in rt.audit("nonsense")]


def test_times_of_a_range_are_read_in_each_form() -> None:
    day = datetime(2026, 1, 2, tzinfo=UTC)
    micros = int(day.timestamp()) * 1_000_000
    for given in (day, micros, "2026-01-02", "2026-01-02T00:00:00+00:00", "2026-01-02T01:00:00+01:00"):
        assert read_range(given, None, 0).since == micros
    assert read_range("1h", "30m", 2 * micros).until - read_range("1h", None, 2 * micros).since == 1800 * 1_000_000
    for wrong in ("yesterday", 1.5, True):
        with pytest.raises(ConfigError):
            read_range(wrong, None, micros)  # type: ignore[arg-type]
