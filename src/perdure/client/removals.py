"""Verbs that return what they change or remove, where the service answers with nothing.

The record is read by requests of their own, before the change or after it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from perdure.client.verbs import segment
from perdure.domain.fact import Fact, private_scope, repository_scope
from perdure.domain.principal import PrincipalView
from perdure.domain.schedule import Schedule
from perdure.errors import NotFound

if TYPE_CHECKING:
    from perdure.client.remote_runtime import RemoteRuntime


async def change_fact(
    runtime: RemoteRuntime, verb: Literal["verify", "forget"], key: str, scope: str | None, session: str | None,
    repository: str | Path | None,
) -> Fact:  # fmt: skip
    """Verify a fact, or forget it; returns it as it is then, or as it was."""
    place = {"scope": scope, "session": session, "repository": None if repository is None else str(repository)}
    where = scope or ""
    if session is not None:
        where = private_scope((await runtime.get(session)).uid)
    elif repository is not None:
        where = repository_scope(str(repository))
    before = await _find(runtime, where, key)
    body = {"key": key} | {name: value for name, value in place.items() if value is not None}
    await runtime.connection.post(f"/v1/facts/{verb}", body, None)
    found = before if verb == "forget" else await _find(runtime, where, key)
    if found is None:
        raise NotFound(f"There is no fact {key[:60]!r} there.", hint="`perdure facts` lists all facts.")
    return found


async def _find(runtime: RemoteRuntime, scope: str, key: str) -> Fact | None:
    return next((one for one in [one async for one in runtime.facts(scope=scope)] if one.key == key), None)


async def remove_order(runtime: RemoteRuntime, name: str, repository: str | Path | None) -> Fact:
    place = {} if repository is None else {"repository": str(repository)}
    known = [one async for one in runtime.orders(repository=repository) if one.key == name]
    await runtime.connection.post("/v1/orders/remove", {"name": name} | place, None)
    return known[-1]


async def remove_schedule(runtime: RemoteRuntime, name: str) -> Schedule:
    path = f"/v1/schedules/{segment(name)}"
    found = await runtime.connection.read(path, Schedule)
    await runtime.connection.post(f"{path}/remove", {}, None)
    return found


async def remove_principal(runtime: RemoteRuntime, name: str, login: str | None) -> PrincipalView:
    known = {one.name: one async for one in runtime.principals()}
    body = {"login": login} if login else {}
    await runtime.connection.post(f"/v1/principals/{segment(name)}/remove", body, None)
    if login is not None:
        known = {one.name: one async for one in runtime.principals()}
    if name not in known:
        raise NotFound(f"There is no principal {name!r:.80}.")
    return known[name]
