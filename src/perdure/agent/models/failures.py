"""Errors of providers as `ModelError`: one sentence, a hint, and whether a retry can help."""

from __future__ import annotations

import math
from collections.abc import Mapping
from difflib import get_close_matches
from email.utils import parsedate_to_datetime
from typing import Any

from perdure.agent.models.prices import PRICES
from perdure.agent.models.text import one_line
from perdure.errors import ModelError

RETRY = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
FINAL_KINDS = frozenset(
    {
        *("invalid_request_error", "authentication_error", "permission_error", "not_found_error", "request_too_large"),
        *("billing_error", "insufficient_quota", "invalid_api_key", "model_not_found", "context_length_exceeded"),
    }
)
NO_CREDIT = frozenset({"insufficient_quota", "billing_error"})
TOO_LONG = ("prompt is too long", "maximum context length", "context length", "context window")


def from_sdk(sdk: Any, who: str, key: str, error: Exception) -> ModelError:
    """Convert an error of a provider's package. Both packages use the same names for their errors."""
    if isinstance(error, sdk.APIStatusError):
        return from_status(who, key, error.response.status_code, error.response.headers, error.body)
    if isinstance(error, sdk.APITimeoutError):
        return ModelError(f"{who} did not answer in time.", hint="Try again later.")
    if isinstance(error, sdk.APIConnectionError):
        return ModelError(f"{who} cannot be reached.", hint="Check the network, and the address if you gave one.")
    return ModelError(f"The request to {who} failed: {one_line(str(error))}")


def from_event(who: str, body: Any) -> ModelError:
    """Convert an error that arrived inside the stream of an answer."""
    kind, message = _kind_and_message(body)
    retry, too_long = kind not in FINAL_KINDS, _too_long(kind, message)
    return ModelError(f"{who} aborted its answer: {message or kind}", retry=retry, kind=kind, too_long=too_long)


def from_status(who: str, key: str, status: int, headers: Mapping[str, str], body: Any) -> ModelError:
    """Convert an HTTP error. `details` has the status, the provider's code, and whether the prompt was too long."""
    kind, message = _kind_and_message(body)
    retry = status in RETRY or (status >= 500 and status != 501)
    if kind in NO_CREDIT:
        retry = False
    if (should_retry := headers.get("x-should-retry")) in ("true", "false"):
        retry = should_retry == "true"
    sentence, hint = _sentence(who, key, status, message, kind)
    after = retry_after(headers) if retry else None
    too_long = status == 413 or _too_long(kind, message)
    return ModelError(sentence, hint=hint, retry=retry, retry_after=after, status=status, kind=kind, too_long=too_long)


def _sentence(who: str, key: str, status: int, message: str, kind: str) -> tuple[str, str]:
    if kind in NO_CREDIT or status == 402:
        return f"The account at {who} has no credit left.", "Add credit, or choose another model."
    if status == 429:
        return f"The rate limit of {who} is reached.", "Wait, or raise the limits of the account."
    if status == 401:
        return f"{who} rejected the key.", f"Set {key} to a valid key."
    if status == 403:
        return f"{who} does not allow this key to use the model.", "Give the key access to the model."
    if status == 404:
        return f"{who} was not found.", f"{_meant(who)}Check the model's name, and the address if you gave one."
    if status == 413 or _too_long(kind, message):
        return f"The request is too large for {who}.", "Shorten the conversation, or start another session."
    if status == 529 or kind == "overloaded_error":
        return f"{who} is overloaded.", "Try again later."
    if status in RETRY or status >= 500:
        return f"{who} failed (HTTP {status}).", "Try again later."
    return f"{who} refused the request (HTTP {status}): {message or kind or 'no reason given'}", "Correct the request."


def _meant(who: str) -> str:
    """A known model with a similar name, for the hint."""
    provider, _, name = who.partition(":")
    near = get_close_matches(name, [one for one in PRICES if one != name], n=1, cutoff=0.8)
    return f"Did you mean {provider}:{near[0]}? " if near and name not in PRICES else ""


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The delay in seconds that a provider asks for, given as milliseconds, seconds or a date.

    A date is relative to the `date` header of the same response, because the provider's clock may differ from ours.
    """
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) / unit
        except ValueError:
            continue
        if math.isfinite(seconds):
            return max(0.0, seconds)
    try:
        until = parsedate_to_datetime(headers.get("retry-after", ""))
        return max(0.0, (until - parsedate_to_datetime(headers.get("date", ""))).total_seconds())
    except (ValueError, TypeError, IndexError):
        return None


def _kind_and_message(body: Any) -> tuple[str, str]:
    """The provider's code for the error, and its message."""
    error = body.get("error", body) if isinstance(body, dict) else body
    if not isinstance(error, dict):
        return "", one_line(str(error or ""))
    kind = next((str(error[name]) for name in ("code", "type") if error.get(name)), "")
    return kind[:100], one_line(str(error.get("message") or ""))


def _too_long(kind: str, message: str) -> bool:
    return kind in ("context_length_exceeded", "request_too_large") or any(word in message.lower() for word in TOO_LONG)
