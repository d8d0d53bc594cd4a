"""What stands in the arguments of a move, at any depth: the bytes that it names, and the calls that it plans.

bytes     are read later as if the session of the move had them
digests   of calls decide which approvals and exemptions cover them, so each must be of the call itself
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from perdure.domain.effect import intent_digest
from perdure.ids import decode
from perdure.runtime.run.large_values import kept_as
from perdure.store.moves.artifact import ArtifactClaim
from perdure.store.moves.effect_input import AttemptResult, NewEffect


def named_bytes(given: Any) -> Iterator[tuple[str, int | None]]:
    """Digests with their sizes, as far as the arguments say them."""
    for one in _parts(given):
        match one:
            case ArtifactClaim():
                yield one.digest, one.size
            case AttemptResult() if one.artifact is not None:
                yield one.artifact, None
            case NewEffect() if (digest := kept_as(decode(one.intent))) is not None:
                yield digest, None
            case dict() if (digest := kept_as(one)) is not None:
                yield digest, None


def has_exact_digests(given: Any, whole: Callable[[Any], Any]) -> bool:
    """Whether the digest of each call is that of its tool, its arguments and its targets."""
    calls = [one for one in _parts(given) if isinstance(one, NewEffect)]
    return all(
        one.intent_digest == intent_digest(one.tool, whole(decode(one.intent)), decode(one.targets)) for one in calls
    )


def _parts(given: Any) -> Iterator[Any]:
    """The records and objects in the arguments. What an object has inside is a value of a program."""
    match given:
        case msgspec.Struct():
            yield given
            yield from _parts(list(msgspec.structs.asdict(given).values()))
        case dict():
            yield given
        case str():
            return
        case Sequence():
            for one in given:
                yield from _parts(one)
