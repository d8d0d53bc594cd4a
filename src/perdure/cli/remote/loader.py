"""What a command reads of a service, put into a mirror: the objects that are named, and what belongs to them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterable
from itertools import islice
from typing import Any, TypeVar

import msgspec

from perdure.client.remote_runtime import RemoteRuntime
from perdure.client.verbs import segment
from perdure.domain.approval import Approval, Vote
from perdure.domain.effect import Effect
from perdure.domain.event import Event
from perdure.domain.session import SessionRecord
from perdure.domain.wait import Wait, WaitKind
from perdure.errors import NotFound, PerdureError
from perdure.runtime.queries import SessionView
from perdure.store.databases.sqlite.mirror import Mirror

T = TypeVar("T")
AT_ONCE = 16  # requests at a time
DEPTH = 5  # parents of parents


class ApprovalAnswer(msgspec.Struct, frozen=True):
    """An approval as the service shows it."""

    approval: Approval
    effect: Effect
    votes: list[Vote]


class MirrorLoader:
    """Loads objects of a service into a mirror, each once."""

    def __init__(self, runtime: RemoteRuntime, mirror: Mirror) -> None:
        self._runtime = runtime
        self.mirror = mirror
        self._loaded: set[str] = set()

    async def named(self, name: str, of: str | None = None) -> None:
        """Whatever has this name or a name that begins with it: a session, an approval, a question or an effect.

        `of` is the session that an approval, a question or an effect must belong to.
        """
        looks = (self.session(name), self.approval(name, of), self.wait(name, of), self.effect(name, of))
        found = await asyncio.gather(*looks, return_exceptions=True)
        errors = [one for one in found if isinstance(one, BaseException)]
        if unexpected := [one for one in errors if not isinstance(one, PerdureError)]:
            raise unexpected[0]
        if len(errors) == len(looks) and (told := [one for one in errors if not isinstance(one, NotFound)]):
            raise told[0]

    async def session(self, name: str) -> SessionView:
        """A session with its waits, its approvals, its unsettled effects, and its parents."""
        view = await self._runtime.get(name)
        if view.uid in self._loaded:
            return view
        self._loaded.add(view.uid)
        self.mirror.put("session", [view])
        self.mirror.put("wait", view.waits)
        asked = [one async for one in self._runtime.approvals(session=view.uid)]
        await self._all(self.approval(one.id, view.uid) for one in asked)
        for state in ("planned", "dispatched"):
            self.mirror.put("effect", [one async for one in self._runtime.effects(session=view.uid, state=state)])
        await self.relatives(view)
        return view

    async def relatives(self, one: SessionRecord) -> None:
        """The sessions that its lines name, and the children that it waits for."""
        for _ in range(DEPTH):
            if one.parent_uid is None or one.parent_uid in self._loaded:
                break
            one = await self._place(one.parent_uid)
        if one.forked_from is not None and one.forked_from not in self._loaded:
            await self._place(one.forked_from)

    async def _place(self, uid: str) -> SessionRecord:
        self._loaded.add(uid)
        view = await self._runtime.get(uid)
        self.mirror.put("session", [view])
        return view

    async def children(self, waits: Iterable[Wait], depth: int = DEPTH) -> None:
        for one in waits:
            if depth and one.kind == "child" and one.ref is not None:
                await self.children((await self.session(one.ref)).waits, depth - 1)

    async def waits(self, view: SessionView, depth: int = DEPTH) -> None:
        """A session with what describes the things that it waits for, and nothing else of it."""
        self._loaded.add(view.uid)
        self.mirror.put("session", [view])
        self.mirror.put("wait", view.waits)
        for one in view.waits:
            if one.kind == WaitKind.APPROVAL:
                await self.approval(one.id, view.uid)
            elif one.kind == WaitKind.EFFECT and one.ref is not None:
                await self.effect(one.ref)
            elif one.kind == WaitKind.CHILD and one.ref is not None and depth:
                await self.waits(await self._runtime.get(one.ref), depth - 1)

    async def of_sessions(self, uids: Iterable[str]) -> None:
        """The rows of sessions alone."""
        await self._all(self._place(uid) for uid in dict.fromkeys(uids) if uid not in self._loaded)

    async def approval(self, name: str, session: str | None = None) -> None:
        query = {} if session is None else {"session": session}
        found = await self._runtime.connection.read(f"/v1/approvals/{segment(name)}", ApprovalAnswer, query)
        self.mirror.put("approval", [found.approval])
        self.mirror.put("effect", [found.effect])
        self.mirror.put("vote", found.votes)
        uid = found.approval.session_uid
        asked = await self._runtime.connection.read(f"/v1/waits/{segment(found.approval.id)}", Wait, {"session": uid})
        self.mirror.put("wait", [asked])  # also when it is resolved
        await self.session(uid)

    async def wait(self, name: str, session: str | None = None) -> None:
        query = {} if session is None else {"session": session}
        found = await self._runtime.connection.read(f"/v1/waits/{segment(name)}", Wait, query)
        self.mirror.put("wait", [found])
        await self.session(found.session_uid)

    async def effect(self, name: str, session: str | None = None) -> None:
        """An effect with its attempts."""
        details = await self._runtime.effect(name, session=session)
        self.mirror.put("effect", [details.effect])
        self.mirror.put("attempt", details.attempts)
        await self.of_sessions([details.effect.session_uid])

    async def effects(self, found: Iterable[Effect]) -> None:
        await self._all(self.effect(one.id, one.session_uid) for one in found)

    async def events(self, view: SessionRecord, first: int, last: int) -> list[Event]:
        """Some events of a session."""
        found: list[Event] = []
        async for one in self._runtime.events(view.uid, after=first - 1):
            if one.number > last:
                break
            found.append(one)
        self.mirror.put("event", found)
        return found

    async def _all(self, work: Iterable[Awaitable[Any]]) -> None:
        """Some requests at a time, so that neither side is flooded."""
        left = iter(work)
        while batch := list(islice(left, AT_ONCE)):
            await asyncio.gather(*batch)


async def first(items: AsyncIterator[T], number: int) -> list[T]:
    """The first items of a list."""
    found: list[T] = []
    async for one in items:
        found.append(one)
        if len(found) == number:
            break
    return found
