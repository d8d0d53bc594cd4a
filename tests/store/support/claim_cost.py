"""What a claim costs with many waiting sessions: the rows that the database reads for it."""

from __future__ import annotations

from typing import Any

from perdure.ids import new_uid
from perdure.store.move import Move, StoreTransaction
from perdure.store.moves.claim import Claim, ClaimRequest, claim
from perdure.store.store import Store
from tests.store.support.sessions import TTL, connection_of, raw

# Two columns of the sessions differ: the program and the owner. Their logs are empty: a claim writes the first event.
MANY_SESSIONS = """
insert into session (
    uid, id, program, arguments, owner, queue, priority, status, cursor, chain, branch, lease_epoch, restart_number,
    crash_count, tokens_in, tokens_out, cost_micros, created_at, updated_at, version, turn
)
with recursive number (n) as (select {first} union all select n + 1 from number where n + 1 < {count})
select substr('00000000000000000000000000000000' || cast(n as text), -32), 'waiting-' || cast(n as text),
    'program-' || cast(n % {programs} as text), '{{}}', 'owner-' || cast(n % 7 as text), 'default', 0, 'ready', 0,
    'chain', 'main', 0, 0, 0, 0, 0, 0, 1, 1, 1, n / 7
from number
"""
POSTGRES_ROWS = """
select coalesce(sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)), 0) from pg_stat_xact_user_tables
where relname in ('session', 'queue', 'wait')
"""


def many_sessions(store: Store, count: int, programs: int = 1, first: int = 0) -> None:
    """Make sessions ready, without their logs."""
    text = MANY_SESSIONS.format(count=first + count, programs=programs, first=first)
    if store.database.dialect == "postgres":
        text = text.replace("substr(", "right(").replace(", -32)", ", 32)")
    raw(store, text)
    if store.database.dialect == "postgres":
        raw(store, "analyze session")  # as the server does by itself after many changes, but not at once


def cost_of_claim(store: Store, programs: int = 1, limit: int = 10) -> tuple[Claim, int]:
    """One claim, and what it read: rows on PostgreSQL, steps of the virtual machine on SQLite."""
    names = frozenset(f"program-{number}" for number in range(programs))
    asked = ClaimRequest(worker="w", nonce=new_uid(), is_first=True, programs=names, limit=limit, ttl=TTL)
    move = claim(asked)
    measure = _rows if store.database.dialect == "postgres" else _steps
    return store.write_now(Move("claim.cost", "plain", lambda tx: measure(tx, move)))


def _rows(tx: StoreTransaction, move: Move[Claim]) -> tuple[Claim, int]:
    """Count the rows that queries read. Updates and checks of foreign keys read each claimed row again."""
    read, query = [0], tx.all

    def count() -> int:
        return int(connection_of(tx).execute(POSTGRES_ROWS).fetchone()[0])

    def counted(name: str, /, **values: Any) -> list[tuple[Any, ...]]:
        before = count()  # this also runs what was sent before
        rows = query(name, **values)
        read[0] += count() - before
        return rows

    tx.all = counted  # type: ignore[method-assign]
    return move.run(tx), read[0]


def _steps(tx: StoreTransaction, move: Move[Claim]) -> tuple[Claim, int]:
    import apsw

    db, steps = connection_of(tx), [0]

    def count(event: dict[str, Any]) -> None:
        steps[0] += event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]

    db.trace_v2(apsw.SQLITE_TRACE_PROFILE, count)
    try:
        return move.run(tx), steps[0]
    finally:
        db.trace_v2(0, None)
