"""A runtime over a service: the same verbs, records and errors, without a store.

Sessions run on the workers of the service. `run`, `complete` and `result` wait for them by the event stream.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Sequence
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import IO, Any, NoReturn, Self

from perdure.client import audit, bulk, bundles, removals, verbs
from perdure.client.completion import is_over, needs_nothing_else, rests, wait_until
from perdure.client.connection import ServiceCall, ServiceConnection
from perdure.client.event_stream import follow_events, read_events
from perdure.client.session_stream import stream
from perdure.control.audit.head import AuditHead
from perdure.control.audit.report_page import page
from perdure.control.session_files import ImportedSession
from perdure.domain.event import Event
from perdure.domain.fact import Fact
from perdure.domain.policy_version import PolicyVersion
from perdure.domain.principal import PrincipalView
from perdure.domain.schedule import Schedule
from perdure.domain.session import TERMINAL, SessionRecord, Status
from perdure.domain.token import NewToken, TokenView, token_id
from perdure.errors import ConfigError, Damaged, NotFound, SessionFailed, SessionWaiting
from perdure.ids import encode
from perdure.interchange.export import Exported
from perdure.runtime.audit import Moment
from perdure.runtime.definitions.program import PROGRAMS, Bound, check_bound, get_program
from perdure.runtime.part_method import PartMethod
from perdure.runtime.policy.policies import PolicyView
from perdure.runtime.queries import SessionView, waiting_sentence
from perdure.runtime.runtime import Runtime
from perdure.runtime.start.failed_sessions import BulkEdit
from perdure.runtime.start_options import StartOptions
from perdure.runtime.stream.events import StreamEvent
from perdure.store.audit.question import AuditQuestion, AuditRow
from perdure.store.audit.questions import QUESTIONS
from perdure.store.moves.feed import FeedEvent


class RemoteRuntime(Runtime):
    """What `perdure.connect` returns."""

    __module__ = "perdure"

    def __init__(self, connection: ServiceConnection, *, by: str = "owner") -> None:
        self.connection = connection
        self.by = by

    def __getattr__(self, name: str) -> NoReturn:
        if name in ("store", "queries", "requests", "driver", "starts", "values"):
            raise ConfigError("This runtime is a service: it has no store here.", hint="Use its verbs.")
        raise AttributeError(name)

    def bind(self, verb: PartMethod[..., Any]) -> Callable[..., Any]:
        """A verb that is not defined here: a request to the service."""
        return verbs.request_of(verb, self.connection)

    def close(self) -> None:
        """Nothing must be closed in order; `async with` ends the connections."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.connection.close()

    async def start(self, bound: Bound[Any], *, id: str | None = None, **options: Any) -> SessionView:
        """Start a session of a program that the service has. `repository` is a folder on the machine of its workers."""
        check_bound(bound)
        if bound.files:
            raise ConfigError("Files cannot be attached through a service.", hint="Put their text into the prompt.")
        return await self.start_program(bound.program.name, bound.arguments, id=id, **options)

    async def start_program(
        self, program: str, arguments: dict[str, Any], *, id: str | None = None, **options: Any
    ) -> SessionView:
        """Start a session of a program by its name; its code need not be here."""
        if isinstance(begins := options.get("not_before"), datetime):
            options["not_before"] = StartOptions.read(not_before=begins).not_before
        if isinstance(folder := options.get("repository"), Path):
            options["repository"] = str(folder)
        body = {"program": program, "arguments": arguments} | ({} if id is None else {"id": id})
        body |= {name: value for name, value in options.items() if value is not None}
        found: SessionView = await self.connection.post("/v1/sessions", body, SessionView)
        return found

    async def start_many(
        self, bounds: Sequence[Bound[Any]], *, ids: Sequence[str] | None = None, **options: Any
    ) -> list[str]:
        """Start many sessions with the options of `start`, each by a request of its own; returns their ids in order."""
        return await bulk.start_many(lambda bound, id: self.start(bound, id=id, **options), bounds, ids)

    async def failed(self, *, since: str | float | None = None, **filters: str | None) -> AsyncIterator[SessionRecord]:
        """Failed sessions that are not retried any more, the oldest first."""
        given = filters | {"since": None if since is None else str(since)}
        query = {name: value for name, value in given.items() if value is not None}
        found = [one async for one in self.connection.listing("/v1/failed", SessionRecord, query)]
        for one in sorted(found, key=lambda one: one.uid):
            yield one

    async def retry_all(self, *, by: str | None = None, **filters: Any) -> BulkEdit:
        """Retry every failed session that a filter selects, each by a request of its own."""
        del by  # the service records who the token belongs to
        return await bulk.change_failed(self.failed(**filters), self.retry)

    async def archive_all(self, *, by: str | None = None, **filters: Any) -> BulkEdit:
        """Archive every failed session that a filter selects, each by a request of its own."""
        del by
        return await bulk.change_failed(self.failed(**filters), self.archive)

    def events(self, name: str, *, after: int = 0, follow: bool = False) -> AsyncIterator[Event]:
        """A session's events; with `follow`, each new one as it comes, over lost connections."""
        path = f"/v1/sessions/{verbs.segment(name)}/events"
        return (follow_events if follow else read_events)(self.connection, path, after)

    async def add_schedule(self, name: str, bound: Bound[Any], *, by: str | None = None, **options: Any) -> Schedule:
        """Start a session of a program of the service at certain times."""
        check_bound(bound)
        del by  # the service records who the token belongs to
        body = {"program": bound.program.name, "arguments": bound.arguments} | options
        found: Schedule = await self.connection.post(f"/v1/schedules/{verbs.segment(name)}", body, Schedule)
        return found

    async def backfill(self, name: str, since: datetime | str, until: datetime | str) -> list[str]:
        """Start a session of a schedule for each past tick that has none; returns their ids."""
        times = (one.isoformat() if isinstance(one, datetime) else one for one in (since, until))
        body = dict(zip(("since", "until"), times, strict=True))
        made: dict[str, list[str]] = await self.connection.post(
            f"/v1/schedules/{verbs.segment(name)}/backfill", body, dict
        )
        return made["sessions"]

    async def remove_schedule(self, name: str, *, by: str | None = None) -> Schedule:  # noqa: ARG002
        """Remove a schedule; returns it as it was."""
        return await removals.remove_schedule(self, name)

    async def remove_principal(
        self, name: str, *, login: str | None = None, by: str | None = None  # noqa: ARG002
    ) -> PrincipalView:  # fmt: skip
        """Remove a principal, or only one of its logins; returns the principal."""
        return await removals.remove_principal(self, name, login)

    async def rotate_token(
        self, id: str, *, overlap: str | float = "24h", expires: str | float | None = "90d", by: str | None = None
    ) -> NewToken:
        """Replace a token by a new one with the same scopes. The token of this client needs no right to do it."""
        del by
        body = {"overlap": overlap, "expires": expires}
        made: NewToken = await self.connection.post(f"{self._token_path(id)}/rotate", body, NewToken)
        return made

    async def revoke_token(self, id: str, *, by: str | None = None) -> TokenView:
        """Revoke a token: the service refuses it from now on. That of this client needs no right to do it."""
        del by
        gone: TokenView = await self.connection.post(f"{self._token_path(id)}/revoke", {}, TokenView)
        return gone

    def _token_path(self, given: str) -> str:
        """Where a token is changed; its whole text is accepted too, and is not sent."""
        id = token_id(given) or given
        return "/v1/self" if id == self.connection.token_id else f"/v1/tokens/{verbs.segment(id)}"

    async def artifact(self, digest: str) -> bytes:
        """The content of an artifact, checked against its digest."""
        answer = await self.connection.ask(ServiceCall("GET", f"/v1/artifacts/{verbs.segment(digest)}", {}))
        if not sha256(answer.content).hexdigest().startswith(digest):
            raise Damaged(f"The content of artifact {digest:.80} is not what its digest says.")
        return answer.content

    async def verify_fact(
        self, key: str, *, scope: str | None = None, session: str | None = None, repository: str | Path | None = None,
        by: str | None = None,  # noqa: ARG002 - the service records who the token belongs to
    ) -> Fact:  # fmt: skip
        """Record that a fact was checked and still holds."""
        return await removals.change_fact(self, "verify", key, scope, session, repository)

    async def forget_fact(
        self, key: str, *, scope: str | None = None, session: str | None = None, repository: str | Path | None = None,
        by: str | None = None,  # noqa: ARG002 - the service records who the token belongs to
    ) -> Fact:  # fmt: skip
        """Forget a fact; returns it as it was."""
        return await removals.change_fact(self, "forget", key, scope, session, repository)

    async def remove_order(self, name: str, *, repository: str | Path | None = None) -> Fact:
        """Remove a standing order; returns it as it was."""
        return await removals.remove_order(self, name, repository)

    async def set_policy(self, source: str, *, because: str, by: str | None = None) -> PolicyVersion:
        """Make a text the policy of the store, for every process."""
        del by
        made: PolicyView = await self.connection.post("/v1/policy", {"source": source, "because": because}, PolicyView)
        return next(one for one in await self.policy_versions() if one.version == made.version)

    async def policy_versions(self) -> list[PolicyVersion]:
        """Every version of the policy, the newest first."""
        return [one async for one in self.connection.listing("/v1/policy/history", PolicyVersion)]

    def audit_questions(self) -> list[AuditQuestion]:
        return list(QUESTIONS.values())

    async def audit(
        self, question: str, *, since: Moment = None, until: Moment = None, limit: int | None = None,
        **parameters: str | None,
    ) -> AsyncIterator[AuditRow]:  # fmt: skip
        """The rows that answer a question."""
        async for one in audit.ask(self.connection, question, since, until, parameters, limit):
            yield one

    def audit_feed(self, *, after: int = 0, follow: bool = False) -> AsyncIterator[FeedEvent]:
        """Every committed event of the store once, in one order; `after` is the position of the last that you have."""
        return audit.feed(self.connection, after, follow=follow)

    async def audit_report(self, *, since: Moment = "7d", until: Moment = None) -> str:
        """A report on a range of time as one HTML page, with plots and tables and without scripts."""
        return page(await audit.report(self.connection, since, until))

    async def audit_head(
        self, to: str | Path | None = None, *, sign: bool = False, by: str | None = None
    ) -> AuditHead:  # fmt: skip
        """The end of every log of the store, checked and, with `sign`, signed here; `to` writes it to a file."""
        return await audit.head(self.connection, to, sign=sign, by=by or self.by)

    async def retry_notifications(self, id: str | None = None, *, channel: str | None = None) -> int:
        """Send what has failed again: one notification, those of a channel, or all. Returns how many."""
        body = {name: value for name, value in (("id", id), ("channel", channel)) if value is not None}
        made: dict[str, int] = await self.connection.post("/v1/notifications/retry", body, dict[str, int])
        return made["retried"]

    async def remove_notification_channel(self, name: str, *, by: str | None = None) -> bool:
        """Write nothing more for a channel, and give up what waits for it; False if there is none of this name."""
        del by
        try:
            await self.connection.post(f"/v1/notification-channels/{verbs.segment(name)}/remove", {}, None)
        except NotFound:
            return False
        return True

    def stream(self, name: str, *, after: int = 0) -> AsyncGenerator[StreamEvent, None]:
        """A session as typed events, live text included, until it has ended. It only watches: it runs nothing."""
        return stream(self, name, after)

    async def export(
        self, name: str, to: str | Path | IO[bytes] | None = None, *, move: bool = False, sign: bool = False,
        files: bool = True, max_files_size: str | int = "1G", thin: bool = False, by: str | None = None,
    ) -> Exported:  # fmt: skip
        """Write a session as a bundle: a .zip file, or into a binary stream; ID.zip without `to`."""
        del by
        if sign or max_files_size != "1G":
            raise ConfigError("A service signs no bundle and takes no limit of their files.", hint="Leave them out.")
        view, body = await self.get(name), {"move": move, "files": files, "thin": thin}
        return await bundles.export(self.connection, view.id, view.uid, to, body)

    async def import_(
        self, source: str | Path | IO[bytes], *, id: str | None = None, take_back: bool = False,
        keep: Collection[str] | None = None, signed_by: str | None = None, into: str | Path | None = None,
        files: bool = True, keep_owner: bool = False, by: str | None = None,
    ) -> ImportedSession:  # fmt: skip
        """Import a .zip bundle. Through a service its permissions are dropped, and its files are not put anywhere."""
        del by, files
        if keep or into is not None:
            raise ConfigError("A service keeps no permissions and makes no folder.", hint="Leave them out.")
        flags = {"take_back": take_back, "keep_owner": keep_owner}
        query = {name: "true" for name, given in flags.items() if given}
        query |= {name: text for name, text in (("id", id), ("signed_by", signed_by)) if text is not None}
        return await bundles.import_(self.connection, source, query)

    async def run(self, name: str) -> SessionView:
        """Wait until the workers of the service have run a session to its end, or until it waits."""
        return await wait_until(self, name, rests)

    async def complete(self, name: str) -> SessionView:
        """Wait for the end of a session; raises `SessionWaiting` when only a person can continue it."""
        view = await wait_until(self, name, needs_nothing_else)
        if view.status not in TERMINAL:
            raise SessionWaiting(waiting_sentence(view), waits=list(view.waits))
        return view

    async def result(self, name: str) -> Any:
        """Wait for a session's end and return its result, as the program's type if the program is loaded here."""
        return self.result_of(await wait_until(self, name, is_over))

    def result_of(self, view: SessionView) -> Any:
        """The result of a session that has ended, as the program's type; raises `SessionFailed`."""
        if view.status != Status.DONE:
            error = view.error or {}
            why = error.get("message") or error.get("type") or view.status
            raise SessionFailed(f"Session {view.id} is {view.status}: {why}", session=view.id, error=error)
        if view.program in PROGRAMS:
            return get_program(view.program).signature.decode_result(encode(view.result))
        return view.result
