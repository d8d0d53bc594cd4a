"""Large results: above a limit they become artifacts, and the record keeps their digest.

The bytes come first, then the session's claim on them, then the record that names them: a crash in between leaves bytes
that nobody names, and never a name without bytes.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from perdure.artifacts.directory import Directory
from perdure.domain.artifact import Retention
from perdure.errors import Damaged
from perdure.store import artifact
from perdure.store.intent import Outcome
from perdure.store.store import Store

LIMIT = 64 * 1024


class Values:
    """Where large values go. A store without a folder keeps them inline."""

    def __init__(self, store: Store, folder: str | Path | None = None) -> None:
        self._store = store
        own = None if store.folder is None else store.folder / "artifacts"
        place = Path(folder) if folder is not None else own
        self.directory = None if place is None else Directory(place)

    async def put(self, uid: str, by: str, text: str) -> tuple[str | None, str | None]:
        """JSON text as (inline, artifact): one of the two."""
        if self.directory is None or len(text) * 4 <= LIMIT or len(content := text.encode()) <= LIMIT:
            return text, None
        try:
            digest, size = self.directory.put(content)
        except OSError:  # what is known must not be lost for want of a file
            return text, None
        claim = artifact.index(
            uid, by, digest,
            kind="application/json", size=size, location=f"{digest[:2]}/{digest}", retention=Retention.SESSION,
        )  # fmt: skip
        await self._store.write(claim)
        return None, digest

    def get(self, inline: str | None, digest: str | None) -> str:
        if digest is None:
            return inline if inline is not None else "null"
        if self.directory is None:
            raise Damaged(f"The record names artifact {digest}, and this store has no folder for artifacts.")
        return self.directory.get(digest).decode()

    async def keep(self, uid: str, by: str, outcome: Outcome) -> Outcome:
        """An outcome whose result is small enough for a row."""
        if outcome.result is None:
            return outcome
        result, digest = await self.put(uid, by, outcome.result)
        return msgspec.structs.replace(outcome, result=result, artifact=digest)
