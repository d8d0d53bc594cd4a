"""From evidence to findings: which mistake it shows, what was seen, and what to change.

A finding needs something that happened: a trial that went wrong, or an undisturbed run that did what a tool must not
do. Where several mistakes would explain it, the most specific one is named.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from perdure.evaluation.own_tools.evidence import TrialEvidence, UndisturbedRun
from perdure.evaluation.own_tools.subject import PROGRAM, Subject

WRONG, RIGHT, NOT_RUN, NOT_OBSERVED = "wrong", "correct", "not run", "not observed"


class Mistake(msgspec.Struct, frozen=True):
    """A mistake. `mistake` is its name, `seen` what showed it, `change` what to do."""

    mistake: str
    seen: str
    change: str


class ToolVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on one subject."""

    name: str
    kind: str
    rule: str = ""
    kills: int = 0
    faults: int = 0
    verdict: str
    reason: str = ""
    findings: list[Mistake] = []
    notes: list[str] = []


def conclude(subject: Subject, evidence: TrialEvidence, *, honours_keys: bool = True) -> ToolVerdict:
    """What the evidence shows."""
    if subject.kind == PROGRAM:
        findings = list(_of_program(evidence))
    else:
        findings = list(_of_tool(subject, evidence, honours_keys))
    if not findings and evidence.failures:
        findings = [_unexplained(evidence)]
    verdict = WRONG if findings else RIGHT if evidence.left or subject.rule in ("pure", "joint") else NOT_OBSERVED
    reason = UNOBSERVED if verdict == NOT_OBSERVED else ""
    return ToolVerdict(
        name=subject.name, kind=subject.kind, rule=subject.rule, kills=evidence.kills, faults=evidence.faults,
        verdict=verdict, reason=reason, findings=findings, notes=_notes(evidence),
    )  # fmt: skip


UNOBSERVED = (
    "it left nothing at the sink: give its service the address of the sink with --env NAME={sink}, "
    "or show what is outside with --observe MODULE:FUNCTION"
)


def _notes(evidence: TrialEvidence) -> list[str]:
    notes = list(evidence.notes)
    if evidence.first.commands:
        notes.append("It starts commands; the guard does not see where a command connects to.")
    return notes


def _seen(evidence: TrialEvidence, *heads: str, fault: bool | None = None) -> str:
    """The first trial that shows it, and how many do."""
    chosen = [
        one
        for one in evidence.failures
        if (not heads or one.head in heads) and (fault is None or bool(one.fault) is fault)
    ]
    first = chosen[0]
    where = f"when the service answered with {first.fault}" if first.fault else f"killed at {first.where}"
    return f"{where}: {first.head}: {first.text} ({len(chosen)} trials)"


def _of_tool(subject: Subject, evidence: TrialEvidence, honours_keys: bool) -> Iterator[Mistake]:
    sends = [one for one in evidence.first.requests() if one.what == "posted"]
    if evidence.left > 1:
        yield Mistake(
            "two effects in one tool",
            f"one call leaves {evidence.left} things outside; a kill between them leaves the first",
            "Make a tool of each effect, so that each has its own line in the ledger.",
        )
        return
    if not evidence.failures:
        return
    killed = evidence.heads(fault=False)
    if killed:
        yield _wrong_rule(subject, evidence, honours_keys, keyed=any(one.keyed for one in sends))
    elif subject.safe_errors and evidence.heads(fault=True)["duplicated"]:
        names = ", ".join(subject.safe_errors)
        yield Mistake(
            "safe_errors too wide",
            _seen(evidence, "duplicated", fault=True),
            f"Remove {names} from safe_errors: such an error does not prove that nothing was done.",
        )
    elif evidence.heads(fault=True)["lost"]:
        yield Mistake(
            "an error is not raised",
            _seen(evidence, "lost", fault=True),
            "Raise the error of the service; a tool that returns says that the effect happened.",
        )


def _wrong_rule(subject: Subject, evidence: TrialEvidence, honours_keys: bool, *, keyed: bool) -> Mistake:
    """A kill left the wrong thing: which part of the declaration is to blame."""
    seen = _seen(evidence, fault=False)
    match subject.rule:
        case "probe":
            return Mistake(
                "the probe lies", seen,
                "The probe must find exactly this effect, for example by call.key, and say absent only if it looked.",
            )  # fmt: skip
        case "compensate":
            return Mistake(
                "the undo is not idempotent", seen,
                "The undo may run twice, and when nothing was done: remove exactly this effect, by call.undoes, and "
                "do nothing if it is gone.",
            )  # fmt: skip
        case "idempotent" if honours_keys and not keyed:
            return Mistake(
                "the key is not sent", seen,
                "Send call.key with the request, as the service's idempotency key.",
            )  # fmt: skip
        case "idempotent":
            service = "the service ignores keys" if not honours_keys else "the service does not recognize the key"
            return Mistake("wrong rule", f"{seen}; {service}", "Declare probe if it can be asked, else escalate.")
    return Mistake("wrong rule", seen, "Declare escalate, or idempotent, probe or compensate where the service can.")


def _of_program(evidence: TrialEvidence) -> Iterator[Mistake]:
    first, second = evidence.first, evidence.second
    yield from _outside_tools(evidence)
    if sorted(first.effects) == sorted(second.effects) and first.effects != second.effects:
        yield Mistake(
            "the order changes between runs",
            f"one run began with {_shown(first, second)}, another with {_shown(second, first)}",
            "Sort what you iterate over: the order of a set, of a folder or of finished tasks is not fixed.",
        )
    elif first.effects != second.effects:
        yield Mistake(
            "time or randomness outside steps",
            f"two runs differ: {_shown(first, second)} and {_shown(second, first)}",
            "Use s.now(), s.random() and s.uuid(), or compute the value in s.step.",
        )
    elif any("ProgramChanged" in one.text or "waits for program" in one.text for one in evidence.failures):
        yield Mistake(
            "time or randomness outside steps",
            _seen(evidence, "stuck"),
            "Use s.now(), s.random() and s.uuid(), or compute the value in s.step.",
        )


def _outside_tools(evidence: TrialEvidence) -> Iterator[Mistake]:
    """Requests that change something and are not a tool's."""
    wrong = [one.place for one in evidence.first.requests() if one.what != "looked" and not _is_tools(one.place)]
    if not wrong and evidence.left > len(evidence.first.effects):
        wrong = [place for place in evidence.first.places if not _is_tools(place)]
    for place in dict.fromkeys(wrong):
        repeated = f"; {_seen(evidence)}" if evidence.failures else ""
        if place.startswith("a step"):
            yield Mistake(
                "an effect outside the tool",
                f"{place} changes something outside{repeated}",
                "Make it a tool and call it with s.do: a step that is killed runs again.",
            )
        else:
            yield Mistake(
                "an effect in plain code",
                f"{place} changes something outside{repeated}",
                "Make it a tool and call it with s.do: plain code runs again in every run.",
            )


def _is_tools(place: str) -> bool:
    return place.startswith(("tool ", "undo of ", "probe of "))


def _shown(one: UndisturbedRun, other: UndisturbedRun) -> str:
    """The first effect, or the first thing outside, in which a run differs from another."""
    for own, theirs in zip(one.effects, other.effects, strict=False):
        if own != theirs:
            return own
    return next(iter(one.outside - other.outside), "nothing")


def _unexplained(evidence: TrialEvidence) -> Mistake:
    return Mistake(
        "not explained",
        _seen(evidence),
        "Run `crash_sweep` on it to see each kill point; see the findings of its tools.",
    )
