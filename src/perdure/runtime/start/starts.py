"""The start of sessions, one or many, with their options."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from perdure.errors import ConfigError, IllegalMove
from perdure.ids import new_name
from perdure.runtime.definitions.program import Bound, check_bound
from perdure.runtime.ledger.policy import Policy
from perdure.runtime.policy.repository_policy import look_at
from perdure.runtime.queries import Queries, SessionView
from perdure.runtime.requests import Requests
from perdure.runtime.run.large_values import Values
from perdure.runtime.start_options import ConflictWord, StartOptions
from perdure.store.moves import session_start
from perdure.store.moves.session import NewSession
from perdure.store.moves.session_start import Started
from perdure.store.store import Store

BATCH = 100  # sessions that are started in one transaction


class Starts:
    """Starts sessions. `by` is who starts those that have no owner."""

    def __init__(
        self, store: Store, queries: Queries, requests: Requests, policy: Policy, values: Values, by: str
    ) -> None:
        self._store = store
        self._queries = queries
        self._requests = requests
        self._policy = policy
        self._values = values
        self._by = by

    async def start(
        self, bound: Bound[Any], *, id: str | None = None, owner: str | None = None,
        repository: str | Path | None = None, title: str | None = None, queue: str = "default", priority: int = 0,
        not_before: datetime | str | int | None = None, key: str | None = None, retries: int | None = None,
        timeout: str | float | None = None, pin: bool = False, debounce: str | float | None = None,
        on_conflict: ConflictWord = "queue",
    ) -> SessionView:  # fmt: skip
        """Start a session. A known id with equal arguments is that session; with others it is a `Conflict`.

        It begins not before a time, or a duration from now. It is cancelled when it has not ended `timeout` after
        that. After a failure it is retried up to `retries` times. `key` names what limits per key count. With
        `debounce`, requests of the same queue, program and key within that time are one session, with the newest
        arguments. `on_conflict` decides what happens if a session of the same queue and key has not ended: start
        another (`queue`), return that one (`keep`), or cancel it first (`replace`).
        """
        options = StartOptions.read(
            owner=owner, repository=repository, title=title, queue=queue, priority=priority, not_before=not_before,
            key=key, retries=retries, timeout=timeout, pin=pin, debounce=debounce, on_conflict=on_conflict,
        )  # fmt: skip
        return await self.start_with(options, bound, id)

    async def start_with(
        self, options: StartOptions, bound: Bound[Any], id: str | None, *, by: str | None = None
    ) -> SessionView:
        """Start one session with options that are checked."""
        new = await self._new(bound, id, options, await _place(options))
        actor = by or options.owner or self._by
        (made,) = await self._write([new], options, actor)
        await self._finish_replacement(made, actor)
        return await self._queries.get(made.session.id)

    async def start_many(
        self, /, bounds: Sequence[Bound[Any]], *, ids: Sequence[str] | None = None, **options: Any
    ) -> list[str]:
        """Start many sessions with the options of `start`, a hundred in each transaction; returns their ids in order.

        With ids, the same call again starts only what is missing.
        """
        return await self._start_batches(bounds, ids, StartOptions.read(**options))

    async def _start_batches(
        self, bounds: Sequence[Bound[Any]], ids: Sequence[str] | None, options: StartOptions
    ) -> list[str]:
        """A process that is killed in between has started the first ones.

        Two calls with the same ids must not wait for each other, so each transaction creates sessions in the order of
        ids.
        """
        if ids is not None and (len(ids) != len(bounds) or len(set(ids)) != len(ids)):
            raise ConfigError(f"{len(bounds)} sessions need {len(bounds)} different ids; {len(set(ids))} given.")
        started: list[str] = []
        more = await _place(options)
        for first in range(0, len(bounds), BATCH):
            places = list(range(first, min(first + BATCH, len(bounds))))
            if ids is not None:
                places.sort(key=lambda one: ids[one])
            new = [await self._new(bounds[one], ids[one] if ids else None, options, more) for one in places]
            found = dict(zip(places, await self._write(new, options, options.owner or self._by), strict=True))
            for place in sorted(found):
                await self._finish_replacement(found[place], options.owner or self._by)
                started.append(found[place].session.id)
        return started

    async def _new(self, bound: Bound[Any], id: str | None, options: StartOptions, more: dict[str, Any]) -> NewSession:
        check_bound(bound)
        arguments, claims = self._values.place(bound.arguments)
        if bound.files:
            claims = (*claims, *await asyncio.to_thread(self._values.put_files, bound.files))
        return NewSession(
            id=new_name("s") if id is None else id,
            program=bound.program.name,
            arguments=arguments,
            claims=claims,
            under_policy=self._policy.is_given,
            receives=bound.program.may_receive and not bound.program.reads_messages,
            debounced=options.debounce is not None,
            **(options.columns(self._store.clock.now()) | more),
        )

    async def _write(self, new: list[NewSession], options: StartOptions, by: str) -> list[Started]:
        move = session_start.start(new, by=by, debounce=options.debounce is not None, on_conflict=options.on_conflict)
        return await self._store.write(move)

    async def _finish_replacement(self, made: Started, by: str) -> None:
        """Stop the children of replaced sessions, and wake what waits for them. The next process that runs such a
        session does the same, if this one is killed first."""
        for uid in made.replaced:
            with suppress(IllegalMove):  # it has ended meanwhile
                await self._requests.cancel(uid, by=by)
            await self._requests.wake_parent(uid)


async def _place(options: StartOptions) -> dict[str, Any]:
    """What identifies the repository of a folder, and the policy that it has."""
    if options.repository is None:
        return {}
    return await asyncio.to_thread(look_at, options.repository)
