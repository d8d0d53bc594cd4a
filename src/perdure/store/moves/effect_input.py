"""The input of the ledger's moves: an effect to plan, its dispatch, the result of an attempt. JSON is given as text."""

from __future__ import annotations

import msgspec

from perdure.domain.effect import AttemptOutcome


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
    supersedes: str | None = None
    leases: str | None = None
    inflight: int | None = None
    key_ttl: int | None = None
    retry: int | None = None


class Dispatch(msgspec.Struct, frozen=True, kw_only=True):
    """Who makes an attempt, and until when; recorded before it begins."""

    worker: str
    process: str
    deadline_at: int | None = None
    sandbox: str | None = None


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
