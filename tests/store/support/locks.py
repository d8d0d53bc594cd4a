"""Who waits for whom on PostgreSQL."""

from __future__ import annotations

import psycopg

WAITING = "select count(*) from pg_stat_activity where %s = any(pg_blocking_pids(pid))"


def is_waited_for(target: str, process: int) -> bool:
    """Whether anything waits for a lock of this process of the server.

    While the transaction of that process is held open this is no passing state, as a wait for any lock may be.
    """
    with psycopg.connect(target, autocommit=True) as db:
        return db.execute(WAITING, [process]).fetchone() != (0,)
