"""The operations of the service, by noun. `TABLE` is all of them."""

from __future__ import annotations

from perdure.server.operation import Operation
from perdure.server.operations import (
    approvals,
    artifacts,
    audits,
    bundles,
    decisions,
    effects,
    events,
    exemptions,
    facts,
    fleet,
    notifications,
    orders,
    policies,
    principals,
    queues,
    schedules,
    search,
    self,
    session_requests,
    sessions,
    tasks,
    waits,
    work,
)

MODULES = (
    self, sessions, session_requests, search, bundles, events, effects, approvals, waits, tasks, decisions, facts,
    orders, artifacts, queues, schedules, exemptions, policies, audits, fleet,
    notifications, principals, work,
)  # fmt: skip
TABLE: tuple[Operation, ...] = tuple(one for module in MODULES for one in module.OPERATIONS)
