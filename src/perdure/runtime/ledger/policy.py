"""What a call needs before it begins: who objects to it, and what the objections amount to.

An objection asks people, or denies. It comes from a rule of the store's policy or of the repository's, from a function
that code gave (`perdure.open(policy=)`, `Agent(policy=)`), or from the gate of the tool. Every objection counts: the
call begins when each of them is lifted by an exemption, or when one approval meets the demands of all that ask. So a
source can only add objections, and nothing that one of them says weakens another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, get_args

import msgspec

from perdure.domain.exemption import AGENT
from perdure.domain.literals import PolicyAnswer
from perdure.domain.policy.facts import Action
from perdure.domain.policy_version import FIRST_FENCE
from perdure.errors import ConfigError
from perdure.runtime.definitions.tool import Gate
from perdure.runtime.description import short_repr, summary
from perdure.runtime.policy.gates import approval_request
from perdure.store.moves.approval import ApprovalRequest
from perdure.store.moves.effect_input import NewEffect

GATE = Gate("policy")  # of what a program does, and of the policy that code gave the runtime
CODE = "code"  # the rule of that policy
ACTIONS: tuple[Action, ...] = get_args(Action)
SAYS = 'It says "allow", "ask" or "deny".'


class Intent(msgspec.Struct, frozen=True):
    """What a policy is given: exactly what will be done. `action` is `do`, `undo` or `model`, a call of a model."""

    tool: str
    replay: str
    arguments: dict[str, Any]
    targets: list[str]
    session_id: str
    owner: str | None
    repository: str | None
    origins: tuple[str, ...] = ()  # where what an agent has read came from: `file:`, `command:`, `web:` …
    action: Action = "do"


class Objection(msgspec.Struct, frozen=True):
    """One source that asks or denies. `gate` is its own; without one, people decide as the host of the call says.

    `may_lift`: an exemption may lift it. `may_remember`: an approval may lift it for later calls too.
    """

    rule: str
    answer: PolicyAnswer
    reason: str
    gate: Gate | None = None
    may_lift: bool = False
    may_remember: bool = False


class Basis(msgspec.Struct, frozen=True):
    """What a ruling was made on: the policy, the rule that allows the call if nothing objects, and who would decide.

    `gate` decides about objections without a gate of their own.
    """

    version: str = "0"
    fence: str = FIRST_FENCE
    rule: str | None = None
    gate: Gate = GATE
    requester: str = ""
    now: int = 0


class Ruling(msgspec.Struct, frozen=True):
    """The answer for an intent; `question` is the approval request, if one is needed.

    `rule` is what decided. `exemptions` are those that lifted objections; the dispatch uses them.
    """

    answer: PolicyAnswer
    why: str
    question: ApprovalRequest | None = None
    objections: tuple[Objection, ...] = ()
    exemptions: tuple[str, ...] = ()
    rule: str | None = None
    basis: Basis = Basis()


ALLOWED = Ruling("allow", "Nothing asks.")


def rule_on(objections: Sequence[Objection], basis: Basis, exemptions: tuple[str, ...] = (), why: str = "") -> Ruling:
    """What the objections to a call amount to: a denial, one request that meets all that ask, or nothing."""
    left = tuple(objections)
    denial = next((one for one in left if one.answer == "deny"), None)
    if denial is not None:
        return Ruling("deny", denial.reason, None, left, exemptions, denial.rule, basis)
    if not left:
        return Ruling("allow", why or "Nothing asks.", None, (), exemptions, basis.rule, basis)
    gates = list(dict.fromkeys(one.gate for one in left if one.gate is not None)) or [basis.gate]
    lifts = tuple(dict.fromkeys(one.rule for one in left)) if all(one.may_remember for one in left) else ()
    shown = tuple(dict.fromkeys((one.rule, one.reason) for one in left))
    question = approval_request(
        gates, requester=basis.requester, now=basis.now, lifts=lifts, rules=shown, policy_version=basis.version,
        fence=basis.fence,
    )  # fmt: skip
    return Ruling("ask", left[0].reason, question, left, exemptions, left[0].rule, basis)


def under(intent: NewEffect, ruling: Ruling) -> NewEffect:
    """An intent with the policy that it was judged by, and the rule that decided."""
    return msgspec.structs.replace(intent, policy_version=ruling.basis.version, rule=ruling.rule)


class Policy:
    """A policy that code gives as a function. It can only object.

    It is asked about calls of tools; about undos and calls of models, if it declares them in an attribute `actions`.
    """

    def __init__(self, rule: Callable[[Intent], str] | None, *, of_agent: bool = False) -> None:
        """A person may answer the questions of an agent's own policy for the rest of the session."""
        self._of_agent = of_agent
        self._rule = rule
        self.name = None if rule is None else getattr(rule, "__name__", "policy")
        self.actions = frozenset(getattr(rule, "actions", ("do",)))
        if unknown := self.actions - set(ACTIONS):
            raise ConfigError(
                f"A policy has no action {min(map(str, unknown))!r:.40}.", hint=f"It has {', '.join(ACTIONS)}."
            )

    @property
    def is_given(self) -> bool:
        """Whether the process was started with a policy."""
        return self._rule is not None

    def objection(self, shown: Intent, gate: Gate | None) -> Objection | None:
        """What it has against a call; `gate` is the tool's own."""
        if self._rule is None or shown.action not in self.actions:
            return None
        answer = self._answer(self._rule, shown)
        name, may = AGENT if self._of_agent else CODE, self._of_agent
        if answer == "deny":
            return Objection(name, "deny", f"The policy {self.name} forbids {shown.tool}.")
        if answer == "allow":
            return None
        own = GATE if not may and gate is None else None
        return Objection(name, "ask", f"The policy {self.name} asks.", own, may_lift=may, may_remember=may)

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
