"""Signatures of webhooks, in the form of the specification Standard Webhooks.

A receiver computes the HMAC over the id, the time and the body, compares it with one of the signatures, refuses a time
that is far from its own, and drops an id that it knows. While a secret is replaced there are two signatures.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Sequence

from perdure.runtime.notifications.channels import SHORTEST_SECRET, NotSent

PREFIX = "whsec_"  # the rest of such a secret is base64


def headers(id: str, seconds: int, body: bytes, secrets: Sequence[str]) -> dict[str, str]:
    """The headers that sign a body."""
    signatures = " ".join(f"v1,{_sign(id, seconds, body, one)}" for one in secrets)
    return {"webhook-id": id, "webhook-timestamp": str(seconds), "webhook-signature": signatures}


def _sign(id: str, seconds: int, body: bytes, secret: str) -> str:
    signed = f"{id}.{seconds}.".encode() + body
    return base64.b64encode(hmac.digest(_key(secret), signed, hashlib.sha256)).decode()


def _key(secret: str) -> bytes:
    if len(secret) < SHORTEST_SECRET:
        raise NotSent(f"a secret is shorter than {SHORTEST_SECRET} characters")
    if not secret.startswith(PREFIX):
        return secret.encode()
    try:
        return base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except binascii.Error:
        raise NotSent(f"a secret begins with {PREFIX}, and the rest is not base64") from None
