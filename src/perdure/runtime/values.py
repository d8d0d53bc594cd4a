"""Large results: above a limit they become artifacts, and the record keeps their digest."""

from __future__ import annotations

import msgspec

from perdure.artifacts.directory import Directory
from perdure.store.effect import Outcome

LIMIT = 64 * 1024


class Values:
    """Where large values go. A store without a folder keeps them inline."""

    def __init__(self, directory: Directory | None) -> None:
        self.directory = directory

    def put(self, text: str) -> tuple[str | None, str | None]:
        """JSON text as (inline, artifact): one of the two."""
        if self.directory is None or len(text) <= LIMIT:
            return text, None
        return None, self.directory.put(text.encode())[0]

    def get(self, inline: str | None, artifact: str | None) -> str:
        if artifact is None:
            return inline if inline is not None else "null"
        assert self.directory is not None
        return self.directory.get(artifact).decode()

    def keep(self, outcome: Outcome) -> Outcome:
        """An outcome whose result is small enough for a row."""
        if outcome.result is None or len(outcome.result) <= LIMIT:
            return outcome
        result, artifact = self.put(outcome.result)
        return msgspec.structs.replace(outcome, result=result, artifact=artifact)
