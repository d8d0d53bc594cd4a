"""Many sessions on workers that die at random: nothing is doubled, lost, stuck, over a limit or left running."""

from __future__ import annotations

import os
from pathlib import Path

import psycopg
import pytest

from perdure.testing.postgres import PostgresServer
from tests.crash.control.support.audit import LeaseEvent, QueueLimits, Verdict, over_limits
from tests.crash.control.support.soak import Soak
from tests.figures import record
from tests.seed import chance

SESSIONS, WORKERS = (
    int(os.environ.get(name, most)) for name, most in (("SOAK_SESSIONS", "2000"), ("SOAK_WORKERS", "8"))
)
HEADS = ("workers", "sessions", "seconds", "deaths", "doubled", "lost", "stuck", "over a limit", "orphans")


def report(name: str, verdict: Verdict) -> None:
    """Add the figures of a soak to those that are printed at the end."""
    found = (verdict.doubled, verdict.lost, verdict.stuck, verdict.over, verdict.orphans)
    deaths = ", ".join(f"{number} {what}" for what, number in sorted(verdict.deaths.items()))
    cells = (verdict.workers, verdict.sessions, verdict.seconds, deaths, *(len(one) for one in found))
    record("control plane under deaths", HEADS, (name, *cells))


@pytest.fixture
def timed_server(victim: PostgresServer) -> PostgresServer:
    """A server that records the time of each commit."""
    with psycopg.connect(victim.url, autocommit=True) as db:
        if db.execute("show track_commit_timestamp").fetchone() != ("on",):
            db.execute("alter system set track_commit_timestamp = on")
            victim.restart()
    return victim


@pytest.mark.slow
def test_sessions_survive_deaths_of_workers_on_sqlite(tmp_path: Path) -> None:
    soak = Soak(tmp_path, str(tmp_path / "perdure.db"), workers=3, sessions=40, lease=2, chance=chance())
    verdict = soak.run(patience=90, pause=1, rounds=1)
    report("SQLite", verdict)
    assert verdict.wrong == []


@pytest.mark.postgres
@pytest.mark.slow
def test_sessions_survive_deaths_of_workers_and_server(timed_server: PostgresServer, tmp_path: Path) -> None:
    url = timed_server.create_database()
    soak = Soak(tmp_path, url, workers=3, sessions=60, lease=2, chance=chance(), server=timed_server)
    verdict = soak.run(patience=90, pause=1, rounds=1)
    report("PostgreSQL", verdict)
    assert verdict.wrong == []


@pytest.mark.soak
def test_many_sessions_survive_many_deaths_on_sqlite(tmp_path: Path) -> None:
    target = str(tmp_path / "perdure.db")
    soak = Soak(tmp_path, target, workers=WORKERS, sessions=SESSIONS, lease=3, chance=chance())
    verdict = soak.run(patience=3600, pause=4)
    report("SQLite, long", verdict)
    assert verdict.wrong == []


@pytest.mark.postgres
@pytest.mark.soak
def test_many_sessions_survive_many_deaths_on_postgres(timed_server: PostgresServer, tmp_path: Path) -> None:
    url = timed_server.create_database()
    soak = Soak(
        tmp_path, url, workers=WORKERS, sessions=SESSIONS, lease=3, chance=chance(), server=timed_server
    )  # fmt: skip
    verdict = soak.run(patience=3600, pause=4)
    report("PostgreSQL, long", verdict)
    assert verdict.wrong == []


def test_audit_finds_two_sessions_in_one_slot() -> None:
    """The positive control: two runs overlap in a queue that allows one."""
    begin = [LeaseEvent(n, f"u-{n}", "lease.acquired", "q", "k") for n in (1, 2)]
    end = LeaseEvent(3, "u-1", "session.finished", "q", "k")
    assert over_limits([begin[0], end, begin[1]], {"q": QueueLimits(1, 1)}) == ([], {"q": 1})
    wrong, most = over_limits([*begin, end], {"q": QueueLimits(1, 1)})
    assert (len(wrong), most) == (2, {"q": 2})
