"""Reads an agent's state: the last checkpoint and the lines after it, or every line when there is no checkpoint.

A branch begins with the state of its parent at the fork. Whatever the length of the history, this reads one checkpoint,
the window that a model is sent, and the lines since.
"""

from __future__ import annotations

import msgspec

from perdure.agent.files.branch import SessionFolder, session_folder
from perdure.agent.history import catch_up
from perdure.agent.history.catch_up import RecentChanges
from perdure.agent.history.inbox import InboxState, mode_of, read_inbox
from perdure.agent.history.transcript import CODEC, Line, State, line_of
from perdure.domain.session import SessionRecord
from perdure.ids import digest
from perdure.runtime.run.position import CallPosition
from perdure.runtime.run.records import Records
from perdure.store.move import StoreTransaction
from perdure.store.moves import checkpoint, message, session_retry
from perdure.store.moves import effect as effects
from perdure.store.moves import session as sessions

FINGERPRINT = digest(CODEC)
END = 2**62
DEEPEST = 100  # sessions above a session


class AgentRecords(Records):
    """The records of an agent's session when a run begins."""

    def __init__(
        self,
        session: SessionRecord,
        state: State,
        checkpointed: int,
        folder: SessionFolder | None,
        inbox: InboxState,
        since: RecentChanges,
        brought: tuple[str, ...] = (),
    ) -> None:
        super().__init__(session)
        self.state = state
        self.folder = folder
        self.checkpointed = checkpointed  # the line after which there is a checkpoint in this session's own log
        self.inbox = inbox
        self.since = since
        self.brought = brought  # the origins of what its task may be made of: what the sessions above it have read
        self.resting = (
            False  # a rest is still open: a run was killed, or something other than a message woke the session
        )


def read(tx: StoreTransaction, uid: str) -> AgentRecords:
    """Everything that a run needs before it begins."""
    session = sessions.get(tx, uid)
    state, checkpointed = state_of(tx, session)
    inbox = read_inbox(tx, uid, mode_of(state), session.repository)
    since = catch_up.since_last_line(tx, uid, state, inbox)
    folder, brought = session_folder(tx, session), brought_origins(tx, session)
    records = AgentRecords(session, state, checkpointed, folder, inbox, since, brought)
    records.repeated = session_retry.repeated(tx, session, END)
    records.resting = not since.unread and bool(message.message_waits(tx, uid))  # a message ends every rest
    for effect in effects.unsettled(tx, uid):
        records.effects[CallPosition("", "call", effect.id, "", effect.generation)] = effect
    return records


def origins_of(records: Records) -> tuple[str, ...]:
    """Where what a session has read comes from, as far as a run knows it now."""
    assert isinstance(records, AgentRecords)
    return tuple(dict.fromkeys([*records.brought, *records.state.origins]))


def brought_origins(tx: StoreTransaction, session: SessionRecord) -> tuple[str, ...]:
    """What the sessions that gave a sub-agent its task have read: the task may be made of it."""
    found: dict[str, None] = {}
    for _ in range(DEEPEST):
        above = session.parent_uid or session.forked_from
        row = None if above is None else tx.one("session.get", uid=above)
        if row is None:
            break
        is_task, session = session.parent_uid is not None, SessionRecord.from_row(row)
        if is_task:
            found |= dict.fromkeys(state_of(tx, session)[0].origins)
    return tuple(found)


def state_of(tx: StoreTransaction, session: SessionRecord, through: int = END) -> tuple[State, int]:
    """The state after event `through`, and the number of the session's own checkpoint it was read from (0: none)."""
    kept = checkpoint.latest(tx, session.uid, FINGERPRINT, through=through)
    found = None if kept is None else _opened(kept.body)
    if kept is not None and found is not None:
        state = found
        state.lines = _window(tx, session, state, kept.number)
    elif session.forked_from is not None and session.forked_at is not None:
        state, _ = state_of(tx, sessions.get(tx, session.forked_from), session.forked_at)
        state.number = 0
    else:
        state = State()
    while page := message.lines_between(tx, session.uid, state.number + 1, through):
        for event in page:
            state.fold(event)
    return state, 0 if kept is None or found is None else kept.number


def _opened(body: str) -> State | None:
    """A checkpoint as a state, or None if it cannot be read."""
    try:
        return msgspec.json.decode(body, type=State)
    except msgspec.MsgspecError:
        return None


def _window(tx: StoreTransaction, session: SessionRecord, state: State, through: int) -> list[Line]:
    """The lines of the window as of a checkpoint, across the forks between."""
    if state.first is None:
        return []
    uid, number = state.first
    first = number if session.uid == uid else 1
    found = [
        line_of(one.session_uid, one.number, one.at, one.body)
        for one in message.lines_between(tx, session.uid, first, through)
        if isinstance(one.body, dict) and one.body.get("role") != "summary"
    ]
    if session.uid == uid or session.forked_from is None or session.forked_at is None:
        return found
    return _window(tx, sessions.get(tx, session.forked_from), state, session.forked_at) + found
