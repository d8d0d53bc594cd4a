"""The processes of a store, and its condition: workers, tree, overview, doctor, verification."""

from __future__ import annotations

from perdure.control.doctor.report import DoctorReport
from perdure.control.supervisor.overview import Overview, process_overview, store_overview
from perdure.control.verification import Verification
from perdure.domain.caller import Verb
from perdure.domain.worker import WorkerRecord
from perdure.runtime.workers.liveness import locks_of_store
from perdure.server.operation import Body, Context, Operation, Touch
from perdure.server.page import Page, PageQuery, page_of


class DoctorQuery(Body, frozen=True):
    """`deep` reads every page and every chain, which takes long."""

    deep: bool = False


class VerifyQuery(Body, frozen=True):
    """The id of one session; without it, all are checked."""

    name: str | None = None


async def workers(context: Context) -> Page[WorkerRecord]:
    found = [one async for one in context.runtime.workers()]
    return page_of(found, context.query, lambda one: (-one.started_at, one.id))


async def tree(context: Context) -> Overview:
    return await context.store.read(process_overview, locks_of_store(context.store).life)


async def overview(context: Context) -> Overview:
    return await context.store.read(store_overview, locks_of_store(context.store).life)


async def doctor(context: Context) -> DoctorReport:
    return await context.runtime.doctor(deep=context.query.deep)


async def verify(context: Context) -> Verification:
    return await context.runtime.verify(context.query.name)


OPERATIONS = (
    Operation(
        name="workers.list", method="GET", path="/v1/workers", verb=Verb.READ_WORKER, touches=Touch.STORE,
        handler=workers, answer=Page[WorkerRecord], query=PageQuery, summary="Workers and supervisors.",
    ),
    Operation(
        name="tree.get", method="GET", path="/v1/tree", verb=Verb.READ_WORKER, touches=Touch.STORE, handler=tree,
        answer=Overview, summary="The processes that run the store, as their supervisors see them.",
    ),
    Operation(
        name="tree.overview", method="GET", path="/v1/overview", verb=Verb.READ_WORKER, touches=Touch.STORE,
        handler=overview, answer=Overview, summary="Processes, queues, and sessions that do not continue.",
    ),
    Operation(
        name="doctor.get", method="GET", path="/v1/doctor", verb=Verb.READ_DOCTOR, touches=Touch.STORE,
        handler=doctor, answer=DoctorReport, query=DoctorQuery,
        summary="The condition of the store, which guarantees hold, and what to do.",
    ),
    Operation(
        name="doctor.verify", method="GET", path="/v1/verify", verb=Verb.READ_DOCTOR, touches=Touch.STORE,
        handler=verify, answer=Verification, query=VerifyQuery,
        summary="Whether the log of one session, or of all, is complete and consistent.",
    ),
)  # fmt: skip
