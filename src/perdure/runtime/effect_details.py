"""One effect with everything that is recorded about it: arguments, attempts, result and the whole output.

Large parts are artifacts. One that is missing or damaged does not hide the rest: `unreadable` names it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from perdure.artifacts.directory import Directory
from perdure.domain.effect import Attempt, Effect
from perdure.errors import NotFound, PerdureError
from perdure.ids import decode
from perdure.runtime.run.large_values import kept_as
from perdure.store.move import StoreTransaction
from perdure.store.moves import effect as effects
from perdure.store.moves import session as sessions
from perdure.store.moves.attempt import attempts_of


class EffectDetails(msgspec.Struct, frozen=True):
    """One effect, its attempts, its result, and the text that its tool returned."""

    effect: Effect  # with its arguments
    session: str  # the id of its session
    attempts: tuple[Attempt, ...]
    result: Any = None
    output: str | None = None  # the whole text that the tool returned, also where the result has only a part of it
    artifact: str | None = None  # the digest of the output, if it is stored as an artifact
    unreadable: tuple[str, ...] = ()  # a sentence for each part that cannot be read


def read_details(tx: StoreTransaction, name: str, session: str | None = None) -> EffectDetails:
    """The rows of an effect, which is given by its id or a unique prefix; in one session, if one is named."""
    uid = None if session is None else sessions.find(tx, session).uid
    found = effects.find(tx, name, uid)
    attempts = tuple(attempts_of(tx, found.session_uid, found.id))
    return EffectDetails(found, sessions.get(tx, found.session_uid).id, attempts)


def with_artifacts(details: EffectDetails, folder: Path | None) -> EffectDetails:
    """The same with the arguments, the result and the output, from the folder of artifacts where they are stored."""
    effect, unreadable = details.effect, list[str]()

    def content(digest: str, part: str) -> str | None:
        try:
            return read_text(folder, digest)
        except (PerdureError, OSError) as error:
            reason = error.message if isinstance(error, PerdureError) else f"{error.strerror}."
            unreadable.append(f"{part} cannot be read: {reason}")
            return None

    if (digest := kept_as(effect.intent)) is not None and (text := content(digest, "The arguments")) is not None:
        effect = msgspec.structs.replace(effect, intent=decode(text))
    stored = effect.result if effect.artifact is None else content(effect.artifact, "The result")
    result = None if stored is None else decode(stored)
    output, artifact = output_of(result)
    if artifact is not None:
        output = content(artifact, "The whole output") or output
    return msgspec.structs.replace(
        details, effect=effect, result=result, output=output, artifact=artifact, unreadable=tuple(unreadable)
    )


def output_of(result: Any) -> tuple[str | None, str | None]:
    """The text in a result, and the artifact that has the whole of it. The tools that ship return both in an object."""
    if isinstance(result, str):
        return result, None
    if not isinstance(result, dict) or not isinstance(result.get("text"), str):
        return None, None
    artifact = result.get("artifact")
    return result["text"], artifact if isinstance(artifact, str) else None


def read_text(folder: Path | None, digest: str) -> str:
    """An artifact as text; bytes that are not UTF-8 are replaced."""
    if folder is None:
        raise NotFound(f"Artifact {digest[:12]} is not here: this store has no folder for artifacts.")
    return Directory(folder).get(digest).decode(errors="replace")
