"""The replay table against a model written from DESIGN 3, over every combination that the ledger can hold.

The model is a second reading of the design, in tables where the code has functions: which rule counts, since when
nothing can be in flight, and what each rule then allows. Times are small numbers, so that limits are met exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.clock import SECOND
from perdure.domain.effect import (
    NOT_BEGUN,
    PRESUMED,
    SETTLED,
    Attempt,
    AttemptOutcome,
    Effect,
    EffectState,
    Replay,
    Rule,
    Verdict,
    attempts_made,
)
from perdure.domain.lease import RESTORE_SHIFT
from perdure.domain.recovery_decision import (
    Action,
    Evidence,
    RecoveryDecision,
    after_absent,
    binding_rule,
    open_attempts,
    recover,
)
from perdure.domain.restore import Cause, Restore
from perdure.domain.worker import Liveness, combined

MANY = settings(max_examples=300, deadline=None)
NOTHING: dict[str, Any] = dict.fromkeys(Effect.__struct_fields__)
SECONDS = st.integers(0, 5).map(lambda n: n * SECOND)
TIMES = st.integers(1, 9).map(lambda n: n * SECOND)


@dataclass(frozen=True)
class Case:
    """One effect with everything that is known about it."""

    effect: Effect
    attempts: list[Attempt]
    loaded: Rule
    life: Liveness
    now: int
    restore: Restore | None
    stopping: bool

    @property
    def evidence(self) -> Evidence:
        return Evidence(self.attempts, self.now, self.life, self.restore, self.stopping)


def attempt(number: int, **more: Any) -> Attempt:
    columns: dict[str, Any] = dict.fromkeys(Attempt.__struct_fields__)
    columns |= {"number": number, "worker": "w", "epoch": 1, "process": {}}
    return Attempt(**(columns | {"session_uid": "u", "effect_id": "e", "dispatched_at": 0} | more))


@st.composite
def attempts_before(draw: st.DrawFn, state: EffectState, verdict: Verdict | None) -> list[Attempt]:
    """What may have been tried: all but the last came to nothing, and the last says what the state needs."""
    least = 0 if state is EffectState.PLANNED and verdict is None else 1
    count, made = draw(st.integers(least, 4)), list[Attempt]()
    for number in range(1, count + 1):
        said: list[AttemptOutcome | None] = [AttemptOutcome.FAILED, AttemptOutcome.ABSENT]
        if number < count or state is not EffectState.PLANNED:
            said = [None, AttemptOutcome.UNKNOWN] if number == count else [*said, None, AttemptOutcome.UNKNOWN]
        elif verdict is Verdict.ABSENT:
            said = [AttemptOutcome.ABSENT]
        outcome, began = draw(st.sampled_from(said)), draw(TIMES)
        ended = draw(st.none() | TIMES) if outcome != AttemptOutcome.FAILED else draw(TIMES)
        presumed = draw(seldom())
        unbegun = outcome is AttemptOutcome.ABSENT and ended is not None and draw(st.booleans())
        made.append(
            attempt(
                number, dispatched_at=began, outcome=outcome, ended_at=ended, settled_at=draw(TIMES),
                worker=PRESUMED if presumed else "w", epoch=draw(st.sampled_from([0, 1])) << RESTORE_SHIFT | 1,
                error={"code": NOT_BEGUN} if unbegun else None,
            )
        )  # fmt: skip
    return made


def seldom() -> st.SearchStrategy[bool]:
    return st.sampled_from([False] * 3 + [True])


@st.composite
def rules(draw: st.DrawFn, replay: Replay | None = None) -> Rule:
    replay = replay or draw(st.sampled_from(list(Replay)))
    can_probe = replay is Replay.PROBE or draw(st.booleans())
    can_undo = replay is Replay.COMPENSATE or draw(st.booleans())
    ttl = None if draw(seldom()) else draw(SECONDS)
    return Rule(replay, draw(SECONDS), draw(st.integers(1, 6)), ttl, can_probe, can_undo)


@st.composite
def cases(draw: st.DrawFn, replay: Replay | None = None) -> Case:
    state = draw(st.sampled_from([EffectState.PLANNED, EffectState.DISPATCHED, EffectState.DISPATCHED]))
    planned, doubted = state is EffectState.PLANNED, draw(seldom())
    verdict = draw(st.sampled_from([None, Verdict.ABSENT])) if planned else None
    loaded = draw(rules(replay))
    recorded, old = draw(rules()) if draw(seldom()) else loaded, draw(seldom())
    effect = NOTHING | {
        "session_uid": "u", "id": "e", "state": state, "replay": recorded.replay, "generation": draw(st.integers(0, 6)),
        "position": ["undo", "e-0"] if draw(seldom()) else [0, "", "do", "act", "d", 0],
        "verdict": verdict, "verdict_by": "ada" if verdict else None,
        "doubted_at": 1 if doubted and not planned else None, "doubt": "why" if doubted else None,
        "inflight": None if old else recorded.inflight, "retry": None if old else recorded.retry,
        "key_ttl": None if old else recorded.key_ttl,
    }  # fmt: skip
    restore = Restore(1, draw(TIMES), 0, Cause.DECLARED, None, None, None, None) if draw(seldom()) else None
    tries = draw(attempts_before(state, verdict))
    life = draw(st.sampled_from(list(Liveness))) if open_attempts(tries) else Liveness.DEAD
    return Case(Effect(**effect), tries, loaded, life, draw(TIMES), restore, draw(seldom()))


# The model. First, whose rule counts: recorded by row, loaded by column. `p` and `c` need the probe or the undo of the
# loaded code, and are `escalate` without it.
COUNTS = {
    "": ("pure", "idempotent", "probe", "compensate", "escalate", "joint"),
    "pure": ("pure", "idempotent", "p", "c", "escalate", "escalate"),
    "idempotent": ("idempotent", "idempotent", "p", "c", "escalate", "escalate"),
    "probe": ("p", "p", "p", "escalate", "escalate", "escalate"),
    "compensate": ("c", "c", "escalate", "c", "escalate", "escalate"),
    "escalate": ("escalate",) * 6,
    "joint": ("escalate",) * 5 + ("joint",),
}


@dataclass(frozen=True)
class Model:
    """What DESIGN 3 says about one case."""

    case: Case

    def rule(self) -> str:
        recorded, loaded = str(self.case.effect.replay), self.case.loaded
        cell = COUNTS[recorded][COUNTS[""].index(str(loaded.replay))]
        if cell == "p":
            return "probe" if loaded.can_probe else "escalate"
        if cell == "c":
            return "compensate" if loaded.can_undo else "escalate"
        return cell

    def number(self, name: str, choose: Any) -> Any:
        """One number of the rule, where a missing one is no word on the matter."""
        said = [getattr(one, name) for one in (self.case.effect, self.case.loaded)]
        return choose([one for one in said if one is not None], default=None)

    @property
    def inflight(self) -> int:
        return int(self.number("inflight", max))

    @property
    def attempts_left(self) -> bool:
        begun = [one for one in self.case.attempts if one.worker != PRESUMED]
        begun = [one for one in begun if not (one.outcome == "absent" and one.error == {"code": NOT_BEGUN})]
        return len(begun) < int(self.number("retry", min))

    @property
    def key_is_known_outside(self) -> bool:
        ttl, first = self.number("key_ttl", min), self.case.attempts[0].dispatched_at
        return ttl is None or self.case.now < first + ttl

    @property
    def open(self) -> bool:
        """Whether some act may be under way as far as the ledger says."""
        closed = [one for one in self.case.attempts[:-1] if one.outcome in ("absent", "failed")]
        return any(one.ended_at is None for one in self.case.attempts if one not in closed)

    @property
    def is_alive(self) -> bool:
        return self.open and self.case.life == "alive"

    @property
    def look_again(self) -> tuple[str, int]:
        return "wait", self.case.now + max(self.inflight, SECOND)

    def quiet_from(self) -> int | None:
        """Since when, or from when on, nothing can be in flight; None: unknown."""
        if not self.open:
            return max(one.ended_at for one in self.case.attempts if one.ended_at is not None) + self.inflight
        return self.case.now + self.inflight if self.case.life == "dead" else None

    def once_quiet(self, then: str) -> tuple[str, int | None]:
        if self.is_alive:
            return self.look_again
        if (at := self.quiet_from()) is None:
            return "ask", None
        return ("wait", at) if at > self.case.now else (then, None)

    def lost_in_restore(self) -> bool:
        case, effect = self.case, self.case.effect
        if case.restore is None or effect.position[0] == "undo" or self.rule() in ("pure", "joint"):
            return False
        if effect.doubted_at is not None or any(one.epoch >> RESTORE_SHIFT for one in case.attempts):
            return False
        generations = effect.retry or case.loaded.retry
        return not (effect.replay == "compensate" and effect.generation >= generations)

    def course(self) -> tuple[str, int | None]:
        effect, held_back = self.case.effect, self.case.stopping and self.case.effect.position[0] != "undo"
        if effect.state == "planned":
            if held_back:
                return "refuse", None
            return ("presume", None) if self.lost_in_restore() else self.planned()
        if self.lost_in_restore():
            return "presume", None
        if effect.doubted_at is not None:
            return "ask", None
        return self.unknown(held_back)

    def planned(self) -> tuple[str, int | None]:
        """A person's absent waits until nothing is in flight; without that knowledge, from the word on."""
        if self.case.effect.verdict is None:
            return "act", None
        if self.open and self.case.life == "cannot tell":
            said = (self.case.attempts[-1].settled_at or 0) + self.inflight
            return ("wait", said) if said > self.case.now else ("act", None)
        return self.once_quiet("act")

    def unknown(self, held_back: bool) -> tuple[str, int | None]:
        rule, probe = self.rule(), self.case.loaded.can_probe
        if rule == "compensate":
            return self.once_quiet("undo")
        if rule in ("probe", "escalate", "joint"):
            return ("probe" if rule == "probe" else "ask"), None
        if rule == "pure":
            spent = self.case.attempts[-1].outcome == "unknown" and not self.attempts_left
            wanted = "fail" if spent or held_back else "act"
        else:
            again = self.attempts_left and self.key_is_known_outside and not held_back
            wanted = "act" if again else "probe" if probe else "ask"
        return self.look_again if self.is_alive and wanted != "probe" else (wanted, None)

    def after_absent(self) -> tuple[str, int | None]:
        return self.once_quiet("absent" if self.attempts_left else "fail")


