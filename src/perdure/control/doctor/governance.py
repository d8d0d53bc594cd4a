"""What the level D4 needs: who governs the store, from evidence in it and in its server."""

from __future__ import annotations

from pathlib import Path

import msgspec

from perdure.agent.commands.sandbox import available
from perdure.clock import SECOND
from perdure.control.doctor.gates import GateReport, examine_gates
from perdure.control.roles import RoleReport, examine_roles
from perdure.domain.policy import PolicyDocument, parse, shipped
from perdure.errors import ConfigError
from perdure.store.move import StoreTransaction
from perdure.store.moves import control_log, policy

DAY = 86_400 * SECOND
LATELY = 30  # days
HEAD = "audit.head"  # the line of the control log that `perdure audit head --to FILE` leaves


class Governance(msgspec.Struct, frozen=True, kw_only=True):
    """The evidence. Times are microseconds; None: never, or it cannot be seen."""

    policy_version: int = 0  # 0: none was set
    policy_error: str | None = None  # why this version of Perdure cannot read it
    frozen_at: int | None = None
    principals: int = 0
    owners: int = 0
    roles: RoleReport | None = None
    audit_head_at: int | None = None
    archived_at: int | None = None
    archive_failed_at: int | None = None
    artifacts: str | None = None  # the folder that is named in the settings
    sandbox: str = "none"
    gates: GateReport = GateReport()
    unpriced: tuple[str, ...] = ()  # models that were used lately without a price, although the policy limits costs


def examine_governance(tx: StoreTransaction, *, postgres: bool, artifacts: str | None = None) -> Governance:
    """Read the evidence from a store."""
    fence, newest = policy.fence(tx), policy.newest(tx)
    document, why = None, None
    try:
        document = shipped() if newest is None else parse(newest.source)
    except ConfigError as error:
        why = error.message
    roles, sandbox = examine_roles(tx) if postgres else None, available(Path.cwd())
    principals, owners = tx.one("doctor.principals") or (0, 0)
    head = next(iter(control_log.listing(tx, kind=HEAD, limit=1)), None)
    archived, failed = (tx.one("doctor.archive") or (None, None)) if postgres else (None, None)
    return Governance(
        policy_version=fence.version, policy_error=why, frozen_at=fence.frozen_at, principals=principals,
        owners=owners, roles=roles, audit_head_at=None if head is None else head.at,
        archived_at=archived, archive_failed_at=failed, artifacts=artifacts, sandbox=str(sandbox),
        unpriced=_unpriced(tx, document), gates=examine_gates(tx, roles=roles, sandbox=sandbox, policy=document),
    )  # fmt: skip


def _unpriced(tx: StoreTransaction, document: PolicyDocument | None) -> tuple[str, ...]:
    """The models that a budget of costs does not limit."""
    if document is None or all(one.of != "cost" for one in document.budgets):
        return ()
    since = tx.now - tx.now % DAY - LATELY * DAY
    return tuple(row[0] for row in tx.all("doctor.unpriced", since=since, limit=100))
