"""The bytes that the arguments of a move name, wherever they stand: each is read later as if its session had it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from perdure.ids import decode
from perdure.runtime.run.large_values import kept_as
from perdure.store.moves.artifact import ArtifactClaim
from perdure.store.moves.effect_input import AttemptResult, NewEffect


def named_bytes(given: Any) -> Iterator[tuple[str, int | None]]:
    """Digests with their sizes, as far as the arguments say them."""
    match given:
        case ArtifactClaim():
            yield given.digest, given.size
        case AttemptResult() if given.artifact is not None:
            yield given.artifact, None
        case NewEffect():
            yield from named_bytes(decode(given.intent))
        case msgspec.Struct():
            yield from named_bytes(list(msgspec.structs.asdict(given).values()))
        case dict():
            if (digest := kept_as(given)) is not None:
                yield digest, None
        case str():
            return
        case Sequence():
            for one in given:
                yield from named_bytes(one)
