"""What the model is told about each of its calls: done, failed, not started or unknown. Never an invented result."""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.agent.history.transcript import OpenCall
from perdure.agent.tools.result import ToolResult
from perdure.domain.effect import Effect, EffectState, Verdict
from perdure.errors import PerdureError
from perdure.runtime.definitions.tool import TOOLS
from perdure.runtime.ledger.errors import failure
from perdure.secrets.redaction import redact

BOUND = 32_000  # characters of one result; the record has the whole

UNKNOWN = "it was dispatched, and its outcome is not known yet."


class CallReport(msgspec.Struct, frozen=True):
    """The report on one call."""

    status: str  # done, failed, not started, unknown
    text: str
    effect: str | None = None
    result: ToolResult | None = None
    more: dict[str, Any] = {}  # other keys of the line: what a sub-agent used and read
    planner: str | None = None  # if the outcome is not known yet: the session that planned the effect

    def body(self, call: OpenCall, most: int = BOUND) -> dict[str, Any]:
        """The line of the transcript, with at most `most` characters of text."""
        line: dict[str, Any] = {
            "role": "tool",
            "of": [call.line.uid, call.line.number],
            "index": call.nth,
            "name": call.name,
            "status": self.status,
            "content": bounded(redact(self.text), most),
        }
        if self.effect is not None:
            line["effect"] = self.effect
        if self.planner is not None:
            line["planner"] = self.planner
        if self.result is not None:
            about = {"origin": self.result.origin, "origins": self.result.origins, "read": self.result.read}
            line |= {name: value for name, value in about.items() if value}
            line |= {"artifact": self.result.artifact} if self.result.artifact else {}
        return line | self.more


def not_started(why: str) -> CallReport:
    return CallReport("not started", why)


def with_secret(reference: str) -> CallReport:
    """The report on a call whose arguments contained the value or the marker of a known secret."""
    return not_started(
        f"its arguments contain the secret {reference}, which may only be used by its reference. Give {reference} to a "
        "tool that takes a secret, or do without it."
    )


def from_error(error: PerdureError) -> CallReport:
    """The report on a call that never became an effect."""
    return not_started(error.message)


def done(text: str, **more: Any) -> CallReport:
    return CallReport("done", text, more=more)


def of_effect(effect: Effect, result: str) -> CallReport:
    """The report on an effect; `result` is its recorded result as JSON text."""
    if effect.state == EffectState.ACKNOWLEDGED:
        given = _result(effect, result)
        return CallReport("done", given.text, effect.id, given)
    if effect.state not in (EffectState.PLANNED, EffectState.DISPATCHED):
        why = failure(effect)
        if effect.verdict == Verdict.ABANDON:
            text = f"it is not known whether it happened; {effect.verdict_by} abandoned it: {effect.verdict_because}"
            return CallReport("unknown", text, effect.id)
        status = "not started" if effect.state == EffectState.REFUSED else "failed"
        return CallReport(status, why.message, effect.id)
    return CallReport("unknown", f"{UNKNOWN} {effect.doubt or ''}".strip(), effect.id, planner=effect.session_uid)


def _result(effect: Effect, result: str) -> ToolResult:
    """A recorded result as a tool result; tools that ship return more than text."""
    tool = TOOLS.get(effect.tool)
    if tool is not None and tool.signature.returns is ToolResult:
        try:
            return msgspec.json.decode(result, type=ToolResult)
        except msgspec.MsgspecError:  # recorded by a person's verdict, or by another version
            pass
    value = msgspec.json.decode(result)
    if value is None:
        because = f" (reported by {effect.verdict_by}: {effect.verdict_because})" if effect.verdict else ""
        if effect.error is not None:
            because = f". {effect.error.get('message')}"
        return ToolResult(f"it happened{because}.")
    return ToolResult(value if isinstance(value, str) else result)


def bounded(text: str, most: int = BOUND) -> str:
    """The beginning and the end of a text that is too long."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n… {len(text) - 2 * half:,} characters are left out here …\n{text[-half:]}"
