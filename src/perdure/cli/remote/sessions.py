"""Sessions of a service at a terminal: run by its workers, watched here."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from perdure.cli.live.run_report import RunReport, show_report
from perdure.cli.live.session_renderer import is_interactive
from perdure.cli.remote import terminal
from perdure.cli.remote.access import CommandRuntime, open_service, run_on_service
from perdure.cli.remote.service_source import EffectNames
from perdure.cli.shell import Shell
from perdure.cli.text.plain import safe
from perdure.cli.text.sentence import line
from perdure.cli.text.waits import describe_waits
from perdure.control.cancellation import Cancellation, wait_for_stop
from perdure.domain.approval import Approval
from perdure.domain.event import Event
from perdure.domain.session import TERMINAL, SessionRecord, Status
from perdure.errors import PerdureError
from perdure.runtime.runtime import Runtime, SessionView

EARLIER = 20  # events of an agent's session that are shown again when it is resumed
LAST = 200  # events in which the last answer of an agent is looked for
REST = ("session.parked", "session.finished", "session.failed", "session.cancelled")

Begin = Callable[[CommandRuntime], Awaitable[SessionView]]


def run_on_workers(shell: Shell, begin: Callable[[Any], Awaitable[SessionView]]) -> int:
    """Wait until the workers of the service have run the session that `begin` returns, and print the result."""

    async def work(runtime: CommandRuntime) -> RunReport:
        view = await begin(runtime)
        shell.note(f"session {safe(view.id)}")
        if not is_interactive(shell):
            return await report(runtime, await runtime.run(view.uid))
        agent = await terminal.is_agent(runtime, view)
        after = 0 if view.cursor <= 1 else max(0, view.cursor - (EARLIER if agent else 0))
        return await terminal.converse(shell, runtime, view, after, agent=agent, shown=agent)

    return show_report(shell, run_on_service(shell, work))


def start_on_workers(shell: Shell, begin: Callable[[Any], Awaitable[SessionView]]) -> int:
    """Leave the session that `begin` returns to the workers of the service, and print how to return to it."""
    view = run_on_service(shell, begin)
    if shell.json:
        shown = {"id": view.id, "uid": view.uid, "program": view.program, "title": view.title}
        shell.echo_json({"type": "session.started", "session": shown, "worker": None, "served_by": None})
        return 0
    shell.echo(safe(view.id))
    shell.note(
        f"Workers of the service run it. Run `{shell.suggest('attach', view.id)}` to watch it and answer its questions."
    )
    return 0


async def report(runtime: CommandRuntime, view: SessionView) -> RunReport:
    """The state of a session, with what it waits for."""
    if view.status in TERMINAL:
        return RunReport(view, [], runtime.store.clock.now())
    waits = await runtime.store.read(describe_waits, view)
    answer = None
    if view.waits and all(one.kind == "input" and one.ref is None for one in view.waits):
        answer = await last_answer(runtime, view)
    return RunReport(view, waits, runtime.store.clock.now(), answer)


async def last_answer(runtime: CommandRuntime, view: SessionView) -> str | None:
    """The last message of an agent; None if there is none near the end."""
    found = None
    async for event in runtime.events(view.uid, after=max(0, view.cursor - LAST)):
        body = event.body
        if event.kind == "message" and isinstance(body, dict) and body.get("role") == "assistant":
            found = str(body.get("content", ""))
    return found


def attach(shell: Shell, id: str, last: int | None) -> int:
    """Show a session live and ask at a terminal; elsewhere print its events as they come, until it rests."""

    async def work(runtime: CommandRuntime) -> RunReport:
        view = await runtime.get(id)
        after = 0 if last is None else max(0, view.cursor - last)
        if is_interactive(shell):
            agent = await terminal.is_agent(runtime, view)
            return await terminal.converse(shell, runtime, view, after, agent=agent, shown=True)
        names = EffectNames(runtime, view.uid)
        if not _rests(view) or after < view.cursor:
            async for event in runtime.events(view.uid, after=after, follow=True):
                await show(shell, names, event)
                if event.number >= view.cursor:
                    view = await runtime.get(view.uid) if event.kind in REST else view
                    if _rests(view) and event.number >= view.cursor:
                        break
        return (await report(runtime, view))._replace(shown=True)

    return show_report(shell, run_on_service(shell, work))


def follow(shell: Shell, found: SessionRecord) -> None:
    """Print the events of a session after those that were shown, until it has ended."""
    if found.status in TERMINAL:
        return

    async def main() -> None:
        async with open_service(shell) as runtime:
            names = EffectNames(runtime, found.uid)
            async for event in runtime.events(found.uid, after=found.cursor, follow=True):
                await show(shell, names, event)
                if event.kind == "session.finished":
                    return

    asyncio.run(main())


async def show(shell: Shell, names: EffectNames, event: Event) -> None:
    shell.echo_json(event) if shell.json else shell.echo(line(event, await names.of(event)))


async def cancel(runtime: Runtime, id: str, *, by: str, now: bool) -> Cancellation:
    """What a request to cancel led to, as far as the service shows it."""
    found = await runtime.cancel(id, by=by, now=now)
    if now and found.status == Status.RUNNING:
        found = await wait_for_stop(runtime, found)
    unsettled = []
    for state in ("planned", "dispatched"):
        unsettled += [one async for one in runtime.effects(session=found.uid, state=state)]
    return Cancellation(found, found.lease_holder is not None, unsettled, [])


def _rests(view: SessionView) -> bool:
    return view.status in (*TERMINAL, Status.WAITING)


async def standing(runtime: Runtime, voted: Approval) -> tuple[str, int]:
    """Under which name a vote was recorded, and how many votes count."""
    from perdure.cli.remote.loader import ApprovalAnswer
    from perdure.client.verbs import segment

    assert isinstance(runtime, CommandRuntime)
    try:
        me = await runtime.connection.read("/v1/self", dict)
        path, where = f"/v1/approvals/{segment(voted.id)}", {"session": voted.session_uid}
        found = await runtime.connection.read(path, ApprovalAnswer, where)
    except PerdureError:
        return runtime.by, 1
    counted = sum(vote.decision == "approved" for vote in found.votes)
    return str(me.get("name", runtime.by)), counted if voted.decision is None else max(counted, 1)
