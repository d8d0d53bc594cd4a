"""Idempotency keys: a request that is sent again is carried out once, and answered again.

The row of the request commits with the request's first move, so there is no moment at which one is durable and not the
other. The answer is made again from what the row names; no body is kept.

    no row           carry it out
    another digest   422: the key was used for something else
    in flight        409, here or in another process: the second one to commit finds the row of the first
    begun            by a process that still carries it out: 409. It renews its hold on the row, and each of its moves
                     is refused once another one has taken over
    begun, and left  the service was killed between two moves: carry it out again, which completes it
    done             answer from the record

`If-Match` is checked in the transaction of the first move too: before the move, and after it, when what it changes is
locked. So of two requests with the same version, one is made.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec

from perdure.clock import SECOND
from perdure.domain.move_guard import guarding
from perdure.domain.request import DONE, CarriedOut
from perdure.domain.session import SessionRecord
from perdure.errors import ConfigError, KeyReused, PerdureError, RequestInFlight, VersionChanged
from perdure.ids import digest, new_uid
from perdure.server.operation import Context, Ids, Touch
from perdure.server.requests.versions import is_next, of_session, version_of
from perdure.store.move import Move, StoreTransaction
from perdure.store.moves import request as requests

HEADER = "idempotency-key"
_KEY = re.compile(r"[!-~]{1,200}")
_TAG = re.compile(r'(?:W/)?"([0-9]{1,18})"')
Handle = Callable[[Context], Awaitable[Any]]


class RequestGuard:
    """Commits the row of a request with its first move, and checks what that move changes."""

    def __init__(self, context: Context, key: str | None, digest: str, expected: int | None, holder: str) -> None:
        self._context = context
        self._holder = holder
        self._key = key
        self._digest = digest
        self._expected = expected
        self._own: set[str] = set()  # the ids of the moves of this request
        self._has_moved = False
        self.is_kept = False  # the row is committed

    def continue_from(self, known: CarriedOut) -> None:
        """The moves continue a request that was begun before: it has changed the version that it was sent for."""
        self._own.add(known.move_id)
        self._has_moved = True

    def around(self, move: Move[Any], run: Callable[[Any], Any]) -> Callable[[Any], Any]:
        self._own.add(move.id)
        keeps = self._key is not None and self._is_decisive(move)

        def guarded(tx: StoreTransaction) -> Any:
            is_first = not self._has_moved
            if is_first:
                self._check_version(tx)
            result = run(tx)
            if is_first:
                self._check_change(tx)
            if keeps:
                self._keep(tx, result)
            tx.after_commit.append(lambda: self._landed(keeps))
            return result

        return guarded

    def _is_decisive(self, move: Move[Any]) -> bool:
        operation = self._context.operation
        if operation.children_first:
            return (
                move.kind == "outsider" and move.invocation is not None and move.invocation.args[0] == self._context.uid
            )
        return operation.decisive in (None, move.name)

    def _landed(self, keeps: bool) -> None:
        self._has_moved = True
        self.is_kept = self.is_kept or keeps

    def _check_version(self, tx: StoreTransaction) -> None:
        version = version_of(self._context.operation)
        if self._expected is not None and version is not None:
            found = version(tx, self._context)
            if found != self._expected:
                raise _changed(found, self._expected)

    def _check_change(self, tx: StoreTransaction) -> None:
        """Refuse a move that waited for the change of another one; the row of a session was locked before."""
        version = version_of(self._context.operation)
        if self._expected is not None and version is not None and version is not of_session:
            found = version(tx, self._context)
            if not is_next(version, found, self._expected):
                raise _changed(found - 1, self._expected)

    def _keep(self, tx: StoreTransaction, result: Any) -> None:
        operation, caller, key = self._context.operation, self._context.caller.key, str(self._key)
        known = requests.get(tx, caller, key)
        if known is not None and known.move_id in self._own:
            if operation.many_moves:
                requests.check_holder(known, self._holder)
            return
        ids = operation.made(result) if operation.made is not None and not operation.many_moves else {}
        requests.insert(
            tx, caller, key, operation=operation.name, digest=self._digest, ids=ids,
            is_done=not operation.many_moves, holder=self._holder,
        )  # fmt: skip


class Idempotency:
    """Carries requests out, each key once. There is one for each process."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._holder = new_uid()
        self.in_flight: set[tuple[str, str]] = set()

    async def carry_out(self, context: Context) -> Any:
        """The answer to a request, carried out now or before."""
        if context.operation.method == "GET":
            return await self._handle(context)
        return await self.carry_out_under(context, read_key(context), read_version(context))

    async def carry_out_under(self, context: Context, key: str | None, expected: int | None) -> Any:
        """The same under a key, of a version of what is changed; each may be None."""
        asked = "" if key is None else digest_of(context)
        guard = RequestGuard(context, key, asked, expected, self._holder)
        if key is None:
            with guarding(guard):
                return await self._handle(context)
        name = (context.caller.key, key)
        if name in self.in_flight:
            raise RequestInFlight("This request is being carried out.", retry_after=1)
        self.in_flight.add(name)
        try:
            return await self._once(context, key, asked, guard)
        finally:
            self.in_flight.discard(name)

    async def _once(self, context: Context, key: str, asked: str, guard: RequestGuard) -> Any:
        operation, caller = context.operation, context.caller.key
        known = await context.store.read(requests.get, caller, key)
        if known is not None:
            if (known.operation, known.digest) != (operation.name, asked):
                raise KeyReused("This idempotency key was used for another request.")
            if known.state == DONE:
                assert operation.again is not None
                return await operation.again(context, known.ids)
            await context.store.write(requests.hold(caller, key, holder=self._holder))
            guard.continue_from(known)
        async with self._holding(context, key):
            with guarding(guard):
                answer = await self._handle(context)
            if operation.many_moves or not guard.is_kept:
                ids = ids_of_answer(context, answer)
                given: dict[str, Any] = {"operation": operation.name, "digest": asked, "ids": ids}
                await context.store.write(requests.finish(caller, key, **given, holder=self._holder))
        return answer

    @asynccontextmanager
    async def _holding(self, context: Context, key: str) -> AsyncIterator[None]:
        """Renew the hold on the row of a request with several moves; release it if the request is not completed."""
        if not context.operation.many_moves:
            yield
            return
        of = {"caller": context.caller.key, "key": key, "holder": self._holder}

        async def renew() -> None:
            while True:
                await asyncio.sleep(requests.HOLD / SECOND / 3)
                with suppress(PerdureError):  # there is no row before the first move
                    await context.store.write(requests.hold(**of))

        renewal = asyncio.create_task(renew())
        try:
            yield
        except BaseException:
            with suppress(PerdureError):
                await asyncio.shield(context.store.write(requests.release(**of)))
            raise
        finally:
            renewal.cancel()


