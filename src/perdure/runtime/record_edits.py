"""What people write to the record: facts, standing orders, tasks, and outcomes of decisions.

A fact of a session, a task and an outcome are outsider moves under the session's row lock: they append an event to its
log, and a worker that holds the session continues after it. A shared fact and a standing order belong to no session,
so they have no event; their row names who wrote them, and when.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from perdure.domain.decision import Decision
from perdure.domain.fact import ORDERS, Fact, orders_scope, private_scope, repository_scope
from perdure.domain.literals import TaskStateWord
from perdure.domain.session import TERMINAL, SessionRecord
from perdure.domain.task import Task, TaskState
from perdure.domain.wait import WaitKind
from perdure.errors import ConfigError, IllegalMove, NotFound
from perdure.ids import digest, new_name
from perdure.runtime.definitions.durations import microseconds
from perdure.runtime.definitions.program import PROGRAMS
from perdure.runtime.queries import MANY
from perdure.store.move import StoreTransaction
from perdure.store.moves import decision, event, fact, task, wait
from perdure.store.moves import session as sessions
from perdure.store.store import Store

RESERVED = {
    "session": "session=",
    "repository": "repository=",
    ORDERS: "`add_order`",
    "allowed": "`perdure exemptions`",
}


class RecordEdits:
    """What people write to the record of a store. `by` is who writes, unless a call names another person."""

    def __init__(self, store: Store, by: str) -> None:
        self._store = store
        self._by = by

    async def set_fact(
        self, key: str, value: Any, *, scope: str | None = None, session: str | None = None,
        repository: str | Path | None = None, expected: int | None = None, verify: str | None = None,
        stale_after: str | float | None = None, by: str | None = None,
    ) -> Fact:  # fmt: skip
        """Write a fact of a scope, of a session, or for every session of a repository.

        `expected` is the version that was read (0: none); without it the newest version is overwritten.
        """
        where, uid = await self._scope(scope, session, repository)
        about: dict[str, Any] = {"expected": expected, "verify": verify}
        about["stale_after"] = None if stale_after is None else microseconds(stale_after)
        if uid is None:
            return await self._store.write(fact.set_shared(where, key, value, by=by or self._by, **about))
        return await self._store.write(fact.remember(uid, by or self._by, where, key, value, **about))

    async def verify_fact(
        self, key: str, *, scope: str | None = None, session: str | None = None,
        repository: str | Path | None = None, by: str | None = None,
    ) -> Fact:  # fmt: skip
        """Record that a fact was checked and still holds."""
        where, uid = await self._scope(scope, session, repository)
        known = await self._fact(where, key)
        if uid is None:
            return await self._store.write(fact.verify_shared(where, key, known.version))
        await self._store.write(fact.record_verification(uid, by or self._by, where, key, known.version))
        return await self._fact(where, key)

    async def forget_fact(
        self, key: str, *, scope: str | None = None, session: str | None = None,
        repository: str | Path | None = None, by: str | None = None,
    ) -> Fact:  # fmt: skip
        """Forget a fact; returns it as it was."""
        where, uid = await self._scope(scope, session, repository)
        known = await self._fact(where, key)
        if uid is None:
            await self._store.write(fact.forget_shared(where, key, known.version))
        else:
            await self._store.write(fact.forget(uid, by or self._by, where, key, known.version))
        return known

    async def _scope(
        self, scope: str | None, session: str | None, repository: str | Path | None
    ) -> tuple[str, str | None]:
        """The scope that is meant, and the session whose log records the change."""
        if sum(one is not None for one in (scope, session, repository)) != 1:
            raise ConfigError("A fact needs exactly one of a scope, a session and a repository.")
        if repository is not None:
            return repository_scope(str(_absolute(repository))), None
        if session is not None:
            found = await self._store.read(sessions.find, session)
            _refuse_ended(found)
            return private_scope(found.uid), found.uid
        name = str(scope)
        if (instead := RESERVED.get(name.partition(":")[0])) is not None:
            raise ConfigError(f"The scope {name[:60]} is reserved.", hint=f"Use {instead} instead.")
        return name, None

    async def _fact(self, scope: str, key: str) -> Fact:
        found = await self._store.read(fact.get, scope, key)
        if found is None:
            raise NotFound(f"There is no fact {key[:60]!r} there.", hint="`perdure facts` lists all facts.")
        return found

    async def orders(self, *, repository: str | Path | None = None) -> AsyncIterator[Fact]:
        """The standing orders for every agent, and those for agents of a repository."""
        where = _absolute(repository)
        for one in await self._store.read(fact.orders, where, limit=MANY):
            yield one

    async def add_order(
        self, text: str, *, name: str | None = None, repository: str | Path | None = None, by: str | None = None
    ) -> Fact:
        """Give a standing order to every agent, or to those of a repository. One of the same name is replaced."""
        if not text.strip():
            raise ConfigError("A standing order needs a text.")
        where = orders_scope(_absolute(repository))
        return await self._store.write(fact.set_shared(where, name or new_name("o"), text, by=by or self._by))

    async def remove_order(self, name: str, *, repository: str | Path | None = None) -> Fact:
        """Remove a standing order; returns it as it was."""
        where = orders_scope(_absolute(repository))
        known = await self._fact(where, name)
        await self._store.write(fact.forget_shared(where, name, known.version))
        return known

    async def add_task(
        self, session: str, title: str, *, id: str | None = None, parent: str | None = None, priority: int = 0,
        by: str | None = None,
    ) -> Task:  # fmt: skip
        """Add a task to the plan of a session. Without an id, the same title is the same task."""
        if not title.strip():
            raise ConfigError("A task needs a title.")
        found = await self._store.read(sessions.find, session)
        name = id or task_id(title)
        move = task.add_from_outside(found.uid, by or self._by, name, title, parent_id=parent, priority=priority)
        return await self._store.write(move)

    async def change_task(
        self, session: str, id: str, state: TaskStateWord, *, because: str | None = None, by: str | None = None
    ) -> Task:
        """Change the state of a task of an agent: open, active, blocked, done or dropped.

        The reason becomes its note.
        """
        found = await self._store.read(sessions.find, session)
        if state not in set(TaskState):
            raise ConfigError(f"A task cannot be {state!r:.40}; it is {', '.join(TaskState)}.")
        await self._refuse_running_program(found, "tasks")
        changes = {"state": state} | ({} if because is None else {"note": because})
        return await self._store.write(task.change_from_outside(found.uid, by or self._by, id, **changes))

    async def settle_decision(self, session: str, id: str, outcome: str, *, by: str | None = None) -> Decision:
        """Record the outcome of a decision of an agent, or of a program that has ended."""
        found = await self._store.read(sessions.find, session)
        made = await self._store.read(decision.find, found.uid, id)
        if found.status not in TERMINAL:
            await self._refuse_running_program(found, "decisions")
        return await self._store.write(decision.settle_from_outside(found.uid, by or self._by, made.id, outcome))

    async def _refuse_running_program(self, found: SessionRecord, what: str) -> None:
        """A program of a user writes the same records itself, and would fail where it finds them changed."""
        if found.status not in TERMINAL and not await self._store.read(is_agent, found):
            raise IllegalMove(
                f"Program {found.program} of session {found.id} changes its {what} itself; nothing was changed.",
                hint="People change those of agents. Those of a program can be settled after its end.",
            )


def task_id(title: str) -> str:
    """The id that an agent gives a task of this title."""
    return "t-" + digest(title)[:12]


def _absolute(repository: str | Path | None) -> str | None:
    return None if repository is None else os.path.abspath(repository)


def _refuse_ended(found: SessionRecord) -> None:
    if found.status in TERMINAL:
        raise IllegalMove(f"Session {found.id} is {found.status} already; its facts cannot be changed.")


def is_agent(tx: StoreTransaction, session: SessionRecord) -> bool:
    """Whether a session's program is an agent: its code says so where it is loaded.

    Elsewhere its log tells: an agent has a transcript before it does anything else, and it records no steps. A session
    that did nothing yet may be one.
    """
    if session.program in PROGRAMS:
        return PROGRAMS[session.program].reads_messages
    if event.newest_of(tx, session.uid, "step.recorded"):
        return False
    if event.newest_of(tx, session.uid, "message"):
        return True
    if session.forked_from is not None:
        return is_agent(tx, sessions.get(tx, session.forked_from))
    return not sessions.has_acted(tx, session.uid)


def reads_messages(tx: StoreTransaction, session: SessionRecord) -> bool:
    """Whether a session's program may read what is sent to it: its code says so where it is loaded.

    Elsewhere its log tells: it has read a message or waits for one, or it may read some by the code it began with.
    """
    if session.program in PROGRAMS:
        return PROGRAMS[session.program].reads_messages or PROGRAMS[session.program].may_receive
    if event.newest_of(tx, session.uid, "message") or event.is_receiver(tx, session.uid):
        return True
    if any(one.ref is None for one in wait.open_of_kind(tx, session.uid, WaitKind.INPUT)):
        return True
    if session.forked_from is not None:
        return reads_messages(tx, sessions.get(tx, session.forked_from))
    return not sessions.has_acted(tx, session.uid)
