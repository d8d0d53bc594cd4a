"""The name that a service gives to a token, for the ids of its workers and for what it has uploaded."""

from __future__ import annotations

from perdure.domain.caller import Caller
from perdure.ids import digest


def tag_of(caller: Caller) -> str:
    """How the ids of a token's workers end. A user of the Unix socket has no token, and is known by the kernel."""
    return digest(f"worker {caller.key} {caller.token_id or caller.identity}")[:12]
