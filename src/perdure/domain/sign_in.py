"""A sign-in: a browser that a person has signed in to the console with.

The browser has a random secret in a cookie; its digest is the row. The rights are those of the identity at each
request, so a sign-in ends with the token or the login that it was made with.
"""

from __future__ import annotations

from perdure.clock import SECOND
from perdure.domain.record import Record

LIFETIME = 12 * 3600 * SECOND


class SignIn(Record, frozen=True):
    """A row of `sign_in`."""

    id: str
    identity: str
    began_at: int
    expires_at: int
