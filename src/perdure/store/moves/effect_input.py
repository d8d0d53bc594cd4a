"""The input of the ledger's moves: an effect to plan, its dispatch, the result of an attempt. JSON is given as text."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from perdure.domain.effect import AttemptOutcome
from perdure.domain.policy_version import FIRST_FENCE


class NewEffect(msgspec.Struct, frozen=True, kw_only=True):
    """An effect to plan. JSON columns are JSON text already."""

    id: str
    position: str
    generation: int
    tool: str
    replay: str
    targets: str
    intent: str
    intent_digest: str
    idempotency_key: str
    task_id: str | None = None
    policy_version: str | None = None
    rule: str | None = None
    reach: str | None = None
    supersedes: str | None = None
    leases: str | None = None
    inflight: int | None = None
    key_ttl: int | None = None
    retry: int | None = None


class Dispatch(msgspec.Struct, frozen=True, kw_only=True):
    """Who makes an attempt, until when, and under which policy; recorded before it begins.

    With another `fence` than the active policy's, nothing is recorded, and the call is judged anew.
    """

    worker: str
    process: str
    deadline_at: int | None = None
    sandbox: str | None = None
    policy_version: str = "0"
    rule: str | None = None
    fence: str = FIRST_FENCE
    exemptions: tuple[str, ...] = ()  # used by the effect, with its first attempt


class AttemptResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an attempt: JSON text or an artifact, or an error as JSON text.

    `over` is whether its act is known to have ended. `acknowledged` with an error: its result could not be stored.
    """

    outcome: AttemptOutcome
    result: str | None = None
    artifact: str | None = None
    error: str | None = None
    reference: str | None = None
    over: bool = True


class EffectKey(NamedTuple):
    """The place of an effect among all, the newest first."""

    planned_at: int
    id: str
