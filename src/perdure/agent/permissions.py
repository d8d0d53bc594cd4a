"""The policy of an agent: its own one, beside that of the runtime and that of the store.

The default is the policy that ships (`domain.policy.shipped`), which the store's policy replaces once one was set. A
function that was given instead (`Agent(policy=)`) can only object as well, once the store has a policy.

Calls of a model are under the policy too: a rule on the action or the reach `model` may deny them, or ask people. A
call is recorded with its answer, and nothing is written before it. So what is asked is an effect of its own: an
approval of one model call, whose act does nothing. One approval covers the repetitions of one call.

When it asks, a person may allow the same call, or its tool, for the rest of the session: an exemption from the rules
that asked (`domain.exemption`). A gate of the tool and the runtime's policy still ask.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from perdure.domain.effect import Effect, EffectState, Replay
from perdure.domain.literals import PolicyAnswer
from perdure.errors import ConfigError, ModelError, PolicyChanged, PolicyDenied
from perdure.runtime.definitions.tool import Gate, Tool, tool
from perdure.runtime.ledger.exemptions import lift
from perdure.runtime.ledger.policy import Intent, Policy, Ruling, under
from perdure.runtime.policy import call_facts
from perdure.runtime.policy.budgets import record_stop
from perdure.runtime.policy.objections import OwnPolicy
from perdure.secrets.redaction import KNOWN
from perdure.store.move import StoreTransaction
from perdure.store.moves import approval
from perdure.store.moves import effect as effects
from perdure.store.moves.approval import ApprovalRequest

if TYPE_CHECKING:
    from perdure.agent.ledger import AgentLedger

MCP = "mcp."  # tools of MCP servers
ASKED = frozenset({"run_command", "git_push"})
GATE = Gate("agent", expires=None, requester_may_decide=True)  # the model asks, and the person it works for decides


class AskFirst(msgspec.Struct, frozen=True):
    """The default policy of an agent: what leaves the folder, or may leave it, needs approval.

    `allowed` are tools that need no approval. Called as a function it answers without looking at a command; a run
    judges by the policy that ships, which also knows harmless commands and dangerous ones.
    """

    allowed: frozenset[str] = frozenset()

    def __call__(self, intent: Intent) -> PolicyAnswer:
        if intent.tool in self.allowed:
            return "allow"
        of_server = intent.tool.startswith(MCP) and intent.replay != Replay.PURE
        return "ask" if intent.tool in ASKED or of_server else "allow"


ask_first = AskFirst()


def own_policy(given: Callable[[Intent], str] | None) -> OwnPolicy:
    """The policy of an agent, as it was given."""
    if isinstance(given, AskFirst):
        return OwnPolicy(Policy(None, of_agent=True), is_default=True, allowed=given.allowed)
    return OwnPolicy(Policy(given, of_agent=True))


def _allow(model: str) -> None:  # noqa: ARG001 - the argument is what people are shown
    return None


MODEL_CALL: Tool[..., None] = tool(name=call_facts.MODEL_CALL, replay="pure", reach="none")(_allow)


async def permit_model(ledger: AgentLedger, model: str, position: list[Any]) -> Ruling:
    """What allows a call of a model now, after asking people if a rule does. Raises `ModelError` if it is denied."""
    run, generation = ledger.run, 0
    site = ledger.call_site(MODEL_CALL)
    while True:
        try:
            ruling = await ledger.effects.judgement.rule_on_model(model, site)
        except PolicyDenied as denied:
            await record_stop(run, ledger.effects.intent(MODEL_CALL, {"model": model}, ["budget", *position]), denied)
            raise
        intent = ledger.effects.intent(MODEL_CALL, {"model": model}, ["permit", *position], generation=generation)
        ruling = await lift(run, ruling, MODEL_CALL.name, intent.id, intent.intent_digest)
        if ruling.answer == "allow":
            return ruling
        if ruling.question is None:
            raise _denied(ruling.why)
        there, suffices = await run.read(_asked, run.session.uid, intent.id, ruling.question)
        if there is None:
            try:
                there = await run.write(approval.request(run.holder, under(intent, ruling), ruling.question))
            except PolicyChanged:
                ledger.effects.judgement.outdated()
                continue
        if there.state == EffectState.ACKNOWLEDGED:
            if suffices:
                return ruling
            generation += 1  # another rule asks now, which people were not shown
            continue
        there = await ledger.effects.recovery.drive(MODEL_CALL, there)
        if there.state != EffectState.ACKNOWLEDGED:
            await run.interruption.check()
            error = there.error if isinstance(there.error, dict) else {}
            raise _denied(str(error.get("message") or there.state))


def _asked(tx: StoreTransaction, uid: str, effect_id: str, question: ApprovalRequest) -> tuple[Effect | None, bool]:
    """The approval of a model call that was asked for, and whether it is enough for what asks now."""
    there = effects.get_or_none(tx, uid, effect_id)
    return there, there is not None and not approval.must_ask(tx, there, question)


def _denied(why: str) -> ModelError:
    hint = "`perdure policy show` shows the policy; send a message to try again."
    return ModelError(f"The model may not be called: {why}", hint=hint, retry=False)


def permit_secrets(tool: Tool[..., Any], arguments: dict[str, Any]) -> None:
    """A model may use the secrets that the operator named, and those that the tool itself uses by default."""
    own = [one.default for one in tool.signature.parameters.values()]
    for one in tool.signature.secrets_in(arguments):
        if one.reference not in KNOWN.named and one not in own:
            raise ConfigError(f"{one.reference} is no secret that you may use: the setting `secrets` does not name it.")
    tool.signature.check_secrets(arguments)
