"""A reply of a model as it is recorded: a bounded line of the transcript, of valid text and without known secrets."""

from __future__ import annotations

from typing import Any

from perdure.agent.model import Reply, ToolCall, Usage
from perdure.errors import PerdureError
from perdure.ids import encode
from perdure.secrets.redaction import KNOWN, found_in, redact, redact_value

MAX_TEXT = 400_000  # characters
MAX_ARGUMENTS = 1_000_000
MAX_CALLS = 1_000
MOST = 2**53  # tokens, or millionths of a dollar


def body_of(reply: Reply) -> dict[str, Any]:
    """A reply as a line of the transcript."""
    line: dict[str, Any] = {"role": "assistant", "content": reply.text}
    if reply.calls:
        line["calls"] = [
            {"id": one.id, "name": one.name, "arguments": one.arguments}
            | ({"secret": one.secret} if one.secret else {})
            for one in reply.calls
        ]
    usage = {"tokens_in": reply.usage.tokens_in, "tokens_out": reply.usage.tokens_out}
    line |= {"model": reply.model, "stop": reply.stop, "usage": usage | {"cost_micros": reply.usage.cost_micros}}
    return line | ({"extra": reply.extra} if reply.extra is not None else {})


def clean(reply: Reply) -> Reply:
    """The reply as it can be stored: bounded, valid text, and without known secrets."""
    calls = tuple(_call(one) for one in reply.calls[:MAX_CALLS])
    text = redact(storable_text(reply.text))
    if len(text) > MAX_TEXT:
        text = f"{text[:MAX_TEXT]}\n… {len(text) - MAX_TEXT:,} characters of this answer were not kept …"
    spent = reply.usage
    usage = Usage(_count(spent.tokens_in), _count(spent.tokens_out), _count(spent.cost_micros), spent.priced)
    stop = reply.stop if reply.stop in ("end", "calls", "length", "refused") else "end"
    return Reply(text, calls, usage, stop, storable_text(reply.model), _extra(reply.extra))


def _call(given: ToolCall) -> ToolCall:
    """A call as it can be stored. One with a known secret in its arguments is refused later, by what is stored."""
    arguments = _arguments(given.arguments)
    secret = None if KNOWN.pattern is None else found_in(arguments if isinstance(arguments, str) else encode(arguments))
    shown = arguments if secret is None else redact_value(arguments)
    return ToolCall(storable_text(given.id)[:200], redact(storable_text(given.name))[:200], shown, secret)


def _count(given: int) -> int:
    return min(max(given, 0), MOST)


def _extra(given: Any) -> Any:
    """The data that a provider expects back, if it can be stored. It may be signed, so nothing in it is replaced."""
    try:
        text = encode(given)
        return given if len(text) <= MAX_ARGUMENTS and found_in(text) is None else None
    except PerdureError:
        return None


def _arguments(given: dict[str, Any] | str) -> dict[str, Any] | str:
    text = storable_text(given) if isinstance(given, str) else None
    if text is None:
        try:
            text = encode(given)
        except Exception:  # a lone surrogate, or not JSON: shown to the model as it came
            text = storable_text(repr(given))
            given = text
    if len(text) > MAX_ARGUMENTS:
        return text[:1000] + f"… {len(text) - 1000:,} characters of these arguments were not kept …"
    return given if isinstance(given, dict) else text


def storable_text(given: str) -> str:
    """The text in a form that every database can store."""
    return given.encode("utf-8", "replace").decode().replace("\0", "\N{SYMBOL FOR NULL}")
