"""Perdure: durable sessions for AI coding agents."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perdure.agent.agent import Agent
    from perdure.agent.mcp.server import MCPServer
    from perdure.agent.model import Model
    from perdure.agent.output.agent_result import AgentResult
    from perdure.agent.settings import Limits
    from perdure.agent.tools.result import ToolResult
    from perdure.client.client import connect
    from perdure.domain.approval import Approval, ApprovalDecision
    from perdure.domain.effect import Effect
    from perdure.domain.event import Event
    from perdure.domain.literals import PolicyAnswer
    from perdure.errors import (
        AccessError,
        ApprovalDenied,
        ApprovalError,
        ApprovalExpired,
        BundleInvalid,
        CommitUnknown,
        ConfigError,
        Conflict,
        Damaged,
        EffectCompensated,
        EffectError,
        EffectInDoubt,
        ForkedProcess,
        IllegalMove,
        KeyReused,
        LeaseError,
        LeaseHeld,
        LeaseLost,
        ModelError,
        NotAllowed,
        NotAuthenticated,
        NotDone,
        NotFound,
        NotPermitted,
        PerdureError,
        PolicyChanged,
        PolicyDenied,
        ProgramChanged,
        ProgramError,
        ProgramUnknown,
        QueueClosed,
        QueueError,
        QueueFull,
        RequestError,
        RequestInFlight,
        SchemaMismatch,
        SessionError,
        SessionFailed,
        SessionWaiting,
        StepFailed,
        StoreError,
        StoreFull,
        StoreUnavailable,
        Suspended,
        ToolError,
        TooManyRequests,
        VersionChanged,
    )
    from perdure.runtime.definitions.program import Bound, Program, program
    from perdure.runtime.definitions.prompt import File
    from perdure.runtime.definitions.tool import Call, Gate, Outcome, Tool, tool
    from perdure.runtime.ledger.joint import Transaction
    from perdure.runtime.ledger.policy import Intent
    from perdure.runtime.queries import SessionView
    from perdure.runtime.runtime import Runtime, run
    from perdure.runtime.runtime import open as open
    from perdure.runtime.session import Session
    from perdure.runtime.stream.events import (
        ApprovalRequested,
        DoubtOpened,
        MessageAdded,
        ModelRetry,
        QuestionOpened,
        SessionFinished,
        SessionParked,
        StreamEvent,
        TextDelta,
        TextDiscarded,
        ToolCallFinished,
        ToolCallStarted,
        ToolOutput,
    )
    from perdure.runtime.telemetry.configuration import instrument
    from perdure.runtime.workers.worker import Worker
    from perdure.secrets.reference import Secret

__version__ = "0.1.0"

# Not `open`, which would replace the builtin where a program says `from perdure import *`.
__all__ = [
    "AccessError",
    "Agent",
    "AgentResult",
    "Approval",
    "ApprovalDecision",
    "ApprovalDenied",
    "ApprovalError",
    "ApprovalExpired",
    "ApprovalRequested",
    "Bound",
    "BundleInvalid",
    "Call",
    "CommitUnknown",
    "ConfigError",
    "Conflict",
    "Damaged",
    "DoubtOpened",
    "Effect",
    "EffectCompensated",
    "EffectError",
    "EffectInDoubt",
    "Event",
    "File",
    "ForkedProcess",
    "Gate",
    "IllegalMove",
    "Intent",
    "KeyReused",
    "LeaseError",
    "LeaseHeld",
    "LeaseLost",
    "Limits",
    "MCPServer",
    "MessageAdded",
    "Model",
    "ModelError",
    "ModelRetry",
    "NotAllowed",
    "NotAuthenticated",
    "NotDone",
    "NotFound",
    "NotPermitted",
    "Outcome",
    "PerdureError",
    "PolicyAnswer",
    "PolicyChanged",
    "PolicyDenied",
    "Program",
    "ProgramChanged",
    "ProgramError",
    "ProgramUnknown",
    "QuestionOpened",
    "QueueClosed",
    "QueueError",
    "QueueFull",
    "RequestError",
    "RequestInFlight",
    "Runtime",
    "SchemaMismatch",
    "Secret",
    "Session",
    "SessionError",
    "SessionFailed",
    "SessionFinished",
    "SessionParked",
    "SessionView",
    "SessionWaiting",
    "StepFailed",
    "StoreError",
    "StoreFull",
    "StoreUnavailable",
    "StreamEvent",
    "Suspended",
    "TextDelta",
    "TextDiscarded",
    "TooManyRequests",
    "Tool",
    "ToolCallFinished",
    "ToolCallStarted",
    "ToolError",
    "ToolOutput",
    "ToolResult",
    "Transaction",
    "VersionChanged",
    "Worker",
    "__version__",
    "connect",
    "instrument",
    "program",
    "run",
    "tool",
]

_HOME = {
    "perdure.agent.agent": ("Agent",),
    "perdure.agent.mcp.server": ("MCPServer",),
    "perdure.agent.model": ("Model",),
    "perdure.agent.output.agent_result": ("AgentResult",),
    "perdure.agent.settings": ("Limits",),
    "perdure.client.client": ("connect",),
    "perdure.domain.approval": ("Approval", "ApprovalDecision"),
    "perdure.domain.effect": ("Effect",),
    "perdure.domain.event": ("Event",),
    "perdure.domain.literals": ("PolicyAnswer",),
    "perdure.agent.tools.result": ("ToolResult",),
    "perdure.runtime.ledger.joint": ("Transaction",),
    "perdure.runtime.ledger.policy": ("Intent",),
    "perdure.runtime.queries": ("SessionView",),
    "perdure.runtime.definitions.prompt": ("File",),
    "perdure.runtime.definitions.program": ("Bound", "Program", "program"),
    "perdure.runtime.runtime": ("Runtime", "open", "run"),
    "perdure.runtime.session": ("Session",),
    "perdure.runtime.stream.events": (
        "ApprovalRequested",
        "DoubtOpened",
        "MessageAdded",
        "ModelRetry",
        "QuestionOpened",
        "SessionFinished",
        "SessionParked",
        "StreamEvent",
        "TextDelta",
        "TextDiscarded",
        "ToolCallFinished",
        "ToolCallStarted",
        "ToolOutput",
    ),
    "perdure.runtime.telemetry.configuration": ("instrument",),
    "perdure.runtime.workers.worker": ("Worker",),
    "perdure.secrets.reference": ("Secret",),
    "perdure.runtime.definitions.tool": ("Call", "Gate", "Outcome", "Tool", "tool"),
}
_MODULE = {name: module for module, names in _HOME.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: `perdure --version` needs none of them."""
    if name not in __all__ and name not in _MODULE:
        raise AttributeError(f"module 'perdure' has no attribute {name!r}")
    value = getattr(import_module(_MODULE.get(name, "perdure.errors")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULE})
