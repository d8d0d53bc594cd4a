"""The agent, killed at every durable operation and around every act, on both databases."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from perdure.testing import Sink
from perdure.testing.postgres import PostgresServer
from perdure.testing.sweep.report import Report
from perdure.testing.sweep.server_pool import ServerPool
from perdure.testing.sweep.sweep import Sweep
from tests.agent import swept
from tests.seed import sample


@pytest.fixture(scope="module")
def pool() -> Iterator[ServerPool]:
    with ServerPool("tests.agent.swept", "perdure.store.databases.postgres.database", count=3) as running:
        yield running


def sweep(pool: ServerPool, sink: Sink, store: str | Path, place: Path) -> Sweep:
    environment = {swept.REPOSITORIES: str(place / "repositories")}
    return Sweep(
        pool, swept.fixer.bind("fix add", True), sink, store, name="the agent", environment=environment,
        script=swept.run_agent, person=swept.attend,
    )  # fmt: skip


def show(report: Report, where: str) -> Report:
    found = ", ".join(f"{head} {count}" for head, count in report.counts.items()) or "nothing wrong"
    print(f"the agent on {where}: {report.kills} kills in {report.seconds:.0f} s, {found}", file=sys.stderr)
    return report


def durable(moments: list[str]) -> list[int]:
    """After every commit, and around every act; until the next of these, nothing more is durable. Soak takes all."""
    return [at for at, label in enumerate(moments, 1) if not label.startswith(("move.", "answer.", "commit.before"))]


def some(most: int) -> Callable[[list[str]], Iterable[int]]:
    return lambda moments: sample(durable(moments), most)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_an_agent_killed_anywhere_does_everything_once_on_sqlite(pool: ServerPool, sink: Sink, place: Path) -> None:
    report = show(sweep(pool, sink, place / "stores", place).run(choose=some(16)), "SQLite")
    assert not report.failures, "\n".join(report.failures)
    assert report.kills > 3 * report.unreached


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.postgres
def test_an_agent_killed_anywhere_does_everything_once_on_postgres(
    pool: ServerPool, sink: Sink, place: Path, postgres_server: PostgresServer
) -> None:
    url = postgres_server.create_database("agent")
    report = show(sweep(pool, sink, url, place).run(choose=some(5)), "PostgreSQL")
    assert not report.failures, "\n".join(report.failures)
    assert report.kills > 3 * report.unreached


@pytest.mark.soak
def test_an_agent_killed_anywhere_and_again_in_its_recovery(pool: ServerPool, sink: Sink, place: Path) -> None:
    report = show(sweep(pool, sink, place / "again", place).run(twice=True), "SQLite, killed twice")
    assert not report.failures, "\n".join(report.failures)
