"""The fleet: queues with their throughput and latency, processes, schedules, sessions that do not continue, and failed
sessions that nothing retries any more (dead letters). Each part shows what the caller may see."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from perdure.console.live import Watch, live_list
from perdure.console.page import ConsoleContext, ConsolePage, action
from perdure.console.plots.sparkline import sparkline
from perdure.control.supervisor.overview import Overview, ProcessView, store_overview
from perdure.domain.caller import Place, Verb
from perdure.domain.queue import QueueView
from perdure.domain.queue_latency import QueueLatency
from perdure.domain.schedule import Schedule
from perdure.domain.session import SessionRecord
from perdure.domain.worker import Liveness, WorkerRecord
from perdure.errors import ConfigError, NotAllowed, NotFound
from perdure.runtime.workers.identity import worker_locks
from perdure.server.authorization import Sight, missing, missing_name
from perdure.server.operation import Touch
from perdure.server.page import Page, PageQuery, keyed_page
from perdure.store.moves import page, queue_latency, schedule

SHOWN = 50  # dead letters on a page
DEEPEST = 20


async def show(context: ConsoleContext) -> Response:
    overview = await _overview(context) if context.caller.may(Verb.READ_WORKER) else None
    processes = [] if overview is None else [row for one in overview.processes for row in _rows(one, 0)]
    return context.show(
        "fleet.html", overview=overview, processes=processes, queues=await _queues(context),
        latencies=await _latencies(context), schedules=await _schedules(context), dead=await _dead_letters(context),
        place_of=_place, sparkline=sparkline,
    )  # fmt: skip


async def _overview(context: ConsoleContext) -> Overview:
    locks = worker_locks(context.store)

    def life(one: WorkerRecord) -> Liveness:
        return Liveness.CANNOT_TELL if locks is None else locks.life(one)

    return await context.store.read(store_overview, life)


def _rows(one: ProcessView, depth: int) -> list[tuple[int, ProcessView]]:
    below = [row for child in one.children for row in _rows(child, depth + 1)] if depth < DEEPEST else []
    return [(depth, one), *below]


async def _queues(context: ConsoleContext) -> list[QueueView]:
    return [one async for one in context.runtime.queues() if context.caller.may(Verb.READ_QUEUE, Place(queue=one.name))]


async def _schedules(context: ConsoleContext) -> list[Schedule]:
    if not context.caller.has_role_for(Verb.READ_SCHEDULE):
        return []
    return [one async for one in context.runtime.schedules() if context.caller.may(Verb.READ_SCHEDULE, _place(one))]


def _place(one: Schedule) -> Place:
    options: dict[str, Any] = one.options if isinstance(one.options, dict) else {}
    return Place(queue=str(options.get("queue") or "default"))


async def _latencies(context: ConsoleContext) -> list[QueueLatency]:
    found = await context.store.read(queue_latency.of_queues)
    return [one for one in found if context.caller.may(Verb.READ_QUEUE, Place(queue=one.name))]


async def _dead_letters(context: ConsoleContext) -> Page[SessionRecord]:
    """A page of them, the most recently failed first; the address names where it begins."""
    if not context.caller.has_role_for(Verb.READ_SESSION):
        return Page([])
    context.query = PageQuery(after=context.given("after") or None, limit=SHOWN)
    wanted = context.runtime.failed_sessions.filter()
    return await keyed_page(context, Sight(context, Verb.READ_SESSION), page.failed_sessions, (int, str), wanted=wanted)


async def live(context: ConsoleContext) -> Response:
    async def sign() -> object:
        found = await _overview(context) if context.caller.may(Verb.READ_WORKER) else None
        alive = [] if found is None else [(one.id, one.state) for top in found.processes for _, one in _rows(top, 0)]
        return alive, await _queues(context)

    return live_list(context, Watch(sign))


async def change_queue(context: ConsoleContext) -> Response:
    """Pause a queue, or let it continue."""
    name = context.params["name"]
    if not context.caller.may(Verb.CHANGE_QUEUE, Place(queue=name)):
        raise missing(Touch.PLACE, name)
    match context.field("do"):
        case "pause":
            await context.runtime.set_queue(name, paused=True, by=context.by)
        case "resume":
            await context.runtime.set_queue(name, paused=False, by=context.by)
        case _:
            raise ConfigError("This button is not known.", hint="Load the page again.")
    return context.back("changed")


async def change_schedule(context: ConsoleContext) -> Response:
    """Pause a schedule, let it continue, or start one of its sessions now."""
    name, runtime = context.params["name"], context.runtime
    try:
        place = _place(await context.store.read(schedule.get, name))
    except NotFound:
        raise missing_name("schedule", name) from None
    if not context.caller.may(Verb.READ_SCHEDULE, place):
        raise missing_name("schedule", name)
    if not context.caller.may(Verb.CHANGE_SCHEDULE, place):
        raise NotAllowed(f"{context.caller.name} may not do this here ({Verb.CHANGE_SCHEDULE}).")
    match context.field("do"):
        case "pause":
            await runtime.pause_schedule(name, by=context.by)
        case "resume":
            await runtime.resume_schedule(name, by=context.by)
        case "run":
            await runtime.trigger_schedule(name, by=context.by)
            return context.back("triggered")
        case _:
            raise ConfigError("This button is not known.", hint="Load the page again.")
    return context.back("changed")


PAGES = (
    ConsolePage("/fleet", Verb.READ_QUEUE, Touch.LISTING, show),
    ConsolePage("/live/fleet", Verb.READ_QUEUE, Touch.LISTING, live, streams=True),
    action("/queues/{name}", Verb.CHANGE_QUEUE, Touch.LISTING, change_queue),
    action("/schedules/{name}", Verb.CHANGE_SCHEDULE, Touch.LISTING, change_schedule),
)
