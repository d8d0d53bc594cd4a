"""The end of a wait by a worker: only when what it waits for is there, and the worker may see that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from perdure.domain.record import same_json
from perdure.domain.session import TERMINAL
from perdure.domain.wait import Wait, WaitKind
from perdure.errors import IllegalMove
from perdure.runtime.ledger import leases
from perdure.runtime.run.lineage import newest
from perdure.server.worker.refusal import Refusal
from perdure.store.moves import effect as effects
from perdure.store.moves import wait

if TYPE_CHECKING:
    from perdure.server.worker.admission import WorkerAdmission

OWN_WAKES = (WaitKind.PROGRAM, WaitKind.POLICY, WaitKind.BUDGET, WaitKind.WORKSPACE)  # a session looks again itself
MANY = 100  # sessions that have an effect of one id


def resolve(on: WorkerAdmission, args: list[Any], kwargs: Mapping[str, Any]) -> None:
    """A wait is resolved only when what it waits for is there, and with what the record says of it."""
    uid, by, id = args[:3]
    on.session(uid)
    asked = wait.get(on.tx, uid, id)
    answer = args[3] if len(args) > 3 else kwargs.get("answer")
    if asked.kind == WaitKind.CHILD:
        on.need(by == f"child:{_child(on, asked, answer)}", "a child answers as itself")
        return
    on.need_name(by)
    if asked.kind == WaitKind.EFFECT:
        met = _is_settled(on, asked.ref or "", answer)
    elif asked.kind == WaitKind.LEASE:
        met = answer is None and leases.is_free(on.tx, asked)
    else:
        met = answer is None and asked.kind in OWN_WAKES
    if not met:
        raise Refusal(IllegalMove(f"The wait {id} for {asked.kind} is not over, or a person ends it."))


def _is_settled(on: WorkerAdmission, id: str, answer: Any) -> bool:
    """Whether an effect has the state that is answered. One that the worker may not see is as one that is not there."""
    named = [one for one in effects.with_prefix(on.tx, id, limit=MANY) if one.id == id]
    found = [one for one in named if on.sees(one.session_uid)]
    if len(found) != 1:
        return False
    now, is_open = newest(on.tx, found[0])
    return not is_open and answer in (now.state, found[0].state)


def _child(on: WorkerAdmission, asked: Wait, answer: Any) -> str:
    child = on.session(asked.ref or "")
    said = {"id": child.id, "status": child.status, "result": child.result, "error": child.error}
    if child.status not in TERMINAL or not same_json(answer, said):
        raise Refusal(IllegalMove(f"The child {child.id} is {child.status}; its parent is told what its record says."))
    return child.id
