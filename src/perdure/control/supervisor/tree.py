"""The tree of `perdure serve`, declared in one function.

Each service is a group of its own, so that one which fails again and again is restarted within its own budget. Workers
come last: they are started after the services and stopped before them, all at the same time, because they only drain.
The process `http` is a group too: it answers while the workers drain. Then services and `http` end at the same time.

The budget of the workers grows with their number. A session that crashes its process costs a restart for each crash,
and is stopped by its crash count; the budget is for workers that cannot work at all.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from perdure.clock import SECOND
from perdure.control.supervisor.specification import ChildSpec, GroupSpec
from perdure.runtime.services.registry import SERVICES

GROUPS = {  # the services of each group
    "leases": ("leases",),
    "timers": ("timers", "schedules"),
    "approvals": ("approvals",),
    "notifications": ("notifications",),
    "housekeeping": ("housekeeping",),
}
RESTARTS, PER_WORKER = 10, 10  # of workers within a minute
GRACE = 15 * SECOND  # what a worker gets after its drain to await dispatched attempts
WATCHDOG = 120 * SECOND  # a process that gives no sign of life for so long is killed
HTTP_RESTARTS = 10  # within a minute


class HttpSpec(msgspec.Struct, frozen=True):
    """How the process `http` is started: its words, and the sockets that it inherits."""

    words: tuple[str, ...]
    descriptors: tuple[int, ...]


def serve_tree(
    program: Sequence[str],
    worker_words: Sequence[str],
    *,
    parent: str,
    workers: int,
    drain: int,
    restarts: int | None = None,
    http: HttpSpec | None = None,
    without: Collection[str] = (),
) -> GroupSpec:
    """The tree. `program` starts `perdure`, `worker_words` are the options of workers, `parent` is the supervisor.

    `without` names services that have nothing to do here.
    """

    def worker(number: int) -> ChildSpec:
        command = (*program, "worker", *worker_words, "--parent", parent)
        return ChildSpec(f"worker-{number}", command, shutdown=drain + GRACE, watchdog=WATCHDOG)

    groups = _service_groups(program, parent, without)
    if http is not None:
        command = (*program, "service", "http", *http.words, "--parent", parent)
        child = ChildSpec("http", command, watchdog=WATCHDOG, descriptors=http.descriptors)
        groups.append(GroupSpec("http", (child,), restarts=HTTP_RESTARTS))
    if workers:
        most = RESTARTS + PER_WORKER * workers if restarts is None else restarts
        members = tuple(worker(number) for number in range(1, workers + 1))
        groups.append(GroupSpec("workers", members, restarts=most, stops_together=True, ends_first=True))
    return GroupSpec("serve", tuple(groups), restarts=1, stops_together=True)


def _service_groups(program: Sequence[str], parent: str, without: Collection[str]) -> list[GroupSpec]:
    def service(name: str) -> ChildSpec:
        return ChildSpec(name, (*program, "service", name, "--parent", parent), watchdog=WATCHDOG)

    wanted = SERVICES.keys() - set(without)
    groups = [
        GroupSpec(group, tuple(service(one) for one in names if one in wanted)) for group, names in GROUPS.items()
    ]
    return [group for group in groups if group.children]
