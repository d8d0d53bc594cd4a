"""Large results and arguments: above a limit they become artifacts, and the record keeps their digest.

The bytes come first, then the session's claim on them, then the record that names them: a crash in between leaves bytes
that no record names, and never a name without bytes. Digests, keys and the intent of an approval are those of the whole
arguments, wherever these are stored.

Arguments stand in their row by name. Those kept elsewhere stand there as `{":artifact": digest}`: no parameter of a
function has such a name. The result of a session stands in its row in the same way, and a parent claims it too.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from perdure.artifacts.directory import Directory
from perdure.domain.artifact import Retention
from perdure.domain.effect import Effect
from perdure.domain.record import sorted_json
from perdure.domain.session import SessionRecord
from perdure.errors import ConfigError, Damaged, PerdureError, StoreError
from perdure.ids import decode
from perdure.runtime.definitions.prompt import File
from perdure.store.moves import artifact
from perdure.store.moves.artifact import JSON, ArtifactClaim
from perdure.store.moves.effect_input import AttemptResult
from perdure.store.store import Store

LIMIT = 64 * 1024
KEPT = ":artifact"


class Values:
    """Where large values go. A store without a folder keeps them inline."""

    def __init__(self, store: Store, folder: str | Path | None = None) -> None:
        self._store = store
        place = folder_of(store.folder, folder)
        self.directory = None if place is None else Directory(place)

    async def put(self, uid: str, by: str, text: str) -> tuple[str | None, str | None]:
        """JSON text as (inline, artifact): one of the two."""
        if self.directory is None or len(text) * 4 <= LIMIT or len(content := text.encode()) <= LIMIT:
            return text, None
        try:
            digest, size = self.directory.put(content)
        except (OSError, StoreError):  # what is known must not be lost for want of a file
            return text, None
        await self.claim(uid, by, ArtifactClaim(digest, size, JSON))
        return None, digest

    async def put_result(self, uid: str, by: str, text: str) -> Any:
        """The result of a session, given as JSON text, as it stands in its row."""
        inline, digest = await self.put(uid, by, text)
        if digest is not None:
            return {KEPT: digest}
        if kept_as(result := decode(text if inline is None else inline)) is not None:
            raise ConfigError(f"No result can be named {KEPT}.")
        return result

    async def claim(self, uid: str, by: str, *claims: ArtifactClaim) -> None:
        """Say that bytes belong to a session, before a record of it names them."""
        for one in claims:
            move = artifact.index(
                uid, by, one.digest,
                kind=one.kind, size=one.size, location=f"{one.digest[:2]}/{one.digest}",
                retention=Retention.SESSION,
            )  # fmt: skip
            await self._store.write(move)

    def place(self, arguments: Any) -> tuple[Any, tuple[ArtifactClaim, ...]]:
        """Arguments as they stand in a row, and what their session must claim for it."""
        if kept_as(arguments) is not None:
            raise ConfigError(f"No argument can be named {KEPT}.")
        content = sorted_json(arguments)
        if self.directory is None or len(content) <= LIMIT:
            return arguments, ()
        try:
            digest, size = self.directory.put(content)
        except (OSError, StoreError):
            return arguments, ()
        return {KEPT: digest}, (ArtifactClaim(digest, size, JSON),)

    def put_files(self, files: Iterable[File]) -> tuple[ArtifactClaim, ...]:
        """Store the files of a prompt; returns what its session must claim."""
        claims: list[ArtifactClaim] = []
        for one in files:
            if self.directory is not None:
                name, size = self.directory.put(one.data)
                claims.append(ArtifactClaim(name, size, str(one.media_type)))
                continue
            raise ConfigError(
                "This store has no folder for artifacts, so a prompt cannot have files.",
                hint="Name one: perdure.open(..., artifacts=FOLDER).",
            )
        return tuple(claims)

    async def put_arguments(self, uid: str, by: str, arguments: Any) -> Any:
        """Arguments as they stand in a row of a session that there is."""
        placed, claims = self.place(arguments)
        await self.claim(uid, by, *claims)
        return placed

    def get_whole(self, placed: Any) -> Any:
        """The arguments, or the result of a session, themselves."""
        digest = kept_as(placed)
        return placed if digest is None else decode(self.get(None, digest))

    def whole(self, effect: Effect) -> Effect:
        """An effect with its arguments."""
        if kept_as(effect.intent) is None:
            return effect
        return msgspec.structs.replace(effect, intent=self.get_whole(effect.intent))

    def of_session(self, session: SessionRecord) -> SessionRecord:
        """A session with its arguments and its result."""
        for name in ("arguments", "restart_arguments", "result"):
            if kept_as(placed := getattr(session, name)) is not None:
                session = msgspec.structs.replace(session, **{name: self.get_whole(placed)})
        return session

    def shown(self, effect: Effect) -> Effect:
        """An effect for display: with its arguments, if they can be read."""
        return opened(effect, None if self.directory is None else self.directory.folder)

    def get(self, inline: str | None, digest: str | None) -> str:
        if digest is None:
            return inline if inline is not None else "null"
        if self.directory is None:
            raise Damaged(f"The record names artifact {digest}, and this store has no folder for artifacts.")
        return self.directory.get(digest).decode()

    async def keep(self, uid: str, by: str, outcome: AttemptResult) -> AttemptResult:
        """An outcome whose result is small enough for a row."""
        if outcome.result is None:
            return outcome
        result, digest = await self.put(uid, by, outcome.result)
        return msgspec.structs.replace(outcome, result=result, artifact=digest)


def folder_of(beside: Path | None, named: str | Path | None) -> Path | None:
    """Where the large things of a store are: in a folder that was named, or beside the store."""
    return Path(named) if named is not None else None if beside is None else beside / "artifacts"


def opened(effect: Effect, folder: Path | None) -> Effect:
    """An effect with its arguments, if they can be read there."""
    digest = kept_as(effect.intent)
    if digest is not None and folder is not None:
        with suppress(PerdureError, OSError):
            return msgspec.structs.replace(effect, intent=decode(Directory(folder).get(digest).decode()))
    return effect


def kept_as(placed: Any) -> str | None:
    """The artifact that arguments are kept in; None if they stand in their row."""
    if not isinstance(placed, dict) or placed.keys() != {KEPT}:
        return None
    return str(placed[KEPT])
