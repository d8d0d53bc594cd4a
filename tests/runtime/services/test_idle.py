"""What a worker costs that has nothing to do: few statements a minute, however many sessions wait."""

from __future__ import annotations

import asyncio
import selectors
from collections import Counter
from collections.abc import Callable
from typing import Any

import apsw
import psycopg
import pytest

from perdure import Session, program
from perdure.clock import SECOND
from perdure.runtime.runtime import Runtime
from perdure.runtime.workers.worker import Worker
from perdure.store.databases.postgres.pipeline import StatementPipeline, numbered_statement
from perdure.store.moves import session
from perdure.store.moves.session import NewSession
from perdure.store.store import open_store
from perdure.testing import ManualClock

CONTROL = (  # what belongs to a transaction, whatever it does
    "BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE", "PRAGMA", "LISTEN", "select value from meta where key",
    "select perdure_same_server", "select perdure_check_schema", "select current_setting('synchronous_commit')",
)  # fmt: skip
GRACE = 0.004  # real seconds in which a statement that was sent is answered
MINUTES = 10


@program
async def idle_sleeper(s: Session) -> None:
    await s.sleep(days=30)


class SimulatedTime(selectors.DefaultSelector):
    """Lets the clock jump to the next timer when nothing else happens."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self._clock = clock
        self._passed = 0.0

    def time(self) -> float:
        return self._passed

    def select(self, timeout: float | None = None) -> Any:
        found = super().select(timeout if timeout is None else min(timeout, GRACE))
        if found or timeout is None:
            return found
        self._passed += timeout
        self._clock.advance(seconds=timeout)
        return []


class Statements:
    """The statements that are sent to a database, by their first words."""

    def __init__(self) -> None:
        self.found: Counter[str] = Counter()

    def note(self, sql: Any, *_: Any) -> bool:
        words = " ".join(str(sql.decode() if isinstance(sql, bytes) else sql).split()[:12])
        if not words.startswith(CONTROL):
            self.found[words] += 1
        return True


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> Statements:
    noted = Statements()

    def hook(db: apsw.Connection) -> None:
        db.exec_trace = lambda _cursor, sql, _values: noted.note(sql)

    def counted(original: Callable[..., Any], sql_of: Callable[[Any], Any]) -> Callable[..., Any]:
        def send(db: Any, statement: Any, *values: Any, **options: Any) -> Any:
            noted.note(sql_of(statement))
            return original(db, statement, *values, **options)

        return send

    monkeypatch.setattr(apsw, "connection_hooks", [*apsw.connection_hooks, hook])
    monkeypatch.setattr(psycopg.Connection, "execute", counted(psycopg.Connection.execute, lambda sql: sql))
    for name in ("send", "run_alone"):
        sent = counted(getattr(StatementPipeline, name), lambda name: numbered_statement(name)[0])
        monkeypatch.setattr(StatementPipeline, name, sent)
    return noted


def cost_of_idling(runtime: Runtime, clock: ManualClock, statements: Statements) -> Counter[str]:
    """The statements of a worker that has nothing to do for `MINUTES`."""
    selector = SimulatedTime(clock)
    loop = asyncio.SelectorEventLoop(selector)
    loop.time = selector.time  # type: ignore[method-assign]

    async def idle() -> Counter[str]:
        async with Worker(runtime) as worker:
            await worker.idle()
            await asyncio.sleep(5)
            before = statements.found.copy()
            await asyncio.sleep(MINUTES * 60)
            return statements.found - before

    try:
        return loop.run_until_complete(idle())
    finally:
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


def start_waiting(target: str, clock: ManualClock, count: int) -> None:
    """Sessions that wait for a time in a month: one that was started, and copies of its rows."""
    later = clock.now() + 30 * 24 * 3600 * SECOND
    with open_store(target, clock=clock) as store:
        new = NewSession(id="s", program="idle_sleeper", arguments={}, not_before=later)
        store.write_now(session.create(new, by="ada"))
    if target.startswith("postgresql:"):
        return
    db = apsw.Connection(target)
    for table, key in (("session", "uid"), ("wait", "session_uid")):
        names = [row[1] for row in db.execute(f"pragma table_info({table})")]
        copied = {key: "printf('%032d', nth)"} | ({"id": "'s' || nth"} if table == "session" else {})
        db.execute(
            f"with recursive n (nth) as (select 1 union all select nth + 1 from n where nth < {count}) "
            f"insert into {table} ({', '.join(names)}) "
            f"select {', '.join(copied.get(name, name) for name in names)} from {table}, n"
        )
    db.close()


@pytest.mark.databases("sqlite", "postgres")
@pytest.mark.slow
def test_an_idle_worker_makes_few_statements_however_many_sessions_wait(target: str, statements: Statements) -> None:
    clock = ManualClock()
    start_waiting(target, clock, 10_000)
    runtime = Runtime(open_store(target, clock=clock), policy=None)
    found = cost_of_idling(runtime, clock, statements)
    runtime.close()
    assert found.total() <= 6 * MINUTES, found
