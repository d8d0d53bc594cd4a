"""The words of the pages for what records name: waits, and what recovery does. The names in records stay."""

from __future__ import annotations

from typing import Any

from perdure.domain.recovery_decision import Action
from perdure.domain.wait import Wait, WaitKind
from perdure.store.moves.session import START

WAITS: dict[str, str] = {
    WaitKind.APPROVAL: "an approval",
    WaitKind.INPUT: "an answer",
    WaitKind.TIMER: "a time",
    WaitKind.DOUBT: "a person to say what happened",
    WaitKind.EFFECT: "an effect of the session that it branched from",
    WaitKind.LEASE: "a lease that another session holds",
    WaitKind.CHILD: "a child session",
    WaitKind.PAUSED: "a person to resume it",
    WaitKind.PROGRAM: "a worker with its code",
    WaitKind.POLICY: "the policy",
    WaitKind.QUARANTINE: "a person to let it continue",
    WaitKind.SLOT: "a place in its queue",
    WaitKind.WORKSPACE: "a worker on the machine with its files",
    WaitKind.BUDGET: "a larger budget",
}
ACTIONS: dict[str, str] = {
    Action.NOTHING: "Nothing is done",
    Action.DISPATCH: "It is done",
    Action.RUN_AGAIN: "It is done again",
    Action.PROBE: "Its probe is asked",
    Action.UNDO: "It is undone",
    Action.PRESUME: "It is taken as done",
    Action.FAIL: "It fails",
    Action.ASK: "A person is asked",
    Action.REFUSE: "It is refused",
    Action.ASK_FOR_APPROVAL: "An approval is requested",
    Action.WAIT_FOR_APPROVAL: "It waits for an approval",
    Action.WAIT_FOR_LEASE: "It waits for a lease",
    "wait for policy": "It waits for the policy",
    "wait for code": "It waits for a worker with its code",
    "wait for its session": "It waits for its session",
    "look for it": "It is looked for",
    "not inherited": "It is not inherited",
    "plan anew": "It is planned anew",
}


def waited_for(one: Wait) -> str:
    """What a wait is for."""
    if one.kind == WaitKind.INPUT and one.ref is None:
        return "a message"
    if one.kind == WaitKind.TIMER and one.id == START:
        return "the time at which it is to start"
    if one.kind == WaitKind.TIMER and one.retry_numbers is not None:
        return "its retry"
    return wait_words(one.kind)


def wait_words(kind: Any) -> str:
    """What a wait of a kind is for."""
    return WAITS.get(str(kind), str(kind))


def action_words(action: str) -> str:
    """What recovery would do, as a sentence without its end."""
    return ACTIONS.get(action, action[:1].upper() + action[1:])
