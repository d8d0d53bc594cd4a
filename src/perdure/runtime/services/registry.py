"""The services by name, and how a process runs one or all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from perdure.errors import NotFound
from perdure.runtime.runtime import Runtime
from perdure.runtime.services.housekeeping import Housekeeping
from perdure.runtime.services.leases import Leases
from perdure.runtime.services.notifications import NotificationSender
from perdure.runtime.services.schedules import ScheduleService
from perdure.runtime.services.service import Failed, Service, ServiceGroup, log_failure
from perdure.runtime.services.timers import Approvals, Timers

SERVICES: dict[str, type[Service]] = {
    one.name: one for one in (Timers, ScheduleService, Approvals, Leases, NotificationSender, Housekeeping)
}


def make_services(runtime: Runtime, names: Collection[str] | None = None, failed: Failed = log_failure) -> ServiceGroup:
    """All services, or those with these names."""
    return ServiceGroup([SERVICES[name](runtime, failed) for name in SERVICES if names is None or name in names])


async def run_service(runtime: Runtime, name: str, *, parent: str | None = None) -> None:
    """Run one service until cancelled; `parent` is the supervisor that started this process."""
    if name not in SERVICES:
        raise NotFound(f"There is no service {name!r}.", hint=f"The services are {', '.join(SERVICES)}.")
    runtime.worker_about |= {"role": "service", "parent": parent}
    await asyncio.gather(runtime.worker.keep_seen(), SERVICES[name](runtime).run())
