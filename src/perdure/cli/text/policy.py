"""The policy in text: a version, an explanation, and what a new text would change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import click

from perdure.cli.text.plain import call, count, safe, short
from perdure.clock import format_time, span

if TYPE_CHECKING:
    from perdure.domain.policy import PolicyDocument
    from perdure.runtime.policy.policies import PolicyView
    from perdure.runtime.policy.recorded_calls import PolicyCheck, PolicyExplanation

COLORS = {"allow": "green", "ask": "yellow", "deny": "red"}
SHOWN = 50  # differences


def summary_of(document: PolicyDocument) -> str:
    """A policy in a few words."""
    budgets = f", {count(len(document.budgets), 'budget')}" if document.budgets else ""
    return f"{count(len(document.rules), 'rule')}{budgets}, and the default is {document.default}"


def head_of(found: PolicyView, now: int) -> Iterator[str]:
    """Who set a version, when and why, and whether it is in force."""
    state = "active" if found.is_active else "replaced"
    if found.frozen_at is not None:
        who, why = safe(found.frozen_by or ""), short(found.frozen_because or "")
        state = f"frozen {span(now - found.frozen_at)} ago by {who}: {why}"
    yield f"version  {found.version}, {state}"
    if found.activated_at is not None:
        yield f"set      {format_time(found.activated_at)} by {safe(found.activated_by)}"
    yield f"reason   {short(found.reason)}"
    if found.error is not None and found.frozen_at is None:
        yield f"error    {short(found.error)}"


def text_of(source: str) -> Iterator[str]:
    """The text, line by line, with invisible characters escaped."""
    return (safe(line) for line in source.splitlines())


def diff_lines(lines: Iterable[str]) -> Iterator[str]:
    colors = {"+": "green", "-": "red", "@": "cyan"}
    return (click.style(safe(line), fg=colors.get(line[:1])) for line in lines)


def explanation_of(found: PolicyExplanation) -> Iterator[str]:
    """How a call is judged, with the rules that match."""
    by = f"the rule {safe(found.rule)}" if found.rule else "the default"
    yield f"{_answer(found.answer)} by {by} of version {found.version}: {short(found.reason)}"
    facts = found.facts
    yield f"call       {call(facts.tool, facts.arguments)}"
    about = {"reach": facts.reach, "paths": " ".join(facts.paths), "targets": " ".join(facts.targets)}
    yield from (f"{name:9}  {safe(str(one))}" for name, one in about.items() if one)
    if found.effect is not None:
        before = f"rule {safe(found.recorded_rule)}" if found.recorded_rule else "no rule"
        yield f"recorded   {before}, version {safe(found.recorded_version or 'not recorded')}"
    if found.matches:
        yield "matches"
        width = max(len(one.rule) for one in found.matches)
        for one in found.matches:
            yield f"  {_answer(one.answer)}{' ' * (5 - len(one.answer))}  {safe(one.rule):{width}}  {short(one.reason)}"


def unknown_names(tool: str, arguments: Iterable[str]) -> Iterator[str]:
    """One sentence for a tool that is not loaded here, or for each argument that it does not have."""
    from perdure.runtime.definitions.tool import TOOLS

    if (loaded := TOOLS.get(tool)) is None:
        yield f"No tool named {safe(tool)} is known here.{_nearest(tool, TOOLS)}"
        return
    known = loaded.signature.parameters
    for one in arguments:
        if one not in known:
            yield f"{tool} has no argument {safe(one)}.{_nearest(one, known)}"


def _nearest(name: str, known: Iterable[str]) -> str:
    from difflib import get_close_matches  # late: rarely needed

    near = get_close_matches(name, list(known), n=1)
    return f" Did you mean {near[0]}?" if near else ""


def differences_of(found: PolicyCheck, width: int) -> Iterator[str]:
    """The past effects that a policy would have judged otherwise."""
    from perdure.cli.text.grid import grid

    yield f"Of {count(found.judged, 'effect')}, it would have judged {len(found.differences)} otherwise."
    if found.differences:
        rows = [
            [one.effect, one.session, one.was, one.would_be, safe(one.rule or "default"),
             call(one.tool, one.arguments, 80)]
            for one in found.differences[:SHOWN]
        ]  # fmt: skip
        yield ""
        yield from grid(("effect", "session", "was", "would be", "rule~", "call~"), rows, width=width)
    if len(found.differences) > SHOWN:
        yield f"These are the first {SHOWN}. Use --json for all."


def _answer(answer: str) -> str:
    return click.style(answer, fg=COLORS[answer], bold=True)


def freeze_line(found: PolicyView, because: str) -> str:
    """What a freeze has done: a policy that is frozen already keeps its reason."""
    if found.frozen_at is None or found.frozen_because == because:
        return "The policy is frozen: nothing is dispatched until `perdure policy thaw`."
    since = f"since {format_time(found.frozen_at)}, by {safe(found.frozen_by or '')}"
    return (
        f"The policy is frozen already, {since}: {short(found.frozen_because or '')}. The new reason is not recorded."
    )
