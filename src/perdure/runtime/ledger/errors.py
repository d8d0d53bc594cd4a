"""What a program is told of a settled effect or a failed step: the same in this run and in every later one."""

from __future__ import annotations

from typing import Any

from perdure.domain.effect import Effect, EffectState, Replay, Verdict
from perdure.errors import (
    ApprovalDenied,
    ApprovalExpired,
    EffectCompensated,
    EffectInDoubt,
    NotDone,
    PerdureError,
    PolicyDenied,
    StepFailed,
    ToolError,
)

_REFUSED: dict[str, type[PerdureError]] = {
    "approval-denied": ApprovalDenied,
    "approval-expired": ApprovalExpired,
    "policy-denied": PolicyDenied,
}


def has_result(effect: Effect) -> bool:
    """Whether a settled effect was acknowledged with a result; one whose result could not be stored has an error."""
    return effect.state == EffectState.ACKNOWLEDGED and effect.error is None


def failure(effect: Effect) -> PerdureError:
    """The error for an effect that is settled and has no result."""
    if effect.state == EffectState.COMPENSATED:
        return EffectCompensated(f"{effect.tool} ({effect.id}) was undone.", effect=effect.id)
    error: dict[str, Any] = effect.error if isinstance(effect.error, dict) else {}
    message = f"{effect.tool} ({effect.id}): {error.get('message') or error.get('type') or effect.state}"
    return _kind(effect, error)(message, effect=effect.id, error=error)


def _kind(effect: Effect, error: dict[str, Any]) -> type[PerdureError]:
    if effect.state == EffectState.REFUSED:
        return _REFUSED.get(str(error.get("code")), ApprovalDenied)
    if effect.verdict == Verdict.ABANDON:
        return EffectInDoubt
    return ToolError if effect.replay == Replay.PURE or effect.state == EffectState.ACKNOWLEDGED else NotDone


def step_failed(name: str, error: Any, number: int) -> StepFailed:
    """The error for a step that is recorded with an error, by the event of this number."""
    said = error if isinstance(error, dict) else {}
    return StepFailed(f"Step {name} failed: {said.get('type')}: {said.get('message')}", error=said, step=number)
