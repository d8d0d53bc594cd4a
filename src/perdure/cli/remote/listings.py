"""What the commands that list load from a service: what they would read of the store, up to their limit."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal

from perdure.cli.remote.loader import MirrorLoader, first
from perdure.client.remote_runtime import RemoteRuntime
from perdure.client.verbs import segment
from perdure.domain.event import Event
from perdure.domain.schedule import Schedule
from perdure.domain.session import SessionRecord, Status
from perdure.domain.wait import Wait
from perdure.runtime.definitions.durations import microseconds

Given = Mapping[str, Any]  # the parameters of the command
EFFECTS = 20  # that `show` prints
MANY_WAITS = 5000
MOST = 1000


async def load_sessions(loader: MirrorLoader, runtime: RemoteRuntime, given: Given) -> None:
    """`ls`: of each state, the most recently changed."""
    repository = given.get("repository")
    filters: dict[str, Any] = {
        "archived": given.get("archived") or "without", "search": given.get("search") or None,
        "waiting_for": given.get("waiting_for"), "owner": given.get("owner"),
        "repository": None if repository is None else await asyncio.to_thread(os.path.abspath, repository),
    }  # fmt: skip
    uids = set()
    for status in [given["status"]] if given.get("status") else Status:
        found = await first(runtime.sessions(status=str(status), **filters), given["limit"] + 1)  # type: ignore[arg-type]
        loader.mirror.put("session", found)
        uids |= {one.uid for one in found}
    open_waits = await first(runtime.connection.listing("/v1/waits", Wait), MANY_WAITS)
    loader.mirror.put("wait", [one for one in open_waits if one.session_uid in uids])


async def load_effects(loader: MirrorLoader, runtime: RemoteRuntime, given: Given) -> None:
    """`effects`: the newest that fit."""
    if given.get("effect"):
        await loader.effect(given["effect"])
        return
    since = given.get("since")
    filters: dict[str, Any] = {name: given.get(name) for name in ("session", "state", "tool", "target")}
    start = 0 if since is None else runtime.store.clock.now() - microseconds(since)
    number = MOST if given.get("outside") else given["limit"] + 1
    found = runtime.effects(in_doubt=bool(given.get("in_doubt")), since=max(0, start), **filters)
    if given.get("session"):
        await loader.session(given["session"])
    await loader.effects(await first(found, number))


async def load_approvals(loader: MirrorLoader, runtime: RemoteRuntime, given: Given) -> None:
    """`approvals`: those that wait, or all."""
    if given.get("id"):
        await loader.approval(given["id"])
        return
    decision: Literal["waiting"] | None = None if given.get("everything") else "waiting"
    if given.get("session"):
        await loader.session(given["session"])
    found = await first(runtime.approvals(session=given.get("session"), decision=decision), given["limit"] + 1)
    for one in found:
        await loader.approval(one.id, one.session_uid)


async def load_session(loader: MirrorLoader, runtime: RemoteRuntime, given: Given) -> None:
    """`show`: a session, its effects, and its last events."""
    view = await loader.session(given["id"])
    through = given.get("at") or view.cursor
    begin = 1 if given.get("at") else max(1, through - given["last"] + 1)
    events: list[Event] = await loader.events(view, begin, through)
    most = MOST if given.get("json") else EFFECTS + 1
    shown = await first(runtime.effects(session=view.uid), most)
    await loader.effects(shown)
    known = {one.id for one in shown}
    others = dict.fromkeys(one.effect_id for one in events if one.effect_id is not None and one.effect_id not in known)
    for id in others:
        await loader.effect(id, view.uid)


async def load_tasks(loader: MirrorLoader, runtime: RemoteRuntime, given: Given) -> None:
    view = await loader.session(given["id"])
    loader.mirror.put("task", await first(runtime.tasks(session=view.uid), given["limit"] + 1))


async def load_decisions(loader: MirrorLoader, runtime: RemoteRuntime, given: Given) -> None:
    if given.get("id"):
        await loader.session(given["id"])
    listed = runtime.decisions(session=given.get("id"), incomplete=bool(given.get("incomplete")))
    found = await first(listed, given["limit"] + 1)
    loader.mirror.put("decision", found)
    await loader.of_sessions(one.session_uid for one in found)


async def load_facts(loader: MirrorLoader, runtime: RemoteRuntime, given: Given) -> None:
    loader.mirror.put("fact", await first(runtime.facts(scope=given.get("scope")), given["limit"] + 1))


async def load_orders(loader: MirrorLoader, runtime: RemoteRuntime, given: Given) -> None:
    if given.get("everything"):
        loader.mirror.put("fact", await first(runtime.facts(), MANY_WAITS))
        loader.mirror.put("session", await first(runtime.sessions(), MOST))  # they name the repositories
        return
    where = await asyncio.to_thread(os.path.abspath, given["repo"])
    loader.mirror.put("fact", await first(runtime.orders(repository=where), MOST))


async def load_limits(loader: MirrorLoader, runtime: RemoteRuntime, _: Given) -> None:
    loader.mirror.put("rate_limit", await first(runtime.rate_limits(), MOST))


async def load_schedules(loader: MirrorLoader, runtime: RemoteRuntime, given: Given) -> None:
    if given.get("name"):
        path = f"/v1/schedules/{segment(given['name'])}"
        loader.mirror.put("schedule", [await runtime.connection.read(path, Schedule)])
        loader.mirror.put("session", await runtime.connection.read(f"{path}/sessions", list[SessionRecord]))
        return
    loader.mirror.put("schedule", await first(runtime.schedules(), MOST))


async def load_exemptions(loader: MirrorLoader, runtime: RemoteRuntime, given: Given) -> None:
    if given.get("id"):
        found = [await runtime.exemption(given["id"])]
        loader.mirror.put("exemption_use", await first(runtime.exemption_uses(found[0].id), MOST))
    else:
        filters = {name: given.get(name) for name in ("session", "rule")}
        found = await first(runtime.exemptions(active=bool(given.get("active")), **filters), given["limit"] + 1)
    if given.get("session"):
        await loader.session(given["session"])
    loader.mirror.put("exemption", found)
    await loader.of_sessions(one.session_uid for one in found if one.session_uid is not None)


async def load_artifacts(loader: MirrorLoader, runtime: RemoteRuntime, given: Given) -> None:
    uid = None if given.get("id") is None else (await loader.session(given["id"])).uid
    found = await first(runtime.artifacts(session=uid), given["limit"] + 1)
    loader.mirror.put("artifact", found)
    await loader.of_sessions(one.session_uid for one in found)


LISTINGS: dict[str, Callable[[MirrorLoader, RemoteRuntime, Given], Awaitable[None]]] = {
    "ls": load_sessions,
    "artifacts": load_artifacts,
    "effects": load_effects,
    "approvals": load_approvals,
    "show": load_session,
    "tasks": load_tasks,
    "decisions": load_decisions,
    "facts": load_facts,
    "orders": load_orders,
    "limits": load_limits,
    "schedules": load_schedules,
    "exemptions": load_exemptions,
}
