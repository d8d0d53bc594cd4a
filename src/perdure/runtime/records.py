"""What a session has on record, in one bulk read, for a program that runs again from the top.

A branch reads its own records and those its line had at the fork: steps, effects and answers up to that event. What was
settled there it inherits and cannot repeat; what was unsettled there belongs to the session that planned it.
"""

from __future__ import annotations

from perdure.domain.effect import Effect, EffectState
from perdure.domain.session import SessionRecord
from perdure.domain.step import Step
from perdure.domain.wait import Wait
from perdure.errors import ProgramChanged
from perdure.ids import digest, encode
from perdure.runtime.place import Place
from perdure.store import effect as effects
from perdure.store import session as sessions
from perdure.store import step as steps
from perdure.store import wait as waits
from perdure.store.move import Transaction


class Records:
    """The records of one run."""

    def __init__(self, session: SessionRecord) -> None:
        self.session = session
        self.steps: dict[Place, Step] = {}
        self.effects: dict[Place, Effect] = {}
        self.waits: dict[str, Wait] = {}
        self.line = [session.uid]
        self._asked: set[Place] = set()
        self._by_tool: dict[tuple[str, str], set[Place]] = {}

    def step_at(self, place: Place) -> Step | None:
        return self.steps.get(place)

    def effect_at(self, place: Place) -> Effect | None:
        """The effect recorded for this call. None: it is new, and no record of the same tool is left waiting for it."""
        self._asked.add(place)
        if (found := self.effects.get(place)) is not None:
            return found
        left = self._by_tool.get((place.scope, place.name), set()) - self._asked
        if left and "#" not in place.name:
            asked = min(left, key=lambda other: self.effects[other].number)
            raise ProgramChanged(
                f"The program calls {place.name} with new arguments, while its recorded call "
                f"({self.effects[asked].id}) was not asked for again."
            )
        return None

    def wait_id(self, prefix: str, place: Place) -> str:
        """The name of the wait that this session opens at a place."""
        return wait_id(prefix, self.session.uid, place, self.session.restart_number)

    def wait_at(self, prefix: str, place: Place) -> Wait | None:
        """The wait recorded at a place, by this session or by one of its line before the fork."""
        for uid in self.line:
            if found := self.waits.get(wait_id(prefix, uid, place, self.session.restart_number)):
                return found
        return None

    def add(self, place: Place, effect: Effect) -> None:
        self.effects[place] = effect

    def is_foreign(self, effect: Effect) -> bool:
        """Whether another session of the line planned it."""
        return effect.session_uid != self.session.uid


def load(tx: Transaction, uid: str) -> Records:
    """Read everything that the current run of a session can ask for."""
    session = sessions.get(tx, uid)
    records = Records(session)
    through, line = 2**62, session
    while True:
        _add(tx, records, line.uid, through)
        if line.forked_from is None or line.forked_at is None:
            break
        through = min(through, line.forked_at)
        line = sessions.get(tx, line.forked_from)
        records.line.append(line.uid)
    for place in records.effects:
        if place.kind != "undo":
            records._by_tool.setdefault((place.scope, place.name), set()).add(place)
    return records


def wait_id(prefix: str, uid: str, place: Place, restart_number: int) -> str:
    return f"{prefix}-{digest(encode([uid, *place.position(restart_number)]))[:16]}"


def _add(tx: Transaction, records: Records, uid: str, through: int) -> None:
    restart = records.session.restart_number
    for step in steps.of_session(tx, uid, restart, through=through):
        place = Place(step.scope, "step", step.name, step.argument_digest, step.occurrence)
        records.steps.setdefault(place, step)
    for effect in effects.of_session(tx, uid, through=through):
        number, *rest = effect.position
        if number == restart:
            _keep_newest(records, Place(*rest), effect)
    for wait in waits.of_session(tx, uid):
        if wait.number <= through:
            still_open = wait.resolved_number is not None and wait.resolved_number > through
            if not still_open:
                records.waits.setdefault(wait.id, wait)


def _keep_newest(records: Records, place: Place, effect: Effect) -> None:
    there = records.effects.get(place)
    if there is None or (there.generation < effect.generation and there.state == EffectState.SUPERSEDED):
        records.effects[place] = effect
