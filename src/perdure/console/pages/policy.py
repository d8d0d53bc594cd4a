"""The policy: its text, its versions, how it judges a call, and exemptions; with a switch that stops every dispatch."""

from __future__ import annotations

from difflib import unified_diff
from typing import Any

from starlette.responses import Response

from perdure.console.intent import DiffLine, diff_lines
from perdure.console.page import ConsoleContext, ConsolePage, action
from perdure.domain.caller import Verb
from perdure.domain.effect import EffectReach
from perdure.domain.exemption import Exemption
from perdure.domain.policy import Explanation, Facts, explain, parse
from perdure.errors import ConfigError, NotAllowed, PerdureError
from perdure.server.operation import Touch
from perdure.server.operations import exemptions as operations

MOST = 200  # versions and exemptions
ASKED = ("tool", "command", "path", "branch", "reach")


async def show(context: ConsoleContext) -> Response:
    at, since = (context.number(name, 0) if context.given(name) else None for name in ("at", "since"))
    view = await context.runtime.get_policy(at)
    changes, left_out = await _changes(context, view.source, since)
    asked = {name: context.given(name) for name in ASKED}
    problem, found = "", None
    if asked["tool"] or asked["command"]:
        try:
            found = _explanation(view.source, asked)
        except PerdureError as error:
            problem = error.message
    return context.show(
        "policy.html", view=view, versions=(await context.runtime.policy_versions())[:MOST], asked=asked,
        explanation=found, problem=problem, exemptions=await _exemptions(context),
        reaches=[str(one) for one in EffectReach], since=since, changes=changes, left_out=left_out,
    )  # fmt: skip


async def _changes(context: ConsoleContext, source: str, since: int | None) -> tuple[list[DiffLine], int]:
    """What a version changed since an earlier one."""
    if since is None:
        return [], 0
    before = (await context.runtime.get_policy(since)).source
    lines = list(unified_diff(before.splitlines(), source.splitlines(), lineterm=""))
    return diff_lines("\n".join(lines[2:]))


def _explanation(source: str, asked: dict[str, str]) -> Explanation:
    """How a call would be judged. What is not given is not known, and the stricter reading counts."""
    reach: Any = asked["reach"] or "outside"
    if reach not in set(EffectReach):
        raise ConfigError(f"{reach!r:.40} is not a reach.")
    facts = Facts(
        tool=asked["tool"] or "run_command", command=asked["command"] or None, reach=reach,
        paths=(asked["path"],) if asked["path"] else (), branch=asked["branch"] or None,
    )  # fmt: skip
    return explain(parse(source), facts)


async def _exemptions(context: ConsoleContext) -> list[Exemption]:
    if not context.caller.may(Verb.READ_EXEMPTION):
        return []
    found: list[Exemption] = []
    async for one in context.runtime.exemptions(active=True):
        found.append(one)
        if len(found) == MOST:
            break
    return found


async def change(context: ConsoleContext) -> Response:
    """Stop every dispatch, or allow dispatches again."""
    because = context.because()
    match context.field("do"):
        case "freeze":
            if because is None:
                raise ConfigError("A freeze needs a reason.", hint="People who wait will read it.")
            await context.runtime.freeze_policy(because=because, by=context.by)
        case "thaw":
            await context.runtime.thaw_policy(because=because, by=context.by)
        case _:
            raise ConfigError("This button is not known.", hint="Load the page again.")
    return context.back("changed")


async def grant(context: ConsoleContext) -> Response:
    """Grant an exemption, as the operation of the service does: authorized by what it is for."""
    given = {name: context.field(name) for name in ("session", "repository", "owner", "tool", "expires")}
    uses = context.field("uses")
    if uses and not (uses.isascii() and uses.isdigit() and len(uses) < 10):
        raise ConfigError(f"{uses!r:.40} is not a number of uses.")
    context.body = operations.GrantExemption(
        rule=context.field("rule"), because=context.field("because"), uses=int(uses) if uses else None,
        **{name: text for name, text in given.items() if text},
    )  # fmt: skip
    if not context.caller.may(Verb.GRANT_EXEMPTION, await operations.place_of_grant(context)):
        raise NotAllowed(f"{context.caller.name} may not grant this exemption.")
    await operations.grant(context)
    return context.back("granted")


async def revoke(context: ConsoleContext) -> Response:
    context.body = operations.RevokeExemption(because=context.field("because"))
    if not context.caller.may(Verb.GRANT_EXEMPTION, await operations.place(context)):
        raise NotAllowed(f"{context.caller.name} may not revoke this exemption.")
    await operations.revoke(context)
    return context.back("revoked")


PAGES = (
    ConsolePage("/policy", Verb.READ_POLICY, Touch.STORE, show),
    action("/exemptions", Verb.GRANT_EXEMPTION, Touch.LISTING, grant),
    action("/exemptions/{id}/revoke", Verb.GRANT_EXEMPTION, Touch.LISTING, revoke),
    action("/policy", Verb.CHANGE_POLICY, Touch.STORE, change),
)
