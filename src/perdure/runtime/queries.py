"""Queries: what can be read of a store, without a lease and without changing anything."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from perdure.artifacts.directory import Directory
from perdure.clock import format_time
from perdure.domain.approval import Approval
from perdure.domain.artifact import Artifact
from perdure.domain.decision import Decision
from perdure.domain.effect import Attempt, Effect
from perdure.domain.event import Event
from perdure.domain.fact import Fact
from perdure.domain.literals import ArchivedWord, DecisionWord, EffectStateWord, ReachWord, StatusWord, WaitWord
from perdure.domain.session import SessionRecord
from perdure.domain.session_search import ARCHIVED, has_text
from perdure.domain.state import SessionState
from perdure.domain.task import Task
from perdure.domain.wait import FOR_A_PERSON, Wait
from perdure.domain.worker import Liveness, WorkerRecord
from perdure.errors import ConfigError, NotFound
from perdure.runtime.access.access_log import AccessLog
from perdure.runtime.effect_details import EffectDetails, read_details, with_artifacts
from perdure.runtime.ledger.attempt_registry import liveness_here
from perdure.runtime.ledger.policy import Policy
from perdure.runtime.recovery.plan import RecoveryStep, plan
from perdure.runtime.run.large_values import Values
from perdure.runtime.workers.identity import is_here, liveness_of, worker_locks
from perdure.store.move import StoreTransaction
from perdure.store.moves import approval, artifact, decision, event, fact, task, wait, worker
from perdure.store.moves import effect as effects
from perdure.store.moves import session as sessions
from perdure.store.store import Store

T = TypeVar("T")

MANY = 1_000_000


class SessionView(SessionRecord, frozen=True):
    """A session with its open waits."""

    waits: tuple[Wait, ...] = ()


def waiting_sentence(view: SessionView) -> str:
    """What a session waits for, as a sentence: of several waits, those that only a person can resolve."""
    kinds = {one.kind for one in view.waits}
    for one in view.waits:
        if one.retry_numbers is not None:
            number, most = one.retry_numbers
            return f"Session {view.id} waits for retry {number} of {most}, at {format_time(one.due_at or 0)}."
    if pinned := [one.detail["pinned"] for one in view.waits if one.versions_tried and "pinned" in one.detail]:
        return f"Session {view.id} waits for code of version {pinned[0]}, to which it is pinned."
    if tried := sorted({name for one in view.waits for name in one.versions_tried}):
        began = f" It began under {view.code_version}." if view.code_version else ""
        other = f"other code of {view.program}: its records do not fit {', '.join(tried)}"
        return f"Session {view.id} waits for {other}.{began}"
    return f"Session {view.id} waits for {', '.join(sorted(kinds & FOR_A_PERSON or kinds))}."


def _with_waits(tx: StoreTransaction, name: str) -> tuple[SessionRecord, list[Wait]]:
    """Both in one read: a session that was woken in between would appear to wait for nothing."""
    found = sessions.find(tx, name)
    return found, wait.open_of_session(tx, found.uid)


class Queries:
    """Reads a store. Nothing here changes it, and nothing here makes this process a worker."""

    def __init__(self, store: Store, policy: Policy, values: Values) -> None:
        self._store = store
        self._policy = policy
        self._values = values
        self.access = AccessLog(store)

    async def get(self, name: str) -> SessionView:
        """A session by its id or a prefix of it, with its open waits."""
        return self.view(*await self._store.read(_with_waits, name))

    def view(self, found: SessionRecord, waits: Iterable[Wait]) -> SessionView:
        """A session with its open waits, for people."""
        return SessionView(**self._values.of_session(found).to_dict(), waits=tuple(waits))

    async def recovery_plan(self, name: str) -> list[RecoveryStep]:
        """What a run would do with each unsettled effect, and why; nothing is done."""
        session = await self._store.read(sessions.find, name)
        locks = worker_locks(self._store)  # a query does not make the process a worker

        def life_of(attempt: Attempt) -> Liveness:
            return liveness_here(attempt) if is_here(attempt.process) else liveness_of(locks, attempt.process)

        return await self._store.read(plan, session.uid, life_of, self._policy, self._values.shown)

    async def state_at(self, name: str, number: int | None = None) -> SessionState:
        """Time travel: the state of a session after event `number`."""
        session = await self._store.read(sessions.find, name)
        await self.access.note("transcript", session.uid)
        return await self._store.read(event.state_at, session.uid, number)

    async def sessions(
        self, *, status: StatusWord | None = None, waiting_for: WaitWord | None = None, owner: str | None = None,
        repository: str | None = None, archived: ArchivedWord = "with", search: str | None = None,
    ) -> AsyncIterator[SessionRecord]:  # fmt: skip
        """Sessions, the most recently changed first; `search`: with this text in their id, title or prompt."""
        if archived not in ARCHIVED:
            raise ConfigError(f"{archived!r:.80} is not one of {', '.join(ARCHIVED)}.")
        before: SessionRecord | None = None
        given: dict[str, Any] = {"status": status, "waiting_for": waiting_for, "owner": owner, "repository": repository}
        given["archived"] = ARCHIVED[archived]
        while page := await self._store.read(sessions.page, **given, before=before):
            for before in page:
                if not search or has_text(before, search):
                    yield before

    async def workers(self) -> AsyncIterator[WorkerRecord]:
        """The workers and supervisors that are registered, the most recently seen first."""
        for one in await self._store.read(worker.listing, limit=100_000):
            yield one

    async def events(self, name: str, *, after: int = 0, follow: bool = False) -> AsyncIterator[Event]:
        """A session's events; with `follow`, each new one as it comes."""
        session = await self._store.read(sessions.find, name)
        await self.access.note("transcript", session.uid)
        if follow:
            async for line in self._store.follow(session.uid, after):
                yield line
            return
        while page := await self._store.read(event.after, session.uid, after):
            for line in page:
                yield line
            after = page[-1].number

    async def effects(
        self, *, session: str | None = None, state: EffectStateWord | None = None, tool: str | None = None,
        in_doubt: bool = False, since: int = 0, target: str | None = None, reach: ReachWord | None = None,
    ) -> AsyncIterator[Effect]:  # fmt: skip
        """Effects, the newest first; of one target, such as "branch:main", or of a prefix, such as "path:deploy/*".

        `reach` is how far their tools reach; "outside" are the actions that left this machine or may have.
        """
        uid, before = await self._uid(session), None
        await self.access.note("transcript", uid, subject="effects")
        filters: dict[str, Any] = {"state": state, "tool": tool, "in_doubt": in_doubt, "since": since}
        filters |= {"target": target, "reach": reach}
        while page := await self._store.read(effects.listing, uid=uid, **filters, before=before):
            for before in page:
                yield self._values.shown(before)

    async def effect(self, effect_id: str, *, session: str | None = None) -> EffectDetails:
        """One effect with its attempts, its result and its whole output; by its id or a unique prefix of it."""
        found = await self._store.read(read_details, effect_id, session)
        await self.access.note("transcript", found.effect.session_uid, subject=found.effect.id)
        return await asyncio.to_thread(with_artifacts, found, self._artifact_folder)

    async def artifacts(self, *, session: str | None = None) -> AsyncIterator[Artifact]:
        """Artifacts of all sessions or of one, the newest first."""
        for one in await self._store.read(artifact.listing, await self._uid(session), limit=MANY):
            yield one

    async def artifact(self, digest: str) -> bytes:
        """The content of an artifact, by its digest or a unique prefix of it; checked against the digest."""
        name = await self._store.read(artifact.find_digest, digest)
        directory = await self._look_at_artifact(name)
        return await asyncio.to_thread(directory.get, name)

    async def open_artifact(self, name: str) -> tuple[BinaryIO, int]:
        """The file of an artifact, given by its whole digest, and its size. The digest is checked once per file."""
        directory = await self._look_at_artifact(name)
        return await asyncio.to_thread(directory.open_checked, name)

    async def _look_at_artifact(self, name: str) -> Directory:
        """The folder that has it, after the read was logged."""
        if self._values.directory is None:
            raise NotFound(f"Artifact {name[:12]} is not here: this store has no folder for artifacts.")
        await self.access.note("artifact", None, subject=name)
        return self._values.directory

    @property
    def _artifact_folder(self) -> Path | None:
        return None if self._values.directory is None else self._values.directory.folder

    async def approvals(
        self, *, session: str | None = None, decision: DecisionWord | None = None
    ) -> AsyncIterator[Approval]:
        """Approvals; undecided ones come first."""
        for one in await self._store.read(
            approval.listing, uid=await self._uid(session), decision=decision, limit=MANY
        ):
            yield one

    async def tasks(self, *, session: str) -> AsyncIterator[Task]:
        """The tasks of a session's plan."""
        uid = await self._uid(session)
        assert uid is not None
        for one in await self._store.read(task.of_session, uid, limit=MANY):
            yield one

    async def decisions(self, *, session: str | None = None, incomplete: bool = False) -> AsyncIterator[Decision]:
        """Decisions, the newest first; or those without an outcome."""
        uid = await self._uid(session)
        for one in await self._store.read(decision.incomplete if incomplete else decision.recent, uid, limit=MANY):
            yield one

    async def facts(self, *, scope: str | None = None) -> AsyncIterator[Fact]:
        """Facts, of all scopes or of one."""
        for one in await self._store.read(fact.listing, scope, limit=MANY):
            yield one

    async def _uid(self, name: str | None) -> str | None:
        return None if name is None else (await self._store.read(sessions.find, name)).uid


def find_in(
    tx: StoreTransaction, find: Callable[[StoreTransaction, str, str | None], T], id: str, session: str | None
) -> T:
    """What has this id, in one session if one is named."""
    return find(tx, id, None if session is None else sessions.find(tx, session).uid)
