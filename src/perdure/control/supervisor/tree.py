"""The tree of `perdure serve`, declared in one function.

Each service is a group of its own, so that one which fails again and again is restarted within its own budget. Workers
come last: they are started after the services and stopped before them, all at the same time, because they only drain.

The budget of the workers grows with their number. A session that crashes its process costs a restart for each crash,
and is stopped by its crash count; the budget is for workers that cannot work at all.
"""

from __future__ import annotations

from collections.abc import Sequence

from perdure.clock import SECOND
from perdure.control.supervisor.specification import ChildSpec, GroupSpec
from perdure.runtime.services.registry import SERVICES

GROUPS = {  # the services of each group
    "leases": ("leases",),
    "timers": ("timers", "schedules"),
    "approvals": ("approvals",),
    "housekeeping": ("housekeeping",),
}
RESTARTS, PER_WORKER = 10, 10  # of workers within a minute
GRACE = 15 * SECOND  # what a worker gets after its drain to await dispatched attempts
WATCHDOG = 120 * SECOND  # a process that gives no sign of life for so long is killed


def serve_tree(
    program: Sequence[str],
    worker_words: Sequence[str],
    *,
    parent: str,
    workers: int,
    drain: int,
    restarts: int | None = None,
) -> GroupSpec:
    """The tree. `program` starts `perdure`, `worker_words` are the options of workers, `parent` is the supervisor."""

    def service(name: str) -> ChildSpec:
        return ChildSpec(name, (*program, "service", name, "--parent", parent), watchdog=WATCHDOG)

    def worker(number: int) -> ChildSpec:
        command = (*program, "worker", *worker_words, "--parent", parent)
        return ChildSpec(f"worker-{number}", command, shutdown=drain + GRACE, watchdog=WATCHDOG)

    groups = [
        GroupSpec(group, tuple(service(name) for name in names if name in SERVICES)) for group, names in GROUPS.items()
    ]
    return GroupSpec(
        "serve",
        (
            *(group for group in groups if group.children),
            GroupSpec(
                "workers",
                tuple(worker(number) for number in range(1, workers + 1)),
                restarts=RESTARTS + PER_WORKER * workers if restarts is None else restarts,
                stops_together=True,
            ),
        ),
        restarts=1,
    )
