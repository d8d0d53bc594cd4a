"""What the model is told of each of its calls: done, failed, not started or unknown. Never an invented result."""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.agent.history.transcript import OpenCall
from perdure.agent.tools.result import Said
from perdure.domain.effect import Effect, EffectState, Verdict
from perdure.errors import PerdureError
from perdure.runtime.definitions.tool import TOOLS
from perdure.runtime.ledger.errors import failure

BOUND = 32_000  # letters of one answer; the record has the whole

UNKNOWN = "it was dispatched, and nobody can say yet what came of it."


class Told(msgspec.Struct, frozen=True):
    """What is told of one call."""

    status: str  # done, failed, not started, unknown
    text: str
    effect: str | None = None
    said: Said | None = None
    more: dict[str, Any] = {}  # what else the line says: what a sub-agent used and read
    planner: str | None = None  # of an outcome that is still to come: the session whose effect it is

    def body(self, call: OpenCall, most: int = BOUND) -> dict[str, Any]:
        """The line of the transcript, with at most so many letters of what was given."""
        line: dict[str, Any] = {
            "role": "tool",
            "of": [call.line.uid, call.line.number],
            "index": call.nth,
            "name": call.name,
            "status": self.status,
            "content": bounded(self.text, most),
        }
        if self.effect is not None:
            line["effect"] = self.effect
        if self.planner is not None:
            line["planner"] = self.planner
        if self.said is not None:
            line |= {k: v for k, v in (("origin", self.said.origin), ("read", self.said.read)) if v}
            line |= {"artifact": self.said.artifact} if self.said.artifact else {}
        return line | self.more


def not_started(why: str) -> Told:
    return Told("not started", why)


def from_error(error: PerdureError) -> Told:
    """A call that never became an effect."""
    return not_started(error.message)


def done(text: str, **more: Any) -> Told:
    return Told("done", text, more=more)


def of_effect(effect: Effect, result: str) -> Told:
    """What came of an effect; `result` is its recorded result as JSON text."""
    if effect.state == EffectState.ACKNOWLEDGED:
        said = _said(effect, result)
        return Told("done", said.text, effect.id, said)
    if effect.state not in (EffectState.PLANNED, EffectState.DISPATCHED):
        why = failure(effect)
        if effect.verdict == Verdict.ABANDON:
            text = f"nobody knows whether it happened, and {effect.verdict_by} abandoned it: {effect.verdict_because}"
            return Told("unknown", text, effect.id)
        status = "not started" if effect.state == EffectState.REFUSED else "failed"
        return Told(status, why.message, effect.id)
    return Told("unknown", f"{UNKNOWN} {effect.doubt or ''}".strip(), effect.id, planner=effect.session_uid)


def _said(effect: Effect, result: str) -> Said:
    """A recorded result as text; what a tool of ours returns says more than text."""
    tool = TOOLS.get(effect.tool)
    if tool is not None and tool.shape.returns is Said:
        try:
            return msgspec.json.decode(result, type=Said)
        except msgspec.MsgspecError:  # recorded by a person's verdict, or by another version
            pass
    value = msgspec.json.decode(result)
    if value is None:
        because = f" ({effect.verdict_by} says so: {effect.verdict_because})" if effect.verdict else ""
        if effect.error is not None:
            because = f". {effect.error.get('message')}"
        return Said(f"it happened{because}.")
    return Said(value if isinstance(value, str) else result)


def bounded(text: str, most: int = BOUND) -> str:
    """The beginning and the end of what is too long."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n… {len(text) - 2 * half:,} letters are left out here …\n{text[-half:]}"
