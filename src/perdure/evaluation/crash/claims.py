"""The claims of the crash workload with their figures, and the controls that must be caught."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from perdure.evaluation.crash.plan import PLANTED, SYSTEMS
from perdure.evaluation.report.model import Control, Hypothesis
from perdure.evaluation.statistics import Share
from perdure.evaluation.workload import Result, counted


def controls(results: list[Result]) -> list[Control]:
    """The systems that must fail, and how often they did. A system without trials in this run is no control of it."""
    naive = [one for one in results if one.system == SYSTEMS[0] and one.parameters.get("kill") == "sink:after"]
    naive = [one for one in naive if "again" not in one.parameters]
    made = [
        _control("blob/result-only doubles an effect", naive, lambda one: one.verdicts["doubled"] > 0),
        _control("blob/result-only is silent about it", naive, lambda one: one.findings["class"] == "silent"),
    ]
    for system, ability, _, verdict in PLANTED:
        own = [one for one in results if one.system == system and one.parameters["ability"] == ability]
        made.append(_control(f"{short_control(system)}: {verdict}", own, partial(_shows, verdict)))
    return made


def _shows(verdict: str, result: Result) -> bool:
    return result.verdicts[verdict] > 0


def _control(name: str, results: list[Result], caught: Callable[[Result], bool]) -> Control:
    """A trial of a control that is void or was not run has not been caught."""
    return Control(name, sum(map(caught, counted(results))), len(results))


def short_control(system: str) -> str:
    name, substrate, configuration, _ = system.split("/")
    return f"planted {configuration} in {name}/{substrate}"


def hypotheses(results: list[Result]) -> list[Hypothesis]:
    own = [one for one in counted(results) if one.system.startswith("perdure/")]
    if not own:  # only trials of other systems were repeated
        return []
    made = [
        _none(f"Perdure: {text}", own, partial(_shows, name))
        for name, text in (
            ("doubled", "no effect is doubled"),
            ("lost", "no effect is lost"),
            ("stuck", "every session ends"),
            ("blind", "no effect is repeated without evidence"),
            ("needless", "no question is needless"),
        )
    ]
    killed = [one for one in own if "class" in one.findings]
    made.append(_none("Perdure: no durable state is silent", killed, lambda one: one.findings["class"] == "silent"))
    intents = [one for one in counted(results) if one.system in SYSTEMS[1:3] and "class" in one.findings]
    if intents:
        text = "Expected: blob/intent and blob/intent+key have no silent state either"
        made.append(_none(text, intents, lambda one: one.findings["class"] == "silent"))
    return made


def _none(text: str, results: list[Result], happened: Callable[[Result], bool]) -> Hypothesis:
    share = Share(sum(map(happened, results)), len(results))
    return Hypothesis(text, str(share), share.k == 0 and share.n > 0)
