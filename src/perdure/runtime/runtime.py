"""The runtime: what a user holds. It is the public interface; the work is done by its parts."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Literal, Self, TypeVar

from msgspec import UNSET, UnsetType

from perdure.clock import Clock
from perdure.config import is_service
from perdure.domain.approval import Approval
from perdure.domain.artifact import Artifact
from perdure.domain.decision import Decision
from perdure.domain.effect import Attempt, Effect
from perdure.domain.event import Event
from perdure.domain.exemption import Exemption, ExemptionUse
from perdure.domain.fact import Fact
from perdure.domain.inbox import InboxMessage
from perdure.domain.literals import (
    ArchivedWord,
    CatchUpWord,
    DecisionWord,
    EffectStateWord,
    MessageMode,
    NotificationWord,
    OverlapWord,
    PolicyAnswer,
    ReachWord,
    StatusWord,
    TaskStateWord,
    VerdictWord,
    WaitWord,
)
from perdure.domain.notification import Notification, NotificationChannel
from perdure.domain.policy_version import PolicyVersion
from perdure.domain.principal import PrincipalView
from perdure.domain.queue import Queue, QueueView
from perdure.domain.queue_latency import QueueLatency
from perdure.domain.rate_limit import RateLimit
from perdure.domain.schedule import Schedule
from perdure.domain.search import SearchHit
from perdure.domain.session import SessionRecord
from perdure.domain.state import SessionState
from perdure.domain.task import Task
from perdure.domain.token import NewToken, TokenView
from perdure.domain.wait import Wait
from perdure.domain.worker import Liveness, WorkerRecord
from perdure.errors import ConfigError
from perdure.runtime.audit import Audit, Moment
from perdure.runtime.definitions.durations import microseconds
from perdure.runtime.definitions.program import PROGRAMS, Bound
from perdure.runtime.description import Causes
from perdure.runtime.effect_details import EffectDetails
from perdure.runtime.exemptions import Exemptions
from perdure.runtime.ledger.attempt_registry import ACTING, BROKEN_OFF, LATE, liveness_here
from perdure.runtime.ledger.late_outcomes import LateOutcomeWriter
from perdure.runtime.ledger.policy import Intent, Policy
from perdure.runtime.live_text import Delta, LiveText
from perdure.runtime.notifications.channels import read_channels
from perdure.runtime.notifications.outbox import NotificationOutbox
from perdure.runtime.policies import Policies, PolicyView
from perdure.runtime.policy.active_policy import ActivePolicy
from perdure.runtime.policy.recorded_calls import PolicyCheck, PolicyExplanation, supposed_site
from perdure.runtime.queries import Queries, SessionView
from perdure.runtime.record_edits import RecordEdits
from perdure.runtime.recovery.plan import RecoveryStep
from perdure.runtime.requests import Requests
from perdure.runtime.run.driver import Driver
from perdure.runtime.run.large_values import Values
from perdure.runtime.search import Search
from perdure.runtime.session_edits import SessionEdits
from perdure.runtime.start.failed_sessions import BulkEdit, FailedSessions
from perdure.runtime.start.principals import Principals
from perdure.runtime.start.queues import Queues
from perdure.runtime.start.rate_limits import RateLimits
from perdure.runtime.start.schedules import Schedules
from perdure.runtime.start.starts import Starts
from perdure.runtime.start.tokens import Tokens
from perdure.runtime.start_options import ConflictWord, StartOptions
from perdure.runtime.stream.events import StreamEvent
from perdure.runtime.stream.stream import stream
from perdure.runtime.workers.heartbeat import Heartbeat
from perdure.runtime.workers.identity import WorkerIdentity, is_here
from perdure.secrets.reference import name_secrets
from perdure.store.audit.question import AuditQuestion, AuditRow
from perdure.store.moves.feed import FeedEvent
from perdure.store.moves.session_removal import Removal
from perdure.store.store import Store, open_store

if TYPE_CHECKING:  # what the layers above this one do and return
    from perdure.control.audit.head import AuditHead
    from perdure.control.audit.head_check import HeadReport
    from perdure.control.branches.files import FileDiff
    from perdure.control.branches.in_place_rewind import InPlaceRewind, RewindPlan
    from perdure.control.branches.merge import MergeResult
    from perdure.control.branches.prune import PruneReport
    from perdure.control.branches.rewind import RewindResult
    from perdure.control.brief import Brief
    from perdure.control.doctor.report import DoctorReport
    from perdure.control.operations import Operations
    from perdure.control.roles import RoleReport
    from perdure.control.session_files import ImportedSession
    from perdure.control.verification import Verification
    from perdure.interchange.export import Exported

__all__ = ["Runtime", "SessionView", "open", "run"]

T = TypeVar("T")
LEASE = "15s"
IN_A_LOOP = "Here use `async with perdure.open() as rt`, then `await rt.start(...)` and `await rt.complete(...)`."


class Runtime:
    """An open store with the code that is loaded here. Use it as `async with perdure.open(...) as rt`.

    Its parts: `queries` read, `requests` need no lease, `record_edits` are what people write to the record,
    `session_edits` what they do with whole sessions, and `driver` runs sessions in this process.
    """

    __module__ = "perdure"
    _INTERNAL = frozenset({"worker", "is_worker", "life_of"})

    def __init__(
        self,
        store: Store,
        *,
        policy: Callable[[Intent], PolicyAnswer] | None = None,
        by: str = "owner",
        lease: str | float = LEASE,
        artifacts: str | Path | None = None,
        notifications: Mapping[str, Any] | str | None = None,
    ) -> None:
        self.store = store
        self.by = by
        self.policy = Policy(policy)
        self.active_policy = ActivePolicy(store.clock)
        self.values = Values(store, artifacts)
        self.queries = Queries(store, self.policy, self.values)
        self.requests = Requests(store, self.queries, self.policy, self.values, by)
        self.record_edits = RecordEdits(store, by)
        self._exemptions = Exemptions(store, by)
        self._policies = Policies(store, self.queries, self.values, by)
        self.session_edits = SessionEdits(store, self.queries, self.values, by)
        self.starts = Starts(store, self.queries, self.requests, self.policy, self.values, by)
        self._queues = Queues(store, by)
        self.failed_sessions = FailedSessions(store, self.session_edits)
        self.schedule_handler = Schedules(store, by, self.requests.cancel, under_policy=lambda: self.policy.is_given)
        self._rate_limits = RateLimits(store, by)
        self._principals = Principals(store, by)
        self._tokens = Tokens(store, by)
        self._audit = Audit(store)
        self.searches = Search(store)
        self.notification_outbox = NotificationOutbox(store, by, lambda: read_channels(notifications))
        self.driver = Driver(self)
        self.heartbeat = Heartbeat(store, microseconds(lease))
        self.live_text = LiveText(store)
        self.on_delta: Callable[[Delta], None] | None = None  # is called with each piece of a model's output
        self.causes = Causes()
        self.worker_about: dict[str, Any] = {}  # more of its row: `queues`, `concurrency`, `parent`
        self._worker: WorkerIdentity | None = None
        self.late_outcomes = LateOutcomeWriter(self)

    @property
    def worker(self) -> WorkerIdentity:
        """This process as a worker; registered when it first runs a session."""
        if self._worker is None:
            self._worker = WorkerIdentity(self.store, sorted(PROGRAMS), **self.worker_about)
        return self._worker

    @property
    def is_worker(self) -> bool:
        """Whether this process has run a session of this store."""
        return self._worker is not None

    def life_of(self, attempt: Attempt) -> Liveness:
        """Whether an attempt may still be under way."""
        if is_here(attempt.process):
            return liveness_here(attempt)
        return self.worker.life_of(attempt.process)

    def __dir__(self) -> list[str]:
        """What users may call; the parts are internal."""
        return sorted({*super().__dir__()} - {*vars(self), *self._INTERNAL} | {"by", "on_delta"})

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.store.is_forked:  # otherwise the threads of this loop belong to the parent
            await asyncio.to_thread(self.close)

    def close(self) -> None:
        if self.store.is_forked:
            return
        self.late_outcomes.close()
        self.heartbeat.close()
        if self._worker is not None:
            self._worker.close(acting=bool(ACTING or LATE or BROKEN_OFF))
        self.store.close()

    async def start(
        self,
        bound: Bound[Any],
        *,
        id: str | None = None,
        owner: str | None = None,
        repository: str | Path | None = None,
        title: str | None = None,
        queue: str = "default",
        priority: int = 0,
        not_before: datetime | str | int | None = None,
        key: str | None = None,
        retries: int | None = None,
        timeout: str | float | None = None,
        pin: bool = False,
        debounce: str | float | None = None,
        on_conflict: ConflictWord = "queue",
    ) -> SessionView:
        """Start a session. A known id with equal arguments is that session; with others it is a `Conflict`.

        It begins not before a time, or a duration from now. It is cancelled when it has not ended `timeout` after
        that. After a failure it is retried up to `retries` times. `key` names what limits per key count. With
        `debounce`, requests of the same queue, program and key within that time are one session, with the newest
        arguments. `on_conflict` decides what happens if a session of the same queue and key has not ended: start
        another (`queue`), return that one (`keep`), or cancel it first (`replace`).
        """
        given: dict[str, Any] = {"owner": owner, "repository": repository, "title": title, "queue": queue, "key": key}
        given |= {"priority": priority, "not_before": not_before, "retries": retries, "timeout": timeout, "pin": pin}
        options = StartOptions.read(**given, debounce=debounce, on_conflict=on_conflict)
        return await self.starts.start(bound, id, options)

    async def start_many(
        self, bounds: Sequence[Bound[Any]], *, ids: Sequence[str] | None = None, **options: Any
    ) -> list[str]:
        """Start many sessions with the options of `start`, a hundred in each transaction; returns their ids in order.

        With ids, the same call again starts only what is missing.
        """
        return await self.starts.start_many(bounds, ids, StartOptions.read(**options))

    def queues(self) -> AsyncIterator[QueueView]:
        """The queues that have limits or sessions, with the numbers of their sessions, by name."""
        return self._queues.listing()

    async def queue_latency(self, name: str) -> QueueLatency:
        """How many sessions of a queue ended in the last hour and day, how long they waited, and how long they ran."""
        return await self._queues.latency(name)

    async def set_queue(
        self,
        name: str,
        *,
        concurrency: int | UnsetType | None = UNSET,
        per_key: int | UnsetType | None = UNSET,
        per_worker: int | UnsetType | None = UNSET,
        rate: str | UnsetType | None = UNSET,
        max_depth: int | UnsetType | None = UNSET,
        paused: bool | UnsetType = UNSET,
        closed: bool | UnsetType = UNSET,
        by: str | None = None,
    ) -> Queue:
        """Change the limits of a queue while it runs; what is not given stays, and None removes a limit.

        `rate` is a number and a duration, such as "10/1m". Nothing is claimed from a queue that is paused, and nothing
        new is started in one that is closed.
        """
        limits: dict[str, Any] = {"concurrency": concurrency, "per_key": per_key, "per_worker": per_worker}
        limits |= {"max_depth": max_depth, "paused": paused, "closed": closed}
        return await self._queues.set(name, rate=rate, by=by, **limits)

    async def add_schedule(
        self,
        name: str,
        bound: Bound[Any],
        *,
        cron: str | None = None,
        every: str | float | None = None,
        timezone: str = "UTC",
        jitter: str | float = 0,
        overlap: OverlapWord = "skip",
        catch_up: CatchUpWord = "last",
        owner: str | None = None,
        repository: str | Path | None = None,
        title: str | None = None,
        queue: str = "default",
        priority: int = 0,
        key: str | None = None,
        retries: int | None = None,
        timeout: str | float | None = None,
        pin: bool = False,
        by: str | None = None,
    ) -> Schedule:
        """Start a session at certain times: at those of a cron expression in a time zone, or periodically.

        A schedule of the same name is changed. A worker or `perdure serve` must run; each tick starts exactly one
        session, however many run. `overlap` decides what a tick does while a session of the schedule has not ended,
        `catch_up` which missed ticks are made up, up to 100. The other options are those of `start`.
        """
        options = StartOptions.read(
            owner=owner, repository=repository, title=title, queue=queue, priority=priority, key=key, retries=retries,
            timeout=timeout, pin=pin,
        )  # fmt: skip
        return await self.schedule_handler.put(
            name, bound, cron=cron, every=every, timezone=timezone, jitter=jitter, overlap=overlap, catch_up=catch_up,
            options=options, by=by,
        )  # fmt: skip

    def schedules(self) -> AsyncIterator[Schedule]:
        """The schedules, by name."""
        return self.schedule_handler.listing()

    async def pause_schedule(self, name: str, *, by: str | None = None) -> Schedule:
        """Start no sessions of a schedule until it is resumed."""
        return await self.schedule_handler.pause(name, True, by=by)

    async def resume_schedule(self, name: str, *, by: str | None = None) -> Schedule:
        """Resume a paused schedule. Its `catch_up` decides about the ticks of the pause."""
        return await self.schedule_handler.pause(name, False, by=by)

    async def remove_schedule(self, name: str, *, by: str | None = None) -> Schedule:
        """Remove a schedule; returns it as it was. Its sessions stay, and its name can be used again."""
        return await self.schedule_handler.remove(name, by=by)

    async def backfill(self, name: str, since: datetime | str, until: datetime | str) -> list[str]:
        """Start a session of a schedule for each past tick from `since` up to `until` that has none; returns their ids.

        A time without an offset is a local time of the schedule. Repeating it is harmless.
        """
        return [one.session for one in await self.schedule_handler.backfill(name, since, until)]

    async def trigger_schedule(self, name: str, *, by: str | None = None) -> SessionView:
        """Start a session of a schedule now, beside its ticks, whether it is paused or not. Its `overlap` holds."""
        made = await self.schedule_handler.trigger(name, by=by)
        return await self.queries.get(made.uid)

    def rate_limits(self) -> AsyncIterator[RateLimit]:
        """The limits of model providers that all workers share, by name."""
        return self._rate_limits.listing()

    async def set_rate_limit(
        self,
        name: str,
        *,
        requests: int | UnsetType | None = UNSET,
        tokens: int | UnsetType | None = UNSET,
        by: str | None = None,
    ) -> RateLimit:
        """Set how many requests and tokens a minute a provider (`anthropic`) or a model (`anthropic:NAME`) accepts.

        All workers of the store keep to it together. What is not given stays, and None removes a limit.
        """
        return await self._rate_limits.set(name, requests, tokens, by)

    async def run(self, name: str) -> SessionView:
        """Run a session here until it finishes or waits."""
        return await self.driver.run(name)

    async def complete(self, name: str) -> SessionView:
        """Run a session to its end, timers and children included, or until only a person can continue it."""
        return await self.driver.complete(name)

    async def result(self, name: str) -> Any:
        """Wait for a session's end, wherever it runs, and return its result as the program's type."""
        return await self.driver.result(name)

    def result_of(self, view: SessionView) -> Any:
        """The result of a session that has ended, as the program's type; raises `SessionFailed`."""
        return self.driver.result_of(view)

    async def undo(self, effect_id: str, *, session: str | None = None, by: str, because: str) -> Effect:
        """Undo an acknowledged effect with its tool's undo; the program then receives `EffectCompensated`.

        `session` is needed if several sessions have an effect of this id. If another process holds the session, that
        process does it before it leaves the session.
        """
        return await self.driver.undo(effect_id, session=session, by=by, because=because)

    async def send(
        self, name: str, text: Any, *, message_id: str | None = None, mode: MessageMode = "queue", by: str | None = None
    ) -> InboxMessage:
        """Send a message to a session, from any process. The same id again is the same message."""
        return await self.requests.send(name, text, message_id=message_id, mode=mode, by=by)

    async def answer(self, wait_id: str, answer: Any, *, session: str | None = None, by: str | None = None) -> Wait:
        """Answer a question; `session` is needed if several sessions have one of this id."""
        return await self.requests.answer(wait_id, answer, session=session, by=by)

    async def approve(
        self,
        approval_id: str,
        *,
        session: str | None = None,
        by: str,
        because: str | None = None,
        remember: Literal["once", "this", "tool"] = "once",
    ) -> Approval:
        """Approve exactly the intent that the approval is bound to.

        With `remember="this"` the same call, with `"tool"` every call of its tool, is also allowed in this session
        without asking again. Only questions of an agent's own policy can be answered so. `session` is needed if several
        sessions have an approval of this id.
        """
        return await self.requests.approve(approval_id, session=session, by=by, because=because, remember=remember)

    async def deny(
        self, approval_id: str, *, session: str | None = None, by: str, because: str | None = None
    ) -> Approval:
        """Deny the intent that the approval is bound to. An agent's model is told the reason."""
        return await self.requests.deny(approval_id, session=session, by=by, because=because)

    async def withdraw(self, approval_id: str, *, session: str | None = None, by: str, because: str) -> Approval:
        """Withdraw an approval, or a request for one, before the effect was dispatched; the effect is then refused."""
        return await self.requests.withdraw(approval_id, session=session, by=by, because=because)

    def principals(self) -> AsyncIterator[PrincipalView]:
        """The people and programs that the store knows, with their roles and logins, by name."""
        return self._principals.listing()

    async def add_principal(
        self,
        name: str,
        *,
        kind: Literal["person", "program"] = "person",
        roles: Collection[str] = (),
        logins: Collection[str] = (),
        by: str | None = None,
    ) -> PrincipalView:
        """Add a person or a program. The first principal of a store is you, as its owner; later only an owner may.

        A login is `os:UID`, `db:ROLE`, `token:ID` or `oidc:SUBJECT`. All logins of one person belong to one principal.
        """
        return await self._principals.put(name, kind=kind, roles=roles or None, logins=logins, by=by, must_exist=False)

    async def set_principal(
        self, name: str, *, roles: Collection[str] | None = None, logins: Collection[str] = (), by: str | None = None
    ) -> PrincipalView:
        """Replace the roles of a principal, if they are given, and add logins."""
        return await self._principals.put(name, kind=None, roles=roles, logins=logins, by=by, must_exist=True)

    async def remove_principal(self, name: str, *, login: str | None = None, by: str | None = None) -> PrincipalView:
        """Remove a principal, or only one of its logins; returns the principal. The last owner stays."""
        if login is not None:
            return await self._principals.remove_login(name, login, by=by)
        return await self._principals.remove(name, by=by)

    def tokens(self) -> AsyncIterator[TokenView]:
        """The tokens of the service, the newest first; without their secrets."""
        return self._tokens.listing()

    async def create_token(
        self,
        principal: str,
        *,
        scopes: Collection[str] = (),
        label: str = "",
        expires: str | float | None = "90d",
        by: str | None = None,
    ) -> NewToken:
        """Create a token of a principal, with its roles, for what the scopes name; without scopes, for nothing.

        A scope is `*`, `queue:NAME` or `repository:NAME`; NAME may end with `*`. Its text is returned only here.
        """
        return await self._tokens.create(principal, scopes=scopes, label=label, expires=expires, by=by)

    async def rotate_token(
        self, id: str, *, overlap: str | float = "24h", expires: str | float | None = "90d", by: str | None = None
    ) -> NewToken:
        """Replace a token by a new one with the same scopes; the old one is valid for `overlap` longer."""
        return await self._tokens.rotate(id, overlap=overlap, expires=expires, by=by)

    async def revoke_token(self, id: str, *, by: str | None = None) -> TokenView:
        """Revoke a token: the service refuses it from now on, and ends its streams within seconds."""
        return await self._tokens.revoke(id, by=by)

    def notifications(
        self, *, state: NotificationWord | None = None, channel: str | None = None
    ) -> AsyncIterator[Notification]:
        """What people are told outside Perdure, the newest first."""
        return self.notification_outbox.listing(state=state, channel=channel)

    def notification_channels(self) -> AsyncIterator[NotificationChannel]:
        """The channels that notifications are written for, by name."""
        return self.notification_outbox.registered()

    async def remove_notification_channel(self, name: str, *, by: str | None = None) -> bool:
        """Write nothing more for a channel, and give up what waits for it; False if there is none of this name."""
        return await self.notification_outbox.remove(name, by=by)

    async def retry_notifications(self, id: str | None = None, *, channel: str | None = None) -> int:
        """Send what has failed again: one notification, those of a channel, or all. Returns how many."""
        return await self.notification_outbox.retry(id, channel=channel)

    async def test_notification(self, channel: str) -> Notification:
        """Send a notification that only tests a channel: from here if this process can, otherwise by a sender."""
        return await self.notification_outbox.test(channel)

    async def settle(
        self,
        effect_id: str,
        verdict: VerdictWord,
        *,
        session: str | None = None,
        by: str,
        because: str,
        reference: str | None = None,
        result: Any = None,
    ) -> Effect:
        """Settle an effect in doubt: happened, absent or abandon."""
        return await self.requests.settle(
            effect_id, verdict, session=session, by=by, because=because, reference=reference, result=result
        )

    async def ask_undo(self, effect_id: str, *, session: str | None = None, by: str, because: str) -> Effect:
        """Request the undo of an acknowledged effect; the next process that runs the session does it."""
        return await self.requests.ask_undo(effect_id, session=session, by=by, because=because)

    async def cancel(self, name: str, *, by: str | None = None, now: bool = False) -> SessionView:
        """Ask a session and its children to stop. One that no process runs has ended on return, if it can end.

        With `now`, what is under way is stopped immediately, as by `interrupt`.
        """
        return await self.requests.cancel(name, by=by, now=now)

    async def interrupt(self, name: str, *, by: str | None = None) -> SessionView:
        """Stop what a session does now, wherever it runs: the model's answer, a command, a wait between retries.

        An agent then waits for the next message, a program is paused. The call returns before the session has stopped.
        """
        return await self.requests.interrupt(name, by=by)

    async def close_session(self, name: str, *, by: str | None = None) -> SessionView:
        """End an agent's session as done that waits for the next message; its result is the last answer."""
        return await self.requests.close_session(name, by=by)

    async def rename(self, name: str, title: str, *, by: str | None = None) -> SessionView:
        """Give a session another title; its id stays."""
        return await self.requests.rename(name, title, by=by)

    async def retry(self, name: str, *, by: str | None = None) -> SessionView:
        """Make a failed session ready to run again in place: only what ended it is repeated, nothing settled is."""
        return await self.session_edits.retry(name, by=by)

    async def archive(self, name: str, *, undo: bool = False, by: str | None = None) -> SessionView:
        """Hide a session from the list, or with `undo` show it again. A message or a resume shows it again too."""
        return await self.session_edits.archive(name, undo=undo, by=by)

    def failed(
        self,
        *,
        queue: str | None = None,
        program: str | None = None,
        owner: str | None = None,
        error: str | None = None,
        since: str | float | None = None,
    ) -> AsyncIterator[SessionRecord]:
        """Failed sessions that are not retried any more, not archived, and no children.

        `error` is the code or the type of the error; `since` is a duration back from now.
        """
        part = self.failed_sessions
        return part.listing(part.filter(queue=queue, program=program, owner=owner, error=error, since=since))

    async def retry_all(
        self,
        *,
        queue: str | None = None,
        program: str | None = None,
        owner: str | None = None,
        error: str | None = None,
        since: str | float | None = None,
        by: str | None = None,
    ) -> BulkEdit:
        """Retry every failed session that a filter selects, as `failed` does. A refusal does not stop the others."""
        part = self.failed_sessions
        wanted = part.filter(queue=queue, program=program, owner=owner, error=error, since=since)
        return await part.retry(wanted, by=by)

    async def archive_all(
        self,
        *,
        queue: str | None = None,
        program: str | None = None,
        owner: str | None = None,
        error: str | None = None,
        since: str | float | None = None,
        by: str | None = None,
    ) -> BulkEdit:
        """Archive every failed session that a filter selects, as `failed` does."""
        part = self.failed_sessions
        wanted = part.filter(queue=queue, program=program, owner=owner, error=error, since=since)
        return await part.archive(wanted, by=by)

    async def unpin(self, name: str, *, by: str | None = None) -> SessionView:
        """Let workers of any version of the code run a session that was pinned to its version."""
        return await self.session_edits.unpin(name, by=by)

    async def removal(self, name: str) -> Removal:
        """What a removal of a session would forget; refused if the session cannot be removed."""
        return await self.session_edits.removal(name)

    async def remove(self, name: str, *, because: str, by: str | None = None) -> Removal:
        """Forget the content of a session, for a reason. Its id is not used again, so that no effect is repeated."""
        return await self.session_edits.remove(name, because=because, by=by)

    async def set_model(self, name: str, model: str, *, by: str | None = None) -> SessionView:
        """Choose another model for an agent's session, from its next model call on; refused if it cannot be used."""
        return await self.session_edits.set_model(name, model, by=by)

    async def pause(self, name: str, *, by: str | None = None) -> SessionView:
        """Ask a session to pause between acts."""
        return await self.requests.pause(name, by=by)

    async def resume(self, name: str, *, by: str | None = None) -> SessionView:
        """Let a session continue that was paused, or that waits because its workers crashed or its code did not fit."""
        return await self.requests.resume(name, by=by)

    async def fork(
        self, name: str, *, at: int | None = None, id: str | None = None, lines: Sequence[dict[str, Any]] = ()
    ) -> SessionView:
        """Branch a session at one of its events. The branch inherits what was settled there, and repeats none of it.

        `lines` are added to an agent's transcript in the branch, in the same transaction.
        """
        return await self.requests.fork(name, at=at, id=id, lines=lines)

    async def get(self, name: str) -> SessionView:
        """A session by its id or a prefix of it, with its open waits."""
        return await self.queries.get(name)

    async def recovery_plan(self, name: str) -> list[RecoveryStep]:
        """What a run would do with each unsettled effect, and why; nothing is done."""
        return await self.queries.recovery_plan(name)

    async def state_at(self, name: str, number: int | None = None) -> SessionState:
        """Time travel: the state of a session after event `number`."""
        return await self.queries.state_at(name, number)

    def sessions(
        self,
        *,
        status: StatusWord | None = None,
        waiting_for: WaitWord | None = None,
        owner: str | None = None,
        repository: str | None = None,
        archived: ArchivedWord = "with",
        search: str | None = None,
    ) -> AsyncIterator[SessionRecord]:
        """Sessions, the most recently changed first; `search`: with this text in their id, title or prompt."""
        filters = {"status": status, "waiting_for": waiting_for, "owner": owner, "repository": repository}
        return self.queries.sessions(filters, archived, search)

    def workers(self) -> AsyncIterator[WorkerRecord]:
        """The workers and supervisors that are registered, the most recently seen first."""
        return self.queries.workers()

    def events(self, name: str, *, after: int = 0, follow: bool = False) -> AsyncIterator[Event]:
        """A session's events; with `follow`, each new one as it comes."""
        return self.queries.events(name, after=after, follow=follow)

    def stream(self, name: str, *, after: int = 0) -> AsyncGenerator[StreamEvent, None]:
        """A session as typed events, live text included, until it has ended. It only watches: it runs nothing.

        A reader may leave at any time. Events come from the record and are exact; live text may be incomplete.
        """
        return stream(self, name, after)

    def effects(
        self,
        *,
        session: str | None = None,
        state: EffectStateWord | None = None,
        tool: str | None = None,
        in_doubt: bool = False,
        since: int = 0,
        target: str | None = None,
        reach: ReachWord | None = None,
    ) -> AsyncIterator[Effect]:
        """Effects, the newest first; of one target, such as "branch:main", or of a prefix, such as "path:deploy/*".

        `reach` is how far their tools reach; "outside" are the actions that left this machine or may have.
        """
        filters: dict[str, Any] = {"session": session, "state": state, "tool": tool, "in_doubt": in_doubt}
        return self.queries.effects(**filters, since=since, target=target, reach=reach)

    async def effect(self, effect_id: str, *, session: str | None = None) -> EffectDetails:
        """One effect with its attempts, its result and its whole output; by its id or a unique prefix of it."""
        return await self.queries.effect(effect_id, session=session)

    def artifacts(self, *, session: str | None = None) -> AsyncIterator[Artifact]:
        """Artifacts of all sessions or of one, the newest first."""
        return self.queries.artifacts(session=session)

    async def artifact(self, digest: str) -> bytes:
        """The content of an artifact, by its digest or a unique prefix of it; checked against the digest."""
        return await self.queries.artifact(digest)

    def approvals(self, *, session: str | None = None, decision: DecisionWord | None = None) -> AsyncIterator[Approval]:
        """Approvals; undecided ones come first."""
        return self.queries.approvals(session=session, decision=decision)

    def tasks(self, *, session: str) -> AsyncIterator[Task]:
        """The tasks of a session's plan."""
        return self.queries.tasks(session=session)

    def decisions(self, *, session: str | None = None, incomplete: bool = False) -> AsyncIterator[Decision]:
        """Decisions, the newest first; or those without an outcome."""
        return self.queries.decisions(session=session, incomplete=incomplete)

    def search(self, text: str, *, session: str | None = None) -> AsyncIterator[SearchHit]:
        """Events with all the words of a text, and sessions so named, the last indexed first.

        Each word may be the beginning of a word; words in quotes follow one another. The first search of a store
        indexes it, which takes a while; after that the index follows.
        """
        return self.searches.hits(text, session=session)

    def audit_questions(self) -> list[AuditQuestion]:
        """The questions of an audit, with their parameters, their columns, and the indexes that answer them."""
        return self._audit.questions()

    def audit(
        self, question: str, *, since: Moment = None, until: Moment = None, limit: int | None = None,
        **parameters: str | None,
    ) -> AsyncIterator[AuditRow]:  # fmt: skip
        """The rows that answer a question; `since` and `until`: "7d" (before now), a date in UTC, or a datetime."""
        return self._audit.ask(question, parameters, since, until, limit)

    def facts(self, *, scope: str | None = None) -> AsyncIterator[Fact]:
        """Facts, of all scopes or of one."""
        return self.queries.facts(scope=scope)

    def exemptions(
        self, *, session: str | None = None, rule: str | None = None, active: bool = False
    ) -> AsyncIterator[Exemption]:
        """Exemptions from rules of the policy, the newest first; `active`: only those that still cover something."""
        return self._exemptions.listing(session=session, rule=rule, active=active)

    async def exemption(self, id: str) -> Exemption:
        """One exemption, by its id or a unique prefix of it."""
        return await self._exemptions.get(id)

    def exemption_uses(self, id: str) -> AsyncIterator[ExemptionUse]:
        """The effects that used an exemption, the newest first."""
        return self._exemptions.uses(id)

    async def grant_exemption(
        self,
        rule: str,
        *,
        because: str,
        session: str | None = None,
        repository: str | Path | None = None,
        owner: str | None = None,
        tool: str | None = None,
        expires: str | float = "24h",
        uses: int | None = None,
        by: str | None = None,
    ) -> Exemption:
        """Lift a rule of the policy for what is named, of which all must fit; `expires` may be "never" for a session.

        It lifts no gate of a tool and no other rule. `uses` is how many effects may use it.
        """
        return await self._exemptions.grant(
            rule, because=because, session=session, repository=repository, owner=owner, tool=tool, expires=expires,
            uses=uses, by=by,
        )  # fmt: skip

    async def revoke_exemption(self, id: str, *, because: str, by: str | None = None) -> Exemption:
        """Revoke an exemption: it covers nothing new from now on."""
        return await self._exemptions.revoke(id, because=because, by=by)

    async def set_policy(self, source: str, *, because: str, by: str | None = None) -> PolicyVersion:
        """Make a text the policy of the store, for every process. It is refused if one of its examples fails."""
        return await self._policies.set(source, because=because, by=by)

    async def get_policy(self, at: int | datetime | None = None) -> PolicyView:
        """The active policy, or the one of a version or a time; version 0 is the one that ships."""
        return await self._policies.view(at)

    async def check_policy(self, source: str, *, against: str | float | None = None) -> PolicyCheck:
        """Read a policy and judge its examples; with `against="7d"`, also the effects of that time, as it would."""
        return await self._policies.check(source, against=against)

    async def explain_policy(
        self,
        effect: str | None = None,
        *,
        tool: str | None = None,
        arguments: Mapping[str, Any] | None = None,
        action: Literal["do", "undo", "model"] = "do",
        session: str | None = None,
        sandbox: str | None = None,
        network: bool | None = None,
        origins: Collection[str] = (),
        cost: float | None = None,
    ) -> PolicyExplanation:
        """How the active policy judges an effect, or a call where it would run, with every rule that matches."""
        site = supposed_site(sandbox, network, origins, cost)
        return await self._policies.explain(effect, tool, arguments, action=action, session=session, site=site)

    async def policy_versions(self) -> list[PolicyVersion]:
        """Every version of the policy, the newest first."""
        return await self._policies.history()

    async def freeze_policy(self, *, because: str, by: str | None = None) -> PolicyView:
        """Stop every dispatch in every process. What has begun continues; the next call waits until the thaw."""
        return await self._policies.freeze(because=because, by=by)

    async def thaw_policy(self, *, because: str | None = None, by: str | None = None) -> PolicyView:
        """Allow dispatches again, under the active version; sessions that waited continue."""
        return await self._policies.thaw(because=because, by=by)

    async def set_fact(
        self,
        key: str,
        value: Any,
        *,
        scope: str | None = None,
        session: str | None = None,
        repository: str | Path | None = None,
        expected: int | None = None,
        verify: str | None = None,
        stale_after: str | float | None = None,
        by: str | None = None,
    ) -> Fact:
        """Write a fact of a scope, of a session, or for every session of a repository.

        `expected` is the version that was read (0: none); without it the newest version is overwritten.
        """
        place: dict[str, Any] = {"scope": scope, "session": session, "repository": repository}
        about: dict[str, Any] = {"expected": expected, "verify": verify, "stale_after": stale_after}
        return await self.record_edits.set_fact(key, value, by=by, **place, **about)

    async def verify_fact(
        self,
        key: str,
        *,
        scope: str | None = None,
        session: str | None = None,
        repository: str | Path | None = None,
        by: str | None = None,
    ) -> Fact:
        """Record that a fact was checked and still holds."""
        return await self.record_edits.verify_fact(key, scope=scope, session=session, repository=repository, by=by)

    async def forget_fact(
        self,
        key: str,
        *,
        scope: str | None = None,
        session: str | None = None,
        repository: str | Path | None = None,
        by: str | None = None,
    ) -> Fact:
        """Forget a fact; returns it as it was."""
        return await self.record_edits.forget_fact(key, scope=scope, session=session, repository=repository, by=by)

    def orders(self, *, repository: str | Path | None = None) -> AsyncIterator[Fact]:
        """The standing orders for every agent, and those for agents of a repository."""
        return self.record_edits.orders(repository=repository)

    async def add_order(
        self, text: str, *, name: str | None = None, repository: str | Path | None = None, by: str | None = None
    ) -> Fact:
        """Give a standing order to every agent, or to those of a repository. One of the same name is replaced."""
        return await self.record_edits.add_order(text, name=name, repository=repository, by=by)

    async def remove_order(self, name: str, *, repository: str | Path | None = None) -> Fact:
        """Remove a standing order; returns it as it was."""
        return await self.record_edits.remove_order(name, repository=repository)

    async def add_task(
        self,
        session: str,
        title: str,
        *,
        id: str | None = None,
        parent: str | None = None,
        priority: int = 0,
        by: str | None = None,
    ) -> Task:
        """Add a task to the plan of a session. Without an id, the same title is the same task."""
        return await self.record_edits.add_task(session, title, id=id, parent=parent, priority=priority, by=by)

    async def change_task(
        self, session: str, id: str, state: TaskStateWord, *, because: str | None = None, by: str | None = None
    ) -> Task:
        """Change the state of a task of an agent: open, active, blocked, done or dropped."""
        return await self.record_edits.change_task(session, id, state, because=because, by=by)

    async def settle_decision(self, session: str, id: str, outcome: str, *, by: str | None = None) -> Decision:
        """Record the outcome of a decision of an agent, or of a program that has ended."""
        return await self.record_edits.settle_decision(session, id, outcome, by=by)

    async def export(
        self,
        name: str,
        to: str | Path | IO[bytes] | None = None,
        *,
        move: bool = False,
        sign: bool = False,
        files: bool = True,
        max_files_size: str | int = "1G",
        thin: bool = False,
        by: str | None = None,
    ) -> Exported:
        """Write a session as a bundle: a .zip file, a folder, or into a binary stream; ID.zip without `to`.

        A copy changes nothing here. A move seals the session here; it continues where the bundle is imported. The
        bundle of an agent carries the snapshots of its folder, unless `files` is false; `thin` leaves out what a remote
        has.
        """
        return await self._operations.export(
            name, to, move=move, sign=sign, files=files, max_files_size=max_files_size, thin=thin, by=by
        )

    async def import_(
        self,
        source: str | Path | IO[bytes],
        *,
        id: str | None = None,
        take_back: bool = False,
        keep: Collection[str] | None = None,
        signed_by: str | None = None,
        into: str | Path | None = None,
        files: bool = True,
        keep_owner: bool = False,
        by: str | None = None,
    ) -> ImportedSession:
        """Import a bundle. `keep` names the permissions of the bundle that are not dropped, or `all`.

        Without `keep`, a bundle that this user exported keeps them, and any other loses them. `signed_by` is the name
        of a known key that must have signed the bundle, or `any-known`. `into` is the folder that the session works in
        here: a clone of its repository, or a new folder for its files. You own the session, unless `keep_owner`, which
        an owner of the store may say.
        """
        return await self._operations.import_(
            source,
            id=id,
            take_back=take_back,
            keep=keep,
            signed_by=signed_by,
            into=into,
            files=files,
            keep_owner=keep_owner,
            by=by,
        )

    async def merge(self, name: str, *, mark: bool = False) -> MergeResult:
        """Merge the files of a branch into the folder of its parent; with `mark`, conflicts between markers."""
        return await self._operations.merge(name, mark=mark)

    async def rewind(self, name: str, *, to: int, id: str | None = None) -> RewindResult:
        """Branch an agent's session at event `to`, with the files as they were; it waits for the next message."""
        return await self._operations.rewind(name, to=to, id=id)

    async def plan_rewind(self, name: str, *, to: int | None = None, snapshot: str | None = None) -> RewindPlan:
        """What a rewind of the session's own folder would change; nothing but a snapshot of what is there is made."""
        return await self._operations.plan_rewind(name, to=to, snapshot=snapshot)

    async def rewind_in_place(self, plan: RewindPlan) -> InPlaceRewind:
        """Put the files of a session's own folder back as planned; a path that changed meanwhile is left alone."""
        return await self._operations.rewind_in_place(plan)

    async def diff(
        self,
        name: str,
        *,
        first: int | None = None,
        last: int | None = None,
        parent: bool = False,
        stat: bool = False,
    ) -> FileDiff:
        """What an agent changed in its files: since its start, between two events, or against its parent."""
        return await self._operations.diff(name, first=first, last=last, parent=parent, stat=stat)

    async def brief(self, name: str) -> Brief:
        """A handover summary of a session, made from its record."""
        return await self._operations.brief(name)

    async def prune(
        self, *, ended: str | float | None = None, access: str | float | None = None, plan: bool = False
    ) -> PruneReport:
        """Remove snapshots that no session refers to, and folders of branches that have ended.

        With `ended`, also the snapshots of sessions that ended longer ago than that; with `access`, also the lines of
        the access log that are older than that; with `plan`, only report.
        """
        return await self._operations.prune(ended=ended, access=access, plan=plan)

    def audit_feed(self, *, after: int = 0, follow: bool = False) -> AsyncIterator[FeedEvent]:
        """Every committed event of the store once, in one order; `after` is the position of the last one that you have.

        Keep the position of an event when you have processed it: then none is missed, and the last may come again.
        """
        return self._audit.feed(after, follow=follow)

    async def audit_report(self, *, since: Moment = "7d", until: Moment = None) -> str:
        """A report on a range of time as one HTML page, with plots and tables and without scripts."""
        return await self._operations.audit_report(since, until)

    async def audit_head(
        self, to: str | Path | None = None, *, sign: bool = False, by: str | None = None
    ) -> AuditHead:  # fmt: skip
        """The end of every log of the store, to be kept elsewhere; `to` writes it to a file and records that."""
        return await self._operations.audit_head(to, sign=sign, by=by)

    async def audit_verify(self, against: str | Path, *, signed_by: str | None = None) -> HeadReport:
        """Compare the store with a head of it; `signed_by`: the name of the key that must have signed the head."""
        return await self._operations.audit_verify(against, signed_by=signed_by)

    async def verify(self, name: str | None = None) -> Verification:
        """Check that the log of one session, or of all, is complete, and that the rows agree with it."""
        return await self._operations.verify(name)

    async def roles(self) -> RoleReport:
        """The roles of a store on PostgreSQL, and whether their rights in the database are the declared ones."""
        return await self._operations.roles()

    async def apply_roles(self, prefix: str | None = None) -> RoleReport:
        """Make these roles, and give them their rights; this needs the owner of the tables, or a superuser."""
        return await self._operations.apply_roles(prefix)

    async def doctor(self, *, deep: bool = False) -> DoctorReport:
        """The condition of the store, which guarantees hold, and what to do; `deep` reads all of it."""
        return await self._operations.doctor(deep=deep)

    @cached_property
    def _operations(self) -> Operations:
        from perdure.control.operations import Operations  # late: it is above this layer

        return Operations(self)


