"""Whether the records of a session fit the code at hand.

During a rolling deploy a session may be run by other code than it began under. If its records do not fit that code, the
session is handed back: it waits for `program`, and code of a version that was not tried yet may run it. Nothing is lost
and nothing fails. Under the version that it began under it is the program's own fault: a run that was asked for raises
it. A worker hands the session back in this case too, so that it is not tried again and again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from perdure.errors import ConfigError, ProgramChanged
from perdure.store.move import Move
from perdure.store.moves import session_code

if TYPE_CHECKING:
    from perdure.runtime.run.run import Run

T = TypeVar("T")


def is_other_code(run: Run) -> bool:
    """Whether a session runs under other code than it began under, or under code that had no version."""
    return run.session.code_version != run.runtime.worker.code_version


def read_record(run: Run, read: Callable[[], T], *, is_old: bool = True) -> T:
    """Read a record as a type of the code at hand. If that is other code and the record does not fit it, the run ends.

    Under the code that wrote the record, the error is the program's; so is that of a record of this run (not `is_old`).
    """
    try:
        return read()
    except ConfigError as error:
        if not is_old or not is_other_code(run):
            raise
        changed = ProgramChanged(error.message)
        run.give_up(changed)
        raise changed from error


async def hand_back(run: Run, error: ProgramChanged) -> bool:
    """Let the session wait for other code; False if it stays, for the caller that runs it under its own code."""
    if not is_other_code(run) and not run.holder.is_claimed:
        return False
    version = run.runtime.worker.code_version
    return await run.write(session_code.hand_back(run.holder, run.session.program, version, because=error.message))


def pinned_elsewhere(run: Run) -> Move[bool] | None:
    """The move that hands a session back which is pinned to another version; None if it may run here."""
    began, version = run.session.code_version, run.runtime.worker.code_version
    if run.session.pinned_at is None or began in (None, version):
        return None
    because = f"It is pinned to version {began}."
    return session_code.hand_back(run.holder, run.session.program, version, because=because, pinned=began)