def _changed(found: int, expected: int) -> VersionChanged:
    return VersionChanged(f"It has changed since it was read: it is at version {found}, not {expected}.")


def ids_of_answer(context: Context, answer: Any) -> Ids:
    """What names the answer, if the request committed several moves or none."""
    if isinstance(answer, SessionRecord):
        return {"session": answer.uid}
    if context.operation.touches is not Touch.SESSION and context.operation.made is not None:
        return context.operation.made(answer)
    return {}


def read_key(context: Context) -> str | None:
    """The idempotency key of a request, if it has one."""
    given = context.request.headers.getlist(HEADER)
    if not given:
        return None
    if context.operation.method != "POST":
        return None  # the others change nothing more when they are repeated
    if len(given) != 1 or _KEY.fullmatch(given[0]) is None:
        raise ConfigError("An Idempotency-Key has 1 to 200 visible ASCII characters, and is sent once.", status=400)
    return given[0]


def read_version(context: Context) -> int | None:
    """The version of what a request changes, as the client has read it."""
    given = context.request.headers.get("if-match")
    if given is None or given.strip() == "*":
        return None
    if version_of(context.operation) is None:
        raise ConfigError(
            "If-Match is not possible here: what this operation changes has no ETag.",
            hint="Sessions, queues, schedules, principals and the policy have one. A fact has `expected` in the body.",
            status=400,
        )
    match = _TAG.fullmatch(given.strip())
    if match is None:
        raise VersionChanged("It has changed since it was read.", hint="If-Match is the ETag of what is changed.")
    return int(match[1])


def digest_of(context: Context) -> str:
    """What a request asks for: the operation, what it touches, and its query and body."""
    asked = [
        context.operation.name, sorted(context.params.items()), _plain(context.query), _plain(context.body),
        context.content_digest,
    ]  # fmt: skip
    return digest(msgspec.json.encode(asked, order="sorted").decode())


def _plain(given: Any) -> Any:
    return None if given is None else msgspec.to_builtins(given)
