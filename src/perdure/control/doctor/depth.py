"""Depth: which of the levels D0 to D4 a deployment reaches, what each level needs, and what of it is in force.

A need is met when the inspection found evidence for it, not when it is intended. A level is reached when its needs and
those of every level below are met and nothing is wrong with the store. What cannot be seen from here is not met.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from perdure.clock import SECOND
from perdure.control.doctor.governance import DAY
from perdure.control.doctor.report import Depth, DepthLevel, DoctorReport, Need
from perdure.domain.worker import Liveness

NAMES = {
    "D0": "notebook, one-shot job",
    "D1": "one person, one machine",
    "D2": "one node, a team",
    "D3": "many nodes",
    "D4": "governed",
}
HEAD_AGE = 7 * DAY  # a head of the logs that is kept elsewhere is younger


def of(report: DoctorReport) -> Depth:
    """The levels, and the highest that is reached unless something is wrong with the store."""
    levels = [DepthLevel(name, NAMES[name], list(needs(report))) for name, needs in NEEDS.items()]
    kind = {"memory": "D0", "files": "D0", "sqlite": "D1", "postgres": "D3"}[report.kind]
    if faults := [finding.what for finding in report.findings if finding.level == "wrong"]:
        return Depth(None, "no level", kind, faults, levels)
    if report.kind != "memory" and not report.exists:
        return Depth(None, "no level", kind, ["a first session, which creates the store"], levels)
    reached = [one.level for one in levels[: _most(levels, kind)]]
    held = reached[-1]
    later = next((one for one in levels if one.level > held), None)
    missing = [] if later is None else [one.what for one in later.needs if not one.met]
    return Depth(held, NAMES[held], None if later is None else later.level, missing, levels)


def _most(levels: list[DepthLevel], kind: str) -> int:
    """How many levels are reached. What the kind of store gives by itself needs nothing else."""
    count = 0
    for one in levels:
        if one.level > kind and any(not need.met for need in one.needs):
            break
        count += 1
    return count


def _any_store(report: DoctorReport) -> Iterator[Need]:
    yield Need("a store", report.exists or report.kind == "memory", report.place)


def _own_machine(report: DoctorReport) -> Iterator[Need]:
    held = {"sqlite": "a database: a SQLite file", "postgres": "a database: PostgreSQL"}
    wanted = "a SQLite file in place of files:" if report.kind == "files" else "a SQLite file: leave --store out"
    what = held.get(report.kind, wanted)
    yield Need(what, report.kind in ("sqlite", "postgres"), f"the store is of the kind {report.kind}")
    if report.durability is not None:
        said = f"journal {report.durability.journal_mode}, synchronous {report.durability.synchronous}"
        full = report.durability.synchronous in ("full", "extra") and report.durability.journal_mode == "wal"
        yield Need("each commit is synced", full, said)
    if report.server is not None:
        synced = report.server.fsync == "on" and report.server.synchronous_commit != "off"
        said = f"fsync {report.server.fsync}, synchronous_commit {report.server.synchronous_commit}"
        yield Need("each commit is synced", synced, said)


def _team(report: DoctorReport) -> Iterator[Need]:
    alive = [one.role for one in report.workers if one.life is not Liveness.DEAD]
    found = [(role, alive.count(role)) for role in ("supervisor", "worker") if role in alive]
    said = " and ".join(f"{number} {role}{'' if number == 1 else 's'}" for role, number in found) or "no worker"
    is_one = sum(number for _, number in found) <= 1
    served = "supervisor" in alive or (report.kind == "postgres" and "worker" in alive)
    said = f"{said} {'is' if is_one else 'are'} alive"
    yield Need("`perdure serve`, which runs workers for all users of the store", served, said)


def _many_nodes(report: DoctorReport) -> Iterator[Need]:
    what = "PostgreSQL, for workers on several machines"
    yield Need(what, report.kind == "postgres", f"the store is of the kind {report.kind}")
    if report.server is not None:
        primary = not report.server.in_recovery
        yield Need("the address is that of the primary", primary, "a primary" if primary else "a standby")


def _governed(report: DoctorReport) -> Iterator[Need]:
    yield from _rules(report)
    yield from _rights(report)
    yield from _evidence(report)
    yield from _copies(report)


def _rules(report: DoctorReport) -> Iterator[Need]:
    found = report.governance
    version = 0 if found is None else found.policy_version
    readable = found is not None and version >= 1 and found.policy_error is None
    said = f"version {version}" if version else "no policy was set"
    yield Need("a policy of the store: `perdure policy set`", readable, (found and found.policy_error) or said)
    count, owners = (0, 0) if found is None else (found.principals, found.owners)
    people, owning = "principal" if count == 1 else "principals", "owner" if owners == 1 else "owners"
    said = f"{count} {people}, {owners} {owning}"
    yield Need("registered principals, one of them an owner", count > 0 and owners > 0, said)


def _rights(report: DoctorReport) -> Iterator[Need]:
    roles = None if report.governance is None else report.governance.roles
    if roles is None:
        said = "there are no roles outside PostgreSQL"
        yield Need("roles in the database: `perdure roles --apply`", met=False, evidence=said)
        return
    said = "as declared" if roles.in_force else "no roles were made"
    if roles.differences:
        said = f"{len(roles.differences)} rights differ, the first: {roles.differences[0]}"
    yield Need("roles in the database: `perdure roles --apply`", roles.in_force, said)
    who = [roles.login] if roles.is_owner or roles.is_superuser else []
    powerful = sorted({*who, *roles.powerful_clients})
    said = f"{', '.join(powerful)} may change the schema" if powerful else f"{roles.login} is bound by its rights"
    yield Need("logins that cannot change the schema, here and in every process", not powerful, said)


def _evidence(report: DoctorReport) -> Iterator[Need]:
    found = report.governance
    at, now = (None if found is None else found.audit_head_at), report.now
    young = at is not None and now - at < HEAD_AGE
    said = "none was taken" if at is None else f"taken {_age(now - at)} ago"
    yield Need("a head of the logs kept elsewhere, at most 7 days old: `perdure audit head`", young, said)
    sandbox = "none" if found is None else found.sandbox
    yield Need("a sandbox for commands on this machine", sandbox != "none", sandbox)


def _copies(report: DoctorReport) -> Iterator[Need]:
    server, found = report.server, report.governance
    states = [] if server is None else [f"{name} ({state})" for name, state in server.standbys]
    synchronous = server is not None and any(state in ("sync", "quorum") for _, state in server.standbys)
    yield Need("a synchronous standby", synchronous, ", ".join(states) or "none is connected")
    archived = None if found is None else found.archived_at
    failed = None if found is None else found.archive_failed_at
    works = server is not None and server.archive_mode != "off" and archived is not None and (failed or 0) <= archived
    mode = "off" if server is None else server.archive_mode
    said = f"archive_mode {mode}, " + ("nothing archived" if archived is None else "the last file was archived")
    if failed is not None and failed > (archived or 0):
        said = f"archive_mode {mode}, and the last attempt failed"
    yield Need("a WAL archive, for point-in-time recovery", works, said)
    folder = None if found is None else found.artifacts
    yield Need(
        "artifacts in a folder that every machine reaches: the setting `artifacts`",
        folder is not None, folder or "in the data folder of each machine",
    )  # fmt: skip


def _age(span: int) -> str:
    return f"{span // DAY} days" if span >= DAY else f"{max(0, span) // (3600 * SECOND)} hours"


NEEDS: dict[str, Callable[[DoctorReport], Iterator[Need]]] = {
    "D0": _any_store,
    "D1": _own_machine,
    "D2": _team,
    "D3": _many_nodes,
    "D4": _governed,
}
