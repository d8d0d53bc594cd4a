"""A step: a named piece of a program whose result is recorded and not computed again.

Its identity is content and position: restart number, scope, name, digest of the arguments, occurrence.
"""

from __future__ import annotations

from perdure.domain.record import Record

INHERITED = 0  # instead of the number of a step that a branch inherited
AGAIN = ":retry-"  # begins the name of a step that a retry of its session repeats; such names are reserved


class Step(Record, frozen=True):
    """A row of `step`. `result` and `error` stay JSON text: a program reads thousands and decodes a few."""

    session_uid: str
    restart_number: int
    scope: str
    name: str
    argument_digest: str
    occurrence: int
    result: str | None
    artifact: str | None
    error: str | None
    number: int
    at: int