def open(
    target: str | Path | None = None,
    *,
    policy: Callable[[Intent], PolicyAnswer] | None = None,
    by: str = "owner",
    clock: Clock | None = None,
    connections: int = 8,
    lease: str | float = LEASE,
    artifacts: str | Path | None = None,
    notifications: Mapping[str, Any] | str | None = None,
    secrets: Sequence[str] | None = None,
) -> Runtime:
    """Open a store and the runtime over it: `async with perdure.open() as rt`.

    `artifacts` is the folder for large values if the store has none of its own: on PostgreSQL, a folder that all
    workers share. `notifications` describes the channels that this process, if it is a worker, sends to. `secrets` are
    references, such as "env:GITHUB_TOKEN", whose values are replaced in all output; PERDURE_SECRETS adds more. The
    address of a service, such as https://..., is that of `perdure.connect`.
    """
    if is_service(target):
        from perdure.client.client import connect  # late: it is above this layer

        return connect(str(target))
    for named in (secrets, os.environ.get("PERDURE_SECRETS")):
        name_secrets(named)
    store = open_store(target, clock=clock, connections=connections)
    return Runtime(store, policy=policy, by=by, lease=lease, artifacts=artifacts, notifications=notifications)


def open_for_worker(
    target: str | Path | None,
    *,
    policy: Callable[[Intent], PolicyAnswer] | None,
    by: str,
    artifacts: str | Path | None,
) -> Runtime:
    """The runtime of a worker: over a store, or over a service, which runs none of its sessions itself."""
    if is_service(target):
        from perdure.client.worker.runtime import open_worker_runtime  # late: it is above this layer

        return open_worker_runtime(str(target), policy=policy, artifacts=artifacts)
    return open(target, policy=policy, by=by, artifacts=artifacts)


def run(
    bound: Bound[T],
    *,
    id: str | None = None,
    store: str | Path | None = None,
    policy: Callable[[Intent], PolicyAnswer] | None = None,
    by: str = "owner",
) -> T:
    """Start or continue a session here and return its result. After a crash, run it again: it continues."""
    with suppress(RuntimeError):  # there is no event loop in this thread, as required
        asyncio.get_running_loop()
        raise ConfigError("perdure.run needs a thread without an event loop.", hint=IN_A_LOOP)

    async def complete() -> T:
        async with open(store, policy=policy, by=by) as runtime:
            session = await runtime.start(bound, id=id)
            result: T = runtime.result_of(await runtime.complete(session.id))
            return result

    return asyncio.run(complete())
