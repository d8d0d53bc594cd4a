"""Programs that go on after a restore: the store was put back before they had done anything, as far as it knows."""

from __future__ import annotations

from typing import Any

from perdure.domain.restore import Cause
from perdure.runtime.program import Bound
from perdure.runtime.runtime import Runtime, SessionView
from perdure.runtime.runtime import open as open_runtime
from perdure.store import restore
from perdure.store.move import Transaction, plain_move
from perdure.testing.trial import Person, see_through
from tests.ledger import programs

__all__ = ["programs", "put_back_first"]


@plain_move
def put_back(tx: Transaction) -> None:
    if restore.newest(tx) is None:
        restore.begin(tx, Cause.DECLARED, "for a test")


async def put_back_first(runtime: Runtime, bound: Bound[Any], name: str, person: Person) -> list[SessionView]:
    """Begin a session, put the store back, and see the session through in a store that was opened since."""
    session = await runtime.start(bound, id=name)
    await runtime.store.write(put_back())
    async with open_runtime(runtime.store.target, lease="1s", connections=2) as since:
        return [await see_through(since, session.id, person)]
