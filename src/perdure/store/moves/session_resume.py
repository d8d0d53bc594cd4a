"""Resume of a session: everything that holds it back is removed in one transaction.

    pause        a request to pause is withdrawn, and its wait is resolved
    interrupt    a program's request is withdrawn, because it would only pause again
    other waits  for a person after crashes, and for other code
    archive      the session is shown in lists again

One move, so that a request to resume is done or not begun: carried out a second time, it would undo a later pause.
"""

from __future__ import annotations

from collections.abc import Sequence

from perdure.domain.session import SessionRecord
from perdure.domain.wait import Wait, WaitKind
from perdure.store.move import Log, outsider_move
from perdure.store.moves import interrupt, session, wait


@outsider_move
def resume(log: Log, *, is_program: bool) -> None:
    """Let a session continue. `is_program`: a request to interrupt it is withdrawn too, as it is no agent."""
    asked = wait.open_of_session(log.tx, log.uid)
    if is_program:
        interrupt.remove(log)
    if log.head.pause_requested_at is not None or any(one.kind == WaitKind.PAUSED for one in asked):
        wait.resume.on(log)
    for one in asked:
        if is_held_by(one):
            wait.settle(log, one, None)
    session.set_archived(log, None)


def is_held(now: SessionRecord, asked: Sequence[Wait], *, is_program: bool) -> bool:
    """Whether a resume changes a session with these open waits."""
    requested = now.pause_requested_at is not None or (is_program and now.interrupt_requested_at is not None)
    held = any(one.kind == WaitKind.PAUSED or is_held_by(one) for one in asked)
    return requested or held or now.archived_at is not None


def is_held_by(asked: Wait) -> bool:
    """Whether a person ends this wait with a resume, besides the waits of a pause."""
    return asked.kind == WaitKind.QUARANTINE or asked.is_for_other_code
