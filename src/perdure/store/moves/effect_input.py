"""What the ledger's moves are given: an intent, who acts on it, what came of it. JSON columns are JSON text."""

from __future__ import annotations

import msgspec

from perdure.domain.effect import AttemptOutcome


class NewEffect(msgspec.Struct, frozen=True, kw_only=True):
    """What must be known to plan an effect. JSON columns are JSON text already."""

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
    """Who acts, and until when: what an attempt needs to know before it begins."""

    worker: str
    process: str
    deadline_at: int | None = None
    sandbox: str | None = None


class AttemptResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of an attempt: a result as JSON text or artifact, or an error as JSON text.

    `over` says whether its act is known to have ended. `acknowledged` with an error: its result could not be stored.
    """

    outcome: AttemptOutcome
    result: str | None = None
    artifact: str | None = None
    error: str | None = None
    reference: str | None = None
    over: bool = True
