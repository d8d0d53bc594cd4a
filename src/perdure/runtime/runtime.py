"""The runtime: what a user holds. It lists the public verbs; each is written in the part that does it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from perdure.clock import Clock
from perdure.config import is_service
from perdure.domain.effect import Attempt
from perdure.domain.literals import PolicyAnswer
from perdure.domain.worker import Liveness
from perdure.errors import ConfigError
from perdure.runtime.access.principals import Principals
from perdure.runtime.access.tokens import Tokens
from perdure.runtime.audit import Audit
from perdure.runtime.definitions.durations import microseconds
from perdure.runtime.definitions.program import PROGRAMS, Bound
from perdure.runtime.description import Causes
from perdure.runtime.ledger.attempt_registry import is_acting_for, liveness_here
from perdure.runtime.ledger.late_outcomes import LateOutcomeWriter
from perdure.runtime.ledger.policy import Intent, Policy
from perdure.runtime.live_text.delta import Delta
from perdure.runtime.live_text.file import LiveText
from perdure.runtime.notifications.channels import read_channels
from perdure.runtime.notifications.outbox import NotificationOutbox
from perdure.runtime.part_method import LatePart, PartMethod
from perdure.runtime.policy.active_policy import ActivePolicy
from perdure.runtime.policy.exemptions import Exemptions
from perdure.runtime.policy.policies import Policies
from perdure.runtime.queries import Queries, SessionView
from perdure.runtime.record_edits import RecordEdits
from perdure.runtime.requests import Requests
from perdure.runtime.run.driver import Driver
from perdure.runtime.run.large_values import Values
from perdure.runtime.search import Search
from perdure.runtime.session_edits import SessionEdits
from perdure.runtime.start.failed_sessions import FailedSessions
from perdure.runtime.start.queues import Queues
from perdure.runtime.start.rate_limits import RateLimits
from perdure.runtime.start.schedules import Schedules
from perdure.runtime.start.starts import Starts
from perdure.runtime.stream.stream import Streams
from perdure.runtime.workers.heartbeat import Heartbeat
from perdure.runtime.workers.identity import WorkerIdentity, is_here
from perdure.secrets.reference import name_secrets
from perdure.store.store import Store, open_store

__all__ = ["Runtime", "SessionView", "open", "run"]

T = TypeVar("T")
LEASE = "15s"
LAST_PATIENCE = 3.0  # seconds that a process which ends waits for a store that is away
IN_A_LOOP = "Here use `async with perdure.open() as rt`, then `await rt.start(...)` and `await rt.complete(...)`."


def _load_operations() -> Any:
    from perdure.control.operations import Operations  # late: it is above this layer

    return Operations


if TYPE_CHECKING:
    from perdure.control.operations import Operations
else:
    Operations = LatePart("Operations", _load_operations)


class Runtime:
    """An open store with the code that is loaded here. Use it as `async with perdure.open(...) as rt`."""

    __module__ = "perdure"
    _INTERNAL = frozenset({"worker", "is_worker", "life_of", "bind", "leave"})

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
        self.on_delta: Callable[[Delta], None] | None = None  # is called with each piece of a model's output
        self.policy = Policy(policy)
        self.active_policy = ActivePolicy(store.clock)
        self.values = Values(store, artifacts)
        self.heartbeat = Heartbeat(store, microseconds(lease))
        self.live_text = LiveText(store)
        self.causes = Causes()
        self.worker_about: dict[str, Any] = {}  # more of its row: `queues`, `concurrency`, `parent`
        self._worker: WorkerIdentity | None = None
        self.late_outcomes = LateOutcomeWriter(self)
        self.queries = Queries(store, self.policy, self.values)
        self.requests = Requests(store, self.queries, self.policy, self.values, by)
        self.session_edits = SessionEdits(store, self.queries, self.values, by)
        self.starts = Starts(store, self.queries, self.requests, self.policy, self.values, by)
        self.driver = Driver(self)
        self.failed_sessions = FailedSessions(store, self.session_edits)
        self.schedule_handler = Schedules(store, self.queries, self.policy, by, self.requests.cancel)
        self.searches = Search(store)
        self.notification_outbox = NotificationOutbox(store, by, lambda: read_channels(notifications))
        parts = (
            self.queries, self.requests, self.session_edits, self.starts, self.driver, self.failed_sessions,
            self.schedule_handler, self.searches, self.notification_outbox, Streams(self), RecordEdits(store, by),
            Queues(store, by), RateLimits(store, by), Principals(store, by), Tokens(store, by), Audit(store),
            Exemptions(store, by), Policies(store, self.queries, self.values, by),
        )  # fmt: skip
        self._parts: dict[str, object] = {type(one).__name__: one for one in parts}

    def bind(self, verb: PartMethod[..., Any]) -> Callable[..., Any]:
        """A verb as the method of the part that does it."""
        if verb.part not in self._parts:  # the one of the layer above
            self._parts[verb.part] = Operations(self)
        method: Callable[..., Any] = getattr(self._parts[verb.part], verb.name)
        return method

    # Start sessions, and run them here
    start = PartMethod(Starts.start)
    start_many = PartMethod(Starts.start_many)
    run = PartMethod(Driver.run)
    complete = PartMethod(Driver.complete)
    result = PartMethod(Driver.result)
    result_of = PartMethod(Driver.result_of)
    undo = PartMethod(Driver.undo)

    # Read sessions, and watch them
    get = PartMethod(Queries.get)
    sessions = PartMethod(Queries.sessions)
    events = PartMethod(Queries.events)
    effects = PartMethod(Queries.effects)
    effect = PartMethod(Queries.effect)
    artifacts = PartMethod(Queries.artifacts)
    artifact = PartMethod(Queries.artifact)
    approvals = PartMethod(Queries.approvals)
    tasks = PartMethod(Queries.tasks)
    decisions = PartMethod(Queries.decisions)
    facts = PartMethod(Queries.facts)
    state_at = PartMethod(Queries.state_at)
    recovery_plan = PartMethod(Queries.recovery_plan)
    workers = PartMethod(Queries.workers)
    stream = PartMethod(Streams.stream)
    search = PartMethod(Search.search)

    # Direct sessions, from any process
    send = PartMethod(Requests.send)
    answer = PartMethod(Requests.answer)
    approve = PartMethod(Requests.approve)
    deny = PartMethod(Requests.deny)
    withdraw = PartMethod(Requests.withdraw)
    settle = PartMethod(Requests.settle)
    ask_undo = PartMethod(Requests.ask_undo)
    cancel = PartMethod(Requests.cancel)
    interrupt = PartMethod(Requests.interrupt)
    pause = PartMethod(Requests.pause)
    resume = PartMethod(Requests.resume)
    fork = PartMethod(Requests.fork)
    close_session = PartMethod(Requests.close_session)
    rename = PartMethod(Requests.rename)
    retry = PartMethod(SessionEdits.retry)
    archive = PartMethod(SessionEdits.archive)
    unpin = PartMethod(SessionEdits.unpin)
    removal = PartMethod(SessionEdits.removal)
    remove = PartMethod(SessionEdits.remove)
    set_model = PartMethod(SessionEdits.set_model)
    failed = PartMethod(FailedSessions.failed)
    retry_all = PartMethod(FailedSessions.retry_all)
    archive_all = PartMethod(FailedSessions.archive_all)

    # Write to the record
    set_fact = PartMethod(RecordEdits.set_fact)
    verify_fact = PartMethod(RecordEdits.verify_fact)
    forget_fact = PartMethod(RecordEdits.forget_fact)
    orders = PartMethod(RecordEdits.orders)
    add_order = PartMethod(RecordEdits.add_order)
    remove_order = PartMethod(RecordEdits.remove_order)
    add_task = PartMethod(RecordEdits.add_task)
    change_task = PartMethod(RecordEdits.change_task)
    settle_decision = PartMethod(RecordEdits.settle_decision)

    # Queues, limits and schedules
    queues = PartMethod(Queues.queues)
    queue_latency = PartMethod(Queues.queue_latency)
    set_queue = PartMethod(Queues.set_queue)
    rate_limits = PartMethod(RateLimits.rate_limits)
    set_rate_limit = PartMethod(RateLimits.set_rate_limit)
    add_schedule = PartMethod(Schedules.add_schedule)
    schedules = PartMethod(Schedules.schedules)
    pause_schedule = PartMethod(Schedules.pause_schedule)
    resume_schedule = PartMethod(Schedules.resume_schedule)
    remove_schedule = PartMethod(Schedules.remove_schedule)
    backfill = PartMethod(Schedules.backfill)
    trigger_schedule = PartMethod(Schedules.trigger_schedule)

    # Policies, people and notifications
    set_policy = PartMethod(Policies.set_policy)
    get_policy = PartMethod(Policies.get_policy)
    check_policy = PartMethod(Policies.check_policy)
    explain_policy = PartMethod(Policies.explain_policy)
    policy_versions = PartMethod(Policies.policy_versions)
    freeze_policy = PartMethod(Policies.freeze_policy)
    thaw_policy = PartMethod(Policies.thaw_policy)
    exemptions = PartMethod(Exemptions.exemptions)
    exemption = PartMethod(Exemptions.exemption)
    exemption_uses = PartMethod(Exemptions.exemption_uses)
    grant_exemption = PartMethod(Exemptions.grant_exemption)
    revoke_exemption = PartMethod(Exemptions.revoke_exemption)
    principals = PartMethod(Principals.principals)
    add_principal = PartMethod(Principals.add_principal)
    set_principal = PartMethod(Principals.set_principal)
    remove_principal = PartMethod(Principals.remove_principal)
    tokens = PartMethod(Tokens.tokens)
    create_token = PartMethod(Tokens.create_token)
    rotate_token = PartMethod(Tokens.rotate_token)
    revoke_token = PartMethod(Tokens.revoke_token)
    notifications = PartMethod(NotificationOutbox.notifications)
    notification_channels = PartMethod(NotificationOutbox.notification_channels)
    remove_notification_channel = PartMethod(NotificationOutbox.remove_notification_channel)
    retry_notifications = PartMethod(NotificationOutbox.retry_notifications)
    test_notification = PartMethod(NotificationOutbox.test_notification)

    # Files, bundles and the whole store
    export = PartMethod(Operations.export)
    import_ = PartMethod(Operations.import_)
    merge = PartMethod(Operations.merge)
    rewind = PartMethod(Operations.rewind)
    plan_rewind = PartMethod(Operations.plan_rewind)
    rewind_in_place = PartMethod(Operations.rewind_in_place)
    diff = PartMethod(Operations.diff)
    brief = PartMethod(Operations.brief)
    prune = PartMethod(Operations.prune)
    audit_questions = PartMethod(Audit.audit_questions)
    audit = PartMethod(Audit.audit)
    audit_feed = PartMethod(Audit.audit_feed)
    audit_report = PartMethod(Operations.audit_report)
    audit_head = PartMethod(Operations.audit_head)
    audit_verify = PartMethod(Operations.audit_verify)
    verify = PartMethod(Operations.verify)
    doctor = PartMethod(Operations.doctor)
    roles = PartMethod(Operations.roles)
    apply_roles = PartMethod(Operations.apply_roles)

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
        return sorted({*super().__dir__()} - (vars(self).keys() - {"by", "on_delta"}) - self._INTERNAL)

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
        self.late_outcomes.close()  # it waits: only this process knows these outcomes
        self.store.limit_patience(LAST_PATIENCE)
        self.leave()
        self.store.close()

    def leave(self) -> None:
        """End the threads and the worker of this runtime; its store stays open, for others that share it."""
        self.late_outcomes.close()
        self.heartbeat.close()
        if self._worker is not None:
            self._worker.close(acting=is_acting_for(self.store))


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
