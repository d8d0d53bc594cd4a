"""The judge of lease histories is itself judged: what could have happened passes, what could not does not."""

import pytest

from tests.store.support.linearizability import Kind, Operation, State, unplaceable

START = State(cursor=1)
A, B = "a", "b"


def did(who: str, kind: Kind, epoch: int | None, number: int | None, called: int, returned: int) -> Operation:
    refused = number is None and kind is not Kind.RENEW
    return Operation(who, kind, epoch, number, called, returned, refused=refused)


def lost(who: str, kind: Kind, epoch: int, called: int, returned: int) -> Operation:
    return Operation(who, kind, epoch, None, called, returned, refused=True)


HANDED_OVER = [
    did(A, Kind.ACQUIRE, 1, 2, 0, 10),
    did(B, Kind.ACQUIRE, None, None, 11, 12),
    did(A, Kind.APPEND, 1, 3, 13, 20),
    did(A, Kind.RENEW, 1, None, 21, 22),
    did(A, Kind.RELEASE, 1, 4, 23, 30),
    did(B, Kind.ACQUIRE, 2, 5, 25, 40),
    did(B, Kind.APPEND, 2, 6, 41, 50),
]

POSSIBLE = {
    "handed over": HANDED_OVER,
    "taken after its time": [
        did(A, Kind.ACQUIRE, 1, 2, 0, 10),
        did(B, Kind.ACQUIRE, 2, 3, 11, 20),
        lost(A, Kind.APPEND, 1, 15, 30),
        lost(A, Kind.RELEASE, 1, 31, 32),
    ],
    "refused before it was free, though answered later": [
        did(A, Kind.ACQUIRE, 1, 2, 0, 10),
        did(A, Kind.RELEASE, 1, 3, 11, 20),
        did(B, Kind.ACQUIRE, None, None, 12, 90),
    ],
    "an append that crossed a take-over": [
        did(A, Kind.ACQUIRE, 1, 2, 0, 10),
        did(A, Kind.APPEND, 1, 3, 11, 50),
        did(B, Kind.ACQUIRE, 2, 4, 12, 40),
    ],
}

IMPOSSIBLE = {
    "an old epoch appended": [
        did(A, Kind.ACQUIRE, 1, 2, 0, 10),
        did(B, Kind.ACQUIRE, 2, 3, 11, 20),
        did(A, Kind.APPEND, 1, 4, 21, 30),
    ],
    "two hold one epoch": [did(A, Kind.ACQUIRE, 1, 2, 0, 10), did(B, Kind.ACQUIRE, 1, 3, 11, 20)],
    "an epoch was skipped": [did(A, Kind.ACQUIRE, 1, 2, 0, 10), did(B, Kind.ACQUIRE, 3, 3, 11, 20)],
    "refused though it was free": [did(A, Kind.ACQUIRE, None, None, 0, 10), did(B, Kind.ACQUIRE, 1, 2, 11, 20)],
    "refused after it was given back": [*HANDED_OVER[:5], did(B, Kind.ACQUIRE, None, None, 31, 32)],
    "lost before it was acquired": [
        did(A, Kind.ACQUIRE, 1, 2, 0, 10),
        lost(A, Kind.APPEND, 1, 11, 20),
        did(B, Kind.ACQUIRE, 2, 3, 21, 30),
    ],
    "an event before an earlier one": [
        did(A, Kind.ACQUIRE, 1, 2, 0, 10),
        did(A, Kind.APPEND, 1, 4, 11, 20),
        did(A, Kind.APPEND, 1, 3, 21, 30),
    ],
    "two events with one number": [
        did(A, Kind.ACQUIRE, 1, 2, 0, 10),
        did(A, Kind.APPEND, 1, 3, 11, 20),
        did(A, Kind.APPEND, 1, 3, 21, 30),
    ],
    "a gap": [did(A, Kind.ACQUIRE, 1, 2, 0, 10), did(A, Kind.APPEND, 1, 4, 11, 20)],
    "renewed after giving it back": [*HANDED_OVER[:5], did(A, Kind.RENEW, 1, None, 31, 32)],
    "appended after giving it back": [*HANDED_OVER[:5], did(A, Kind.APPEND, 1, 5, 31, 32)],
}


@pytest.mark.parametrize("history", POSSIBLE.values(), ids=POSSIBLE.keys())
def test_what_could_have_happened_passes(history: list[Operation]) -> None:
    assert unplaceable(history, START) == []
    assert unplaceable(history[::-1], START) == []


@pytest.mark.parametrize("history", IMPOSSIBLE.values(), ids=IMPOSSIBLE.keys())
def test_what_could_not_have_happened_does_not(history: list[Operation]) -> None:
    assert unplaceable(history, START) != []
