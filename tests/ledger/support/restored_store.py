"""Programs that continue after a restore to a time before they had done anything.

`restore_first`: nothing was done in the time that was lost. `restore_after`: everything was done in it, in a copy of
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
from perdure.store.move import StoreTransaction, plain_move
from perdure.store.moves import restore
from perdure.testing.sweep.trial import Person, run_to_end
from tests.ledger.support import programs
from tests.ledger.support.programs import comment, mail

__all__ = ["family", "programs", "restore_after", "restore_first"]


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
def restore_store(tx: StoreTransaction) -> None:
    if restore.newest(tx) is None:
        restore.begin(tx, Cause.DECLARED, "for a test")


async def restore_first(runtime: Runtime, bound: Bound[Any], name: str, person: Person) -> list[SessionView]:
    """Start a session, declare a restore, and run the session to its end in a store that was opened after it."""
    session = await runtime.start(bound, id=name)
    await runtime.store.write(restore_store())
    async with open_runtime(runtime.store.target, lease="1s", connections=2) as since:
        return [await run_to_end(since, session.id, person)]


async def restore_after(runtime: Runtime, bound: Bound[Any], name: str, person: Person) -> list[SessionView]:
    """Start a session, run it to its end in a copy of the store, and continue as if the copy had never existed."""
    session = await runtime.start(bound, id=name)
    if await runtime.store.read(restore.newest) is None:
        path = Path(str(runtime.store.target))
        if not (lost := path.with_name("lost.db")).exists():
            _copy(path, lost)
        async with open_runtime(lost, lease="1s", connections=2) as before:
            await run_to_end(before, session.id, person)
    return await restore_first(runtime, bound, name, person)


def _copy(path: Path, to: Path) -> None:
    unfinished = to.with_suffix(".copying")
    unfinished.unlink(missing_ok=True)
    source, copy = apsw.Connection(str(path)), apsw.Connection(str(unfinished))
    with copy.backup("main", source, "main") as pages:
        pages.step()
    copy.close()
    source.close()
    unfinished.rename(to)
