"""Programs that go on after a restore: the store was put back before they had done anything, as far as it knows.

`put_back_first`: nothing was done in the time that was lost. `put_back_after`: everything was done in it, in a copy of
the store that no later process opens.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw

from perdure import Session, program
from perdure.domain.restore import Cause
from perdure.runtime.definitions.program import Bound
from perdure.runtime.runtime import Runtime, SessionView
from perdure.runtime.runtime import open as open_runtime
from perdure.store.move import Transaction, plain_move
from perdure.store.moves import restore
from perdure.testing.sweep.trial import Person, see_through
from tests.ledger import programs
from tests.ledger.programs import comment, mail

__all__ = ["family", "programs", "put_back_after", "put_back_first"]


@program
async def grandchild(s: Session, n: int) -> str:
    return (await s.do(mail, n=n))["id"]


@program
async def middle(s: Session, n: int) -> list[str]:
    return [(await s.do(comment, n=n))["id"], await s.child(grandchild.bind(n=n))]


@program
async def family(s: Session, n: int) -> list[str]:
    return await s.child(middle.bind(n=n))


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


async def put_back_after(runtime: Runtime, bound: Bound[Any], name: str, person: Person) -> list[SessionView]:
    """Begin a session, see it through in a copy of the store, and then do as if the copy had never been."""
    session = await runtime.start(bound, id=name)
    if await runtime.store.read(restore.newest) is None:
        path = Path(str(runtime.store.target))
        if not (lost := path.with_name("lost.db")).exists():
            _copy(path, lost)
        async with open_runtime(lost, lease="1s", connections=2) as before:
            await see_through(before, session.id, person)
    return await put_back_first(runtime, bound, name, person)


def _copy(path: Path, to: Path) -> None:
    unfinished = to.with_suffix(".copying")
    unfinished.unlink(missing_ok=True)
    source, copy = apsw.Connection(str(path)), apsw.Connection(str(unfinished))
    with copy.backup("main", source, "main") as pages:
        pages.step()
    copy.close()
    source.close()
    unfinished.rename(to)
