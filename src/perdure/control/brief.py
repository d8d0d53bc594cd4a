"""The brief: a handover summary of a session, as of one event of its log.

Everything is read in one consistent view of the store. The folder and its git branch are compared with what the record
says was read there. Nothing is written, and no session is woken.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from perdure.agent.files.branch import folder_path, open_worktree, session_folder, snapshot_folder
from perdure.agent.files.workspace import Workspace
from perdure.agent.history import catch_up
from perdure.agent.history.state_reader import state_of
from perdure.agent.history.transcript import State
from perdure.domain.decision import Decision
from perdure.domain.effect import Effect, EffectState, Replay
from perdure.domain.fact import ORDERS, Fact, private_scope
from perdure.domain.record import Record
from perdure.domain.session import SessionRecord
from perdure.domain.state import SessionState
from perdure.domain.task import Task, TaskState
from perdure.domain.text import content_text
from perdure.domain.wait import Wait
from perdure.errors import NotDone, NotFound
from perdure.store.move import StoreTransaction
from perdure.store.moves import decision, event, fact, inbox, task, wait
from perdure.store.moves import effect as effects
from perdure.store.moves import session as sessions

MOST = 8  # entries of each list
FEWER = {"said": 3, "waits": 4}  # entries of lists whose entries take several lines
SEARCHED = 300  # effects that are searched for those that changed something
INSIDE = frozenset({Replay.PURE, Replay.JOINT})  # effects that change nothing outside
UNFINISHED = (TaskState.ACTIVE, TaskState.BLOCKED, TaskState.OPEN)

R = TypeVar("R", bound=Record)


class UserMessage(msgspec.Struct, frozen=True):
    """A message of a person after the prompt."""

    number: int
    text: str


class Brief(msgspec.Struct, frozen=True):
    """What `perdure brief --json` prints. `left_out` has the number of omitted entries of each list."""

    session: str
    uid: str
    program: str
    status: str
    number: int  # the event as of which this is the state
    at: int  # when that event happened
    now: int
    title: str | None
    goal: str | None
    sealed_at: int | None  # it was moved, and continues elsewhere
    branch_of: str | None
    branch_at: int | None
    repository: str | None
    folder: str | None  # where it works, if that is on this machine
    said: list[UserMessage]
    answer: str | None
    result: Any
    error: Any
    orders: list[Fact]
    decisions: list[Decision]
    tasks: list[Task]
    tasks_done: int
    waits: list[Wait]
    unsettled: list[Effect]
    done: list[Effect]
    changed: list[str]
    facts: list[Fact]
    stale: list[str]
    left_out: dict[str, int]
    not_kept: list[str] = []  # files in the folder that its last snapshot does not hold, each with why


def make_brief(tx: StoreTransaction, found: SessionRecord, beside: Path | None) -> Brief:
    """The brief of a session; `beside` is the folder of its store, where the folders of branches are."""
    state = state_of(tx, found)[0]
    place = _place(tx, found, beside)
    last = event.last(tx, found.uid, limit=1)
    chosen, planned, done = _lineage(tx, found)
    orders = fact.orders(tx, found.repository)
    facts = sorted(_own_facts(tx, found.uid), key=lambda one: (not one.is_stale(tx.now), one.key))
    lists: dict[str, list[Any]] = {
        "said": _user_messages(state), "orders": orders, "decisions": chosen,
        "waits": wait.open_of_session(tx, found.uid),
        "tasks": [one for want in UNFINISHED for one in planned if one.state == want],
        "unsettled": effects.unsettled(tx, found.uid), "done": done,
        "changed": [*_folder_changes(state, place), *_outside_changes(tx, found, state)], "facts": facts,
    }  # fmt: skip
    return Brief(
        session=found.id, uid=found.uid, program=found.program, status=found.status, number=found.cursor,
        at=last[-1].at if last else found.updated_at, now=tx.now, title=found.title, goal=_goal(found),
        sealed_at=found.sealed_at, branch_of=_name_of(tx, found.forked_from), branch_at=found.forked_at,
        repository=found.repository,
        folder=None if place is None else str(place.root), answer=state.answer(), result=found.result,
        error=found.error, tasks_done=sum(one.state == TaskState.DONE for one in planned),
        stale=[f"{one.scope}/{one.key}" for one in (*orders, *facts) if one.is_stale(tx.now)],
        left_out={name: len(kept) - most(name) for name, kept in lists.items() if len(kept) > most(name)},
        not_kept=state.not_kept, **{name: kept[: most(name)] for name, kept in lists.items()},
    )  # fmt: skip


def most(name: str) -> int:
    """How many entries of a list are included."""
    return FEWER.get(name, MOST)


def _goal(found: SessionRecord) -> str | None:
    given = found.arguments if isinstance(found.arguments, dict) else {}
    prompt = given.get("prompt")
    return content_text(prompt)


def _name_of(tx: StoreTransaction, uid: str | None) -> str | None:
    if uid is None:
        return None
    try:
        return sessions.get(tx, uid).id
    except NotFound:
        return uid


def _user_messages(state: State) -> list[UserMessage]:
    """The messages of people after the prompt, the newest first."""
    lines = [line for line in state.lines if line.role == "user" and line.order is None]
    texts = [
        UserMessage(line.number, text) for line in lines if (text := content_text(line.body.get("content"))) is not None
    ]
    return list(reversed(texts if state.summary is not None else texts[1:]))


def _lineage(tx: StoreTransaction, found: SessionRecord) -> tuple[list[Decision], list[Task], list[Effect]]:
    """Decisions, tasks and effects outside: those of the session, and those it inherited at its fork."""
    chosen = {one.id: one for one in decision.recent(tx, found.uid, limit=10 * MOST)}
    chosen |= {one.id: one for one in decision.incomplete(tx, found.uid, limit=MOST)}
    planned = {one.id: one for one in task.of_session(tx, found.uid, limit=100 * MOST)}
    done = [one for one in effects.listing(tx, uid=found.uid, limit=SEARCHED) if _is_outside(one)]
    uid, at = found.forked_from, found.forked_at
    while uid is not None and at is not None:
        then = event.state_at(tx, uid, at)
        chosen = {one.id: one for one in _rows(Decision, uid, then.decisions)} | chosen
        planned = {one.id: one for one in _rows(Task, uid, then.tasks)} | planned
        older = effects.of_session(tx, uid, through=at)[-SEARCHED:]
        done += [one for one in reversed(older) if _is_outside(one) and (one.settled_number or at) <= at]
        uid, at = _fork_of(then)
    newest = sorted(chosen.values(), key=lambda one: (one.decided_at, one.id), reverse=True)
    newest.sort(key=lambda one: one.outcome is not None)
    return newest, list(planned.values()), done


def _is_outside(one: Effect) -> bool:
    """Whether the effect left a change outside."""
    return one.replay not in INSIDE and one.state == EffectState.ACKNOWLEDGED and one.tool != open_worktree.name


def _rows(kind: type[R], uid: str, rows: dict[str, dict[str, Any]]) -> Iterator[R]:
    """Rows from a folded log; a row whose first event was erased is left out."""
    for row in rows.values():
        if all(name in row for name in kind.__struct_fields__ if name not in ("session_uid", "outcome", "settled_at")):
            yield kind(**{name: row.get(name) for name in kind.__struct_fields__} | {"session_uid": uid})


def _fork_of(then: SessionState) -> tuple[str | None, int | None]:
    return then.session.get("forked_from"), then.session.get("forked_at")


def _own_facts(tx: StoreTransaction, uid: str) -> Iterator[Fact]:
    """The private facts of the session, and shared facts that it was the last to write."""
    own = private_scope(uid)
    yield from fact.listing(tx, own)
    for one in fact.listing(tx):
        if one.session_uid == uid and one.scope != own and one.scope.partition(":")[0] != ORDERS:
            yield one


def _place(tx: StoreTransaction, found: SessionRecord, beside: Path | None) -> Workspace | None:
    """The folder of the session, if it exists on this machine."""
    folder = session_folder(tx, found)
    place = None if folder is None else folder_path(folder, snapshot_folder(folder.repository, beside))
    return None if place is None or not place.is_dir() else Workspace(place, session_uid=found.uid)


def _folder_changes(state: State, place: Workspace | None) -> list[str]:
    """What differs in the folder from what the session read there."""
    if place is None:
        return []
    files = {path: was for path, was in state.files.items() if _is_plain(place, path)}
    changed, head = catch_up.compared(place, files)
    return [f"{path} {what} since it was read" for path, what in changed] + catch_up.moved(state.head, head)


def _is_plain(place: Workspace, path: str) -> bool:
    """Whether a path is a regular file in the folder. The record may come from a bundle and name any path or device."""
    try:
        real = place.inside(path)
        return real.is_file() or not real.exists()
    except (NotDone, OSError):
        return False


def _outside_changes(tx: StoreTransaction, found: SessionRecord, state: State) -> list[str]:
    """What other people and processes did to the session since it last ran."""
    since = max(state.number, event.newest_of(tx, found.uid, "session.parked"))
    events = event.after(tx, found.uid, since, limit=500)
    items = [catch_up.describe(line) for line in events if catch_up.is_outside(line)]
    unread = len(inbox.unread(tx, found.uid))
    return [*items, *([f"unread messages: {unread}"] if unread else [])]
