"""The ids of a session's trace, derived from its uid.

Runs before and after a crash, on any machine, are in one trace, and nothing has to be stored for it.
"""

from __future__ import annotations

from hashlib import sha256


def trace_id(uid: str) -> int:
    """The id of the trace of a session, 128 bits."""
    return int.from_bytes(sha256(b"perdure.trace\0" + uid.encode()).digest()[:16]) or 1


def root_id(uid: str) -> int:
    """The id of the span that all runs of a session have as their parent, 64 bits."""
    return int.from_bytes(sha256(b"perdure.root\0" + uid.encode()).digest()[:8]) or 1
