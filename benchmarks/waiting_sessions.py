"""Many ready sessions, made by one statement for all: copies of one session that was created properly."""

from __future__ import annotations

import apsw
import psycopg

from perdure.domain.session import SessionRecord
from perdure.ids import new_uid
from perdure.store.moves import session
from perdure.store.moves.session import NewSession
from perdure.store.store import Store

PROGRAM = "bench_waiting"
OWNERS = 10
COPY = """
with recursive number (n) as (select {first} union all select n + 1 from number where n < {last})
insert into session ({names}) select {values} from number, session where session.id = 'template'
"""
OTHER = {
    "sqlite": {"uid": "printf('%032x', number.n)", "id": "'b-' || number.n", "turn": f"number.n / {OWNERS}"},
    "postgres": {"uid": "lpad(to_hex(number.n), 32, '0')", "id": "'b-' || number.n", "turn": f"number.n / {OWNERS}"},
}


class WaitingSessions:
    """So many ready sessions in a store; more can be added."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.count = 0
        new = NewSession(id="template", program=PROGRAM, arguments={})
        self._template = store.write_now(session.create(new, by="bench"))

    def grow(self, count: int) -> None:
        """Add sessions until there are so many."""
        if count <= self.count:
            return
        dialect = self._store.database.dialect
        names = SessionRecord.columns()
        other = OTHER[dialect] | {"status": "'ready'", "owner": f"'o-' || (number.n % {OWNERS})"}
        values = ", ".join(other.get(name, f"session.{name}") for name in names)
        statement = COPY.format(first=self.count + 1, last=count, names=", ".join(names), values=values)
        if dialect == "sqlite":
            with apsw.Connection(self._store.target) as db:
                db.execute(statement)
                db.execute("analyze session")
            db.close()
        else:
            with psycopg.connect(self._store.target, autocommit=True) as server:
                server.execute(statement)
                server.execute("vacuum (analyze) session")
        self.count = count


def nonce() -> str:
    return f"bench-{new_uid()}"
