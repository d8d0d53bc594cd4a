"""The refusal of a move or a read of a worker."""

from __future__ import annotations

from perdure.errors import PerdureError


class Refusal(Exception):
    """A move or a read that the service does not carry out, with the error that it answers."""

    def __init__(self, error: PerdureError) -> None:
        super().__init__(error.message)
        self.error = error
