"""The policy of the store: show, history, check, explain, set, freeze, thaw."""

from __future__ import annotations

from typing import Any

from perdure.domain.caller import Verb
from perdure.domain.policy.facts import Action
from perdure.domain.policy_version import PolicyVersion
from perdure.runtime.policy.policies import PolicyView
from perdure.runtime.policy.recorded_calls import PolicyCheck, PolicyExplanation
from perdure.server.operation import Body, Context, Ids, Number, Operation, Touch
from perdure.server.page import Page, PageQuery, page_of


class PolicyQuery(Body, frozen=True):
    """Which version, or the one of a time in microseconds; without it, the active one."""

    at: Number | None = None


class SetPolicy(Body, frozen=True):
    """The text of the policy, in TOML, and why it changes."""

    source: str
    because: str


class CheckPolicy(Body, frozen=True):
    """A text of a policy, and how far back past effects are judged by it too, such as `7d`."""

    source: str
    against: str | float | None = None


class ExplainPolicy(Body, frozen=True):
    """An effect, or a call of a tool with its arguments, of a session if one is named."""

    effect: str | None = None
    tool: str | None = None
    arguments: dict[str, Any] | None = None
    action: Action = "do"
    session: str | None = None
    sandbox: str | None = None
    network: bool | None = None
    origins: tuple[str, ...] = ()
    cost: float | None = None


class FreezePolicy(Body, frozen=True):
    """Why nothing may begin from now on."""

    because: str


class ThawPolicy(Body, frozen=True):
    """Why the freeze ends, for the record."""

    because: str | None = None


async def get(context: Context) -> PolicyView:
    return await context.runtime.get_policy(context.query.at)


async def again(context: Context, _: Ids) -> PolicyView:
    return await context.runtime.get_policy()


async def history(context: Context) -> Page[PolicyVersion]:
    return page_of(await context.runtime.policy_versions(), context.query, lambda one: (-one.version,))


async def check(context: Context) -> PolicyCheck:
    body: CheckPolicy = context.body
    return await context.runtime.check_policy(body.source, against=body.against)


async def checked(context: Context, _: Ids) -> PolicyCheck:
    return await check(context)  # nothing was changed


async def explain(context: Context) -> PolicyExplanation:
    from perdure.agent.tools.builtin_tools import SHIPPED

    assert SHIPPED  # what the tools that ship declare is known
    body: ExplainPolicy = context.body
    return await context.runtime.explain_policy(
        body.effect,
        tool=body.tool,
        arguments=body.arguments,
        action=body.action,
        session=body.session,
        sandbox=body.sandbox,
        network=body.network,
        origins=body.origins,
        cost=body.cost,
    )


async def explained(context: Context, _: Ids) -> PolicyExplanation:
    return await explain(context)


async def set_(context: Context) -> PolicyView:
    body: SetPolicy = context.body
    await context.runtime.set_policy(body.source, because=body.because, by=context.by)
    return await context.runtime.get_policy()


async def freeze(context: Context) -> PolicyView:
    return await context.runtime.freeze_policy(because=context.body.because, by=context.by)


async def thaw(context: Context) -> PolicyView:
    return await context.runtime.thaw_policy(because=context.body.because, by=context.by)


CHANGE: dict[str, Any] = {"method": "POST", "verb": Verb.CHANGE_POLICY, "touches": Touch.STORE, "again": again}
EXAMPLE = {"source": 'default = "ask"\n', "because": "ask about everything that no rule allows"}

OPERATIONS = (
    Operation(
        name="policy.get", method="GET", path="/v1/policy", verb=Verb.READ_POLICY, touches=Touch.STORE, handler=get,
        answer=PolicyView, query=PolicyQuery, summary="The active policy, or the one of a version or a time.",
    ),
    Operation(
        name="policy.history", method="GET", path="/v1/policy/history", verb=Verb.READ_POLICY, touches=Touch.STORE,
        handler=history, answer=Page[PolicyVersion], query=PageQuery, summary="Every version, the newest first.",
    ),
    Operation(
        name="policy.check", path="/v1/policy/check", **CHANGE | {"again": checked}, handler=check, answer=PolicyCheck,
        body=CheckPolicy, example={"source": EXAMPLE["source"], "against": "7d"},
        summary="Read a policy and judge its examples, and past effects by it. Nothing is changed.",
    ),
    Operation(
        name="policy.explain", method="POST", path="/v1/policy/explain", verb=Verb.READ_POLICY, touches=Touch.STORE,
        handler=explain, answer=PolicyExplanation, body=ExplainPolicy, again=explained,
        example={"tool": "git_push", "arguments": {"branch": "main"}}, refusals=(409,),
        summary="How the active policy judges an effect or a call, with every rule that matches.",
    ),
    Operation(
        name="policy.set", path="/v1/policy", **CHANGE, handler=set_, answer=PolicyView, body=SetPolicy,
        example=EXAMPLE, summary="Make a text the policy of the store, for every process.",
    ),
    Operation(
        name="policy.freeze", path="/v1/policy/freeze", **CHANGE, handler=freeze, answer=PolicyView,
        body=FreezePolicy, example={"because": "an incident"}, summary="Stop every dispatch in every process.",
    ),
    Operation(
        name="policy.thaw", path="/v1/policy/thaw", **CHANGE, handler=thaw, answer=PolicyView, body=ThawPolicy,
        example={"because": "it is over"}, summary="Allow dispatches again.",
    ),
)  # fmt: skip