WORDS = {
    Action.DISPATCH: "act", Action.RUN_AGAIN: "act", Action.PROBE: "probe", Action.UNDO: "undo", Action.ASK: "ask",
    Action.FAIL: "fail", Action.REFUSE: "refuse", Action.PRESUME: "presume", Action.NOTHING: "nothing",
}  # fmt: skip


def taken(course: RecoveryDecision, now: int) -> tuple[str, int | None]:
    """What a course comes to now: an action, or a wait until a time."""
    if course.not_before is not None and course.not_before > now:
        return "wait", course.not_before
    return WORDS[course.action], None


@pytest.mark.slow
@pytest.mark.parametrize("replay", list(Replay))
@MANY
@given(st.data())
def test_recovery_follows_the_replay_table(replay: Replay, data: st.DataObject) -> None:
    case = data.draw(cases(replay))
    rule, model = binding_rule(case.effect, case.loaded), Model(case)
    course = recover(case.effect, case.evidence, rule)
    assert taken(course, case.now) == model.course()
    assert course.why.endswith(".") or course.why == case.effect.doubt
    if case.effect.state == "dispatched":
        said, until = taken(after_absent(case.evidence, rule), case.now)
        assert ("absent" if said == "act" else said, until) == model.after_absent()


@pytest.mark.parametrize("inflight", [0, SECOND // 2, 3 * SECOND])
@pytest.mark.parametrize("replay", list(Replay))
@pytest.mark.parametrize("state", [EffectState.PLANNED, EffectState.DISPATCHED])
def test_nothing_acts_beside_an_attempt_that_is_alive(state: EffectState, replay: Replay, inflight: int) -> None:
    """Said once more without the model, for a person's absent as well."""
    verdict = Verdict.ABSENT if state is EffectState.PLANNED else None
    given = NOTHING | {"state": state, "replay": replay, "position": ["call"], "verdict": verdict, "generation": 0}
    last = attempt(1, outcome=AttemptOutcome.ABSENT if verdict else None, settled_at=SECOND)
    evidence = Evidence([last], 9 * SECOND, Liveness.ALIVE)
    course = recover(Effect(**given), evidence, Rule(replay, inflight, 5, None, True, True))
    assert taken(course, evidence.at)[0] not in ("act", "undo", "fail")
    assert (course.not_before or 0) > evidence.at or course.action in (Action.PROBE, Action.ASK)
    assert (after_absent(evidence, Rule(replay, inflight, 5, None, True, True)).not_before or 0) > evidence.at


def test_key_ttl_runs_from_the_first_attempt() -> None:
    given = NOTHING | {"state": EffectState.DISPATCHED, "replay": Replay.IDEMPOTENT, "position": ["call"]}
    tries = [attempt(n, dispatched_at=n * SECOND, ended_at=n * SECOND, outcome="unknown") for n in (1, 2, 3)]
    rule = Rule(Replay.IDEMPOTENT, 0, 9, 4 * SECOND, False, False)
    for now, action in ((5 * SECOND - 1, Action.RUN_AGAIN), (5 * SECOND, Action.ASK)):
        assert recover(Effect(**given), Evidence(tries, now, Liveness.DEAD), rule).action is action


def test_absence_does_not_count_while_an_earlier_attempt_may_run() -> None:
    tries = [attempt(1), attempt(2, outcome="unknown", ended_at=SECOND)]
    rule = Rule(Replay.PROBE, SECOND, 9, None, True, False)
    assert open_attempts(tries) == tries[:1]
    assert after_absent(Evidence(tries, 9 * SECOND, Liveness.CANNOT_TELL), rule).action is Action.ASK
    assert after_absent(Evidence(tries, 9 * SECOND, Liveness.ALIVE), rule).action is Action.PROBE
    ended = [msgspec.structs.replace(tries[0], ended_at=8 * SECOND), tries[1]]
    assert after_absent(Evidence(ended, 9 * SECOND, Liveness.DEAD), rule).action is Action.DISPATCH


@given(cases(), st.sampled_from(sorted(SETTLED)))
def test_what_is_settled_is_left_alone(case: Case, state: str) -> None:
    settled = msgspec.structs.replace(case.effect, state=state)
    assert recover(settled, case.evidence, binding_rule(settled, case.loaded)).action is Action.NOTHING


@given(cases())
def test_the_binding_rule_shows_where_the_record_differs(case: Case) -> None:
    rule = binding_rule(case.effect, case.loaded)
    numbers = ("inflight", "key_ttl", "retry")
    changed = case.effect.replay != case.loaded.replay or any(
        getattr(rule, name) != getattr(case.loaded, name) for name in numbers
    )
    assert bool(rule.note) == changed
    if case.effect.replay != case.loaded.replay:
        assert all(f" {word}" in rule.note for word in (case.effect.replay, case.loaded.replay, rule.replay))


@pytest.mark.parametrize(
    ("recorded", "loaded"),
    [(Replay.PROBE, Replay.COMPENSATE), (Replay.COMPENSATE, Replay.PROBE), (Replay.JOINT, Replay.PURE)],
)
def test_rules_that_contradict_each_other_ask_a_person(recorded: Replay, loaded: Replay) -> None:
    """Even where the code has a probe and an undo: neither rule was declared with the other in mind."""
    effect = Effect(**(NOTHING | {"replay": recorded}))
    rule = Rule(loaded, inflight=0, retry=1, key_ttl=None, can_probe=True, can_undo=True)
    assert binding_rule(effect, rule).replay is Replay.ESCALATE


def test_attempts_of_a_restore_and_attempts_that_never_began_are_not_counted() -> None:
    begun = [attempt(1, outcome="unknown"), attempt(2, outcome="absent"), attempt(3)]
    others = [attempt(4, worker=PRESUMED), attempt(5, outcome="absent", error={"code": NOT_BEGUN})]
    assert attempts_made(begun + others) == 3


def test_several_processes_are_dead_only_together() -> None:
    assert combined([]) is Liveness.DEAD
    assert combined([Liveness.DEAD, Liveness.CANNOT_TELL]) is Liveness.CANNOT_TELL
    assert combined([Liveness.CANNOT_TELL, Liveness.ALIVE, Liveness.DEAD]) is Liveness.ALIVE
