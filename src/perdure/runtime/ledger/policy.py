"""Policy and gates: is an effect allowed, denied, or does it need approval?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from perdure.clock import Clock
from perdure.domain.session import SessionRecord
from perdure.errors import ConfigError
from perdure.runtime.calls.approval_tool import NAME as APPROVAL
from perdure.runtime.definitions.durations import microseconds
from perdure.runtime.definitions.tool import Gate, Tool
from perdure.runtime.description import short_repr, summary
from perdure.store.moves.approval import ApprovalRequest

GATE = Gate("policy")
SAYS = 'It says "allow", "ask" or "deny".'


class Intent(msgspec.Struct, frozen=True):
    """What a policy is given: exactly what will be done."""

    tool: str
    replay: str
    arguments: dict[str, Any]
    targets: list[str]
    session_id: str
    owner: str | None
    repository: str | None
    origins: tuple[str, ...] = ()  # where what an agent has read came from: `file:`, `command:`, `web:` …


class Ruling(msgspec.Struct, frozen=True):
    """The answer for an intent; `question` is the approval request, if one is needed."""

    answer: str
    why: str
    question: ApprovalRequest | None = None


class Policy:
    """The runtime's policy together with the tools' own gates. The stricter of the two applies."""

    def __init__(
        self, rule: Callable[[Intent], str] | None, clock: Clock, gate: Gate = GATE, *, may_remember: bool = False
    ) -> None:
        """`gate` is used for approvals if the tool has no gate of its own.

        With `may_remember`, a person may answer its questions for the rest of the session.
        """
        self._may_remember = may_remember
        self._rule = rule
        self._gate = gate
        self._clock = clock
        self.name = None if rule is None else getattr(rule, "__name__", "policy")

    @property
    def is_given(self) -> bool:
        """Whether the process was started with a policy."""
        return self._rule is not None

    def rule(
        self, tool: Tool[..., Any], session: SessionRecord, arguments: dict[str, Any], origins: tuple[str, ...] = ()
    ) -> Ruling:
        answer = "allow"
        if self._rule is not None and tool.name != APPROVAL:  # to ask people is no act
            shown = Intent(
                tool.name, tool.replay, arguments, tool.targets_of(arguments), session.id, session.owner,
                session.repository, origins,
            )  # fmt: skip
            answer = self._answer(self._rule, shown)
        if answer == "deny":
            return Ruling("deny", f"The policy {self.name} forbids {tool.name}.")
        gate = tool.gate or (self._gate if answer == "ask" else None)
        if gate is None:
            return Ruling("allow", "Nothing asks.")
        expires = None if gate.expires is None else self._clock.now() + microseconds(gate.expires)
        question = ApprovalRequest(
            gate=gate.name,
            requester=session.owner or session.id,
            requester_may_decide=gate.requester_may_decide,
            quorum=gate.quorum,
            expires_at=expires,
            reason_required=gate.reason == "required",
            may_remember=self._may_remember and tool.gate is None,
        )
        return Ruling("ask", f"The gate {gate.name} asks.", question)

    def _answer(self, rule: Callable[[Intent], str], shown: Intent) -> str:
        """The answer of the policy. A policy that raises has not allowed anything."""
        try:
            answer = rule(shown)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise ConfigError(f"The policy {self.name} raised {summary(error)}", hint=SAYS) from error
        if type(answer) is not str or answer not in ("allow", "ask", "deny"):
            raise ConfigError(f"The policy {self.name} said {short_repr(answer, 200)}.", hint=SAYS)
        return answer
