"""The mask: well-known forms of secrets, hidden where people look at text.

It is applied at the edges only: the console, the text of the command line, notifications and the log. What is stored
stays as it is, and so do `--json` and bundles: a pattern may be wrong, and a record must be exact.
"""

from __future__ import annotations

import re
from typing import Any

from perdure.secrets.redaction import redact

MASK = "***"
_PATTERN = re.compile(
    r"(?P<key>\b(?:sk|rk)-(?:[a-z]+-)*(?=[A-Za-z0-9_-]*[0-9])[A-Za-z0-9_-]{16,}"  # OpenAI, Anthropic and others
    r"|\bgh[pousr]_[A-Za-z0-9]{20,}|\bgithub_pat_[A-Za-z0-9_]{20,}|\bglpat-[A-Za-z0-9_-]{16,}"  # GitHub, GitLab
    r"|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"  # AWS
    r"|\bAIza[A-Za-z0-9_-]{35}"  # Google
    r"|\bxox[abeoprs]-[A-Za-z0-9-]{10,}"  # Slack
    r"|\bprd_[0-9a-z]{10}_[A-Za-z0-9_-]{43})"  # Perdure
    r"|(?P<block>-----BEGIN [A-Z ]*PRIVATE KEY-----)[A-Za-z0-9+/=\\\s]*(?:-----END [A-Z ]*PRIVATE KEY-----)?"
    r"|(?P<header>\b[Bb]earer +)[A-Za-z0-9._~+/-]{16,}=*"
)
_KIND = re.compile(r"[A-Za-z]{2,10}[-_]")


def mask(text: str) -> str:
    """The text for a person: with markers for known values, and without what looks like a secret."""
    return _PATTERN.sub(_masked, redact(text))


def mask_value(plain: Any) -> Any:
    """JSON values with their texts masked."""
    if isinstance(plain, str):
        return mask(plain)
    if isinstance(plain, dict):
        return {key: mask_value(one) for key, one in plain.items()}
    return [mask_value(one) for one in plain] if isinstance(plain, list | tuple) else plain


def _masked(found: re.Match[str]) -> str:
    """The beginning tells which kind of secret was there."""
    if (key := found["key"]) is None:
        return f"{found['block'] or found['header']}{MASK}"
    kind = _KIND.match(key)
    return (key[:4] if kind is None else kind[0]) + MASK
