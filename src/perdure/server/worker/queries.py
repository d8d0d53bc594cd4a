"""What a worker may read: the sessions of its token's scopes, and of the store what it needs to claim and judge."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from perdure.control.worker_protocol import reads
from perdure.control.worker_protocol.arguments import RECORDS, Given, RecordName, parameters_of
from perdure.domain.caller import Verb
from perdure.domain.exemption import ExemptionScope
from perdure.errors import ConfigError
from perdure.server.worker import facts
from perdure.server.worker.admission import WorkerAdmission
from perdure.server.worker.refusal import Refusal

UIDS = ("uid", "message_uid")
PROPERTIES = ("store_id",)  # of the store


def check_read(on: WorkerAdmission, name: str, given: Given) -> None:
    """Refuse a read of a session that the token does not cover."""
    signature, _ = parameters_of(reads.READS[name])
    try:
        bound = signature.bind(*given.args, **given.kwargs).arguments
    except TypeError as error:
        raise Refusal(ConfigError(f"These are not the arguments of {name}: {error}.")) from None
    try:
        sessions = [on.session(uid) for uid in _uids(name, bound)]
        if name == "lease.of_holder":
            on.need(on.own(_text(bound["holder"])), "these are leases of others")
        elif name == "meta.get":
            on.need(_text(bound["key"]) in PROPERTIES, "this is not for workers")
        elif name == "session.recall":
            facts.check_scope(on, sessions[0], bound["scope"])
        elif name == "agent.read_inbox":
            folder = bound["repository"]
            on.need(folder in (None, sessions[0].repository), "it is the inbox of another repository")
        elif name == "exemption.lifting":
            scope = msgspec.convert(bound["scope"], ExemptionScope)
            same = scope.repository == sessions[0].repository_id and scope.owner == sessions[0].owner
            on.need(same, "these are exemptions of another session")
    except msgspec.MsgspecError as error:
        raise Refusal(ConfigError(f"An argument is not what it must be: {error}.")) from None


def _uids(name: str, bound: dict[str, Any]) -> Iterable[str]:
    """The sessions that the arguments name. A read of sessions names at least one."""
    _, types = parameters_of(reads.READS[name])
    found: list[str] = []
    for key, value in bound.items():
        if key in UIDS:
            found.append(_text(value))
        elif types[key] is ExemptionScope:
            found.append(msgspec.convert(value, ExemptionScope).session_uid or "")
        elif _names_records(types[key]):
            named = msgspec.convert(value, RecordName | list[RecordName])
            found += [one.session for one in (named if isinstance(named, list) else [named])]
    return found or ([""] if name in reads.OF_SESSIONS else [])


def _names_records(kind: Any) -> bool:
    from typing import get_args

    return any(one in RECORDS for one in (kind, *get_args(kind)) if isinstance(one, type))


def _text(value: Any) -> str:
    return msgspec.convert(value, str)


def shown(on: WorkerAdmission, name: str, found: Any) -> Any:
    """What of an answer the worker may see."""
    return SHOWN[name](on, found) if name in SHOWN else found


def _sees(on: WorkerAdmission, uid: str) -> bool:
    try:
        on.session(uid)
    except Refusal:
        return False
    return True


def _of_sessions(on: WorkerAdmission, found: list[Any]) -> list[Any]:
    return [one for one in found if _sees(on, one.session_uid)]


def _of_all(on: WorkerAdmission, found: list[Any]) -> list[Any]:
    """Only a worker for every queue cares for what all sessions left behind."""
    return found if on.caller.may(Verb.WORK) else []


def _newest(on: WorkerAdmission, found: Any) -> Any:
    on.session(found[0].session_uid)
    return found


def _with_waits(on: WorkerAdmission, found: Any) -> Any:
    on.session(found[0].uid)
    return found


SHOWN: dict[str, Callable[[WorkerAdmission, Any], Any]] = {
    "driver.newest": _newest,
    "lease.first_ends": _of_all,
    "lease.waits_for_free_resources": _of_sessions,
    "session.with_waits": _with_waits,
    "wait.ended_children": _of_all,
    "wait.met": _of_sessions,
    "worker.listing": lambda on, found: [one for one in found if on.own(one.id)],
}
