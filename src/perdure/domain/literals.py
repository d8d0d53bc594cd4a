"""The closed sets of words in public signatures, as type checkers see them.

Each is the values of an enum of the domain; a test compares them. Callers write the plain word.
"""

from __future__ import annotations

from typing import Literal

ReplayRule = Literal["pure", "idempotent", "probe", "compensate", "escalate", "joint"]
PolicyAnswer = Literal["allow", "ask", "deny"]
ReachWord = Literal["none", "model", "workspace", "machine", "outside"]
MessageMode = Literal["queue", "steer"]
VerdictWord = Literal["happened", "absent", "abandon"]
DecisionWord = Literal["approved", "denied", "expired", "waiting"]  # `waiting`: not decided yet
StatusWord = Literal["ready", "running", "waiting", "done", "failed", "cancelled"]
EffectStateWord = Literal["planned", "dispatched", "acknowledged", "failed", "refused", "compensated", "superseded"]
TaskStateWord = Literal["open", "active", "blocked", "done", "dropped"]
WaitWord = Literal[
    "approval",
    "input",
    "timer",
    "doubt",
    "effect",
    "lease",
    "child",
    "paused",
    "program",
    "policy",
    "quarantine",
    "slot",
    "workspace",
    "budget",
]
ArchivedWord = Literal["with", "without", "only"]
RememberWord = Literal["once", "this", "tool"]
OverlapWord = Literal["skip", "queue", "cancel"]
CatchUpWord = Literal["all", "last", "none"]
NotificationWord = Literal["pending", "sent", "failed"]
ProfileName = Literal["default", "read-only", "workspace", "full"]
