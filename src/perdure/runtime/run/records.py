"""What a session has on record, in one bulk read, for a program that runs again from the top.

A branch reads its own records and those its line had at the fork: steps, effects and answers up to that event. What was
settled there it inherits and cannot repeat; what was unsettled there belongs to the session that planned it. A restart
bounds the read: what came before it is not asked for again. What a retry repeats is left out, as if it was never done;
its next record has a name, a generation or an id of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from perdure.domain.effect import Effect, EffectState, Replay, next_generation
from perdure.domain.fact import private_scope
from perdure.domain.restore import Restore
from perdure.domain.session import SessionRecord
from perdure.domain.step import AGAIN, Step
from perdure.domain.wait import Wait, WaitKind
from perdure.errors import Damaged, ProgramChanged
from perdure.ids import digest, encode
from perdure.runtime.run.position import CallPosition
from perdure.store.move import StoreTransaction
from perdure.store.moves import doubt, event, fact, restore, session_retry
from perdure.store.moves import effect as effects
from perdure.store.moves import session as sessions
from perdure.store.moves import step as steps
from perdure.store.moves import wait as waits
from perdure.store.moves.session_end import CLOSED


class Records:
    """The records of one run."""

    def __init__(self, session: SessionRecord) -> None:
        self.session = session
        self.steps: dict[CallPosition, Step] = {}
        self.effects: dict[CallPosition, Effect] = {}
        self.waits: dict[str, Wait] = {}
        self.line = [session]
        self.repeated = frozenset[int]()  # the events of this session whose records a retry repeats
        self._retried: dict[CallPosition, int] = {}  # what is done again, with the generation it had
        self._failed_at: dict[CallPosition, int] = {}  # … and the event of its failure
        self._closed: set[str] = set()  # waits of this session that were closed without an answer
        self._asked: set[CallPosition] = set()
        self._by_tool: dict[tuple[str, str], set[CallPosition]] = {}

    def step_at(self, position: CallPosition) -> Step | None:
        return self.steps.get(position)

    def ask(self, position: CallPosition) -> None:
        """The program has called this, awaited or not."""
        self._asked.add(position)

    def effect_at(self, position: CallPosition, replay: Replay) -> Effect | None:
        """The effect recorded for a call. None: it is new, and no record of the same tool is left waiting for it.

        A `pure` call may run beside others and be recorded after them, and running it again is not acting twice.
        """
        if (found := self.effects.get(position)) is not None:
            return found
        left = self._by_tool.get((position.scope, position.name), set()) - self._asked
        if left and replay is not Replay.PURE:
            asked = min(left, key=lambda other: self.effects[other].number)
            raise ProgramChanged(
                f"The program calls {position.name} with new arguments, while its recorded call "
                f"({self.effects[asked].id}) was not asked for again."
            )
        return None

    def step_name(self, position: CallPosition) -> str:
        """The name under which a step is recorded: one that a retry repeats has another record already."""
        return f"{AGAIN}{self.session.retries}:{position.name}" if position in self._retried else position.name

    def next_generation(self, position: CallPosition, retry: int) -> int:
        """The generation of a new effect; one that a retry repeats has as many attempts as any other."""
        return next_generation(self._retried[position], retry) if position in self._retried else 0

    def wait_id(self, prefix: str, position: CallPosition) -> str:
        """The name of the wait that this session opens at a position."""
        first, *later = self._wait_ids(prefix, self.session, position)
        found = next((id for id in (*reversed(later), first) if id in self.waits and id not in self._closed), None)
        return found or (later[-1] if later and first in self._closed else first)

    def _wait_ids(self, prefix: str, session: SessionRecord, position: CallPosition) -> list[str]:
        """The names of the waits at a position: the first, and one for each retry of the session."""
        first = wait_id(prefix, session.uid, position, self.session.restart_number)
        return [first, *(f"{first}-{AGAIN[1:]}{number}" for number in range(1, (session.retries or 0) + 1))]

    def wait_at(self, prefix: str, position: CallPosition) -> Wait | None:
        """The wait recorded at a position, by this session or by one of its line before the fork."""
        for session in self.line:
            for id in reversed(self._wait_ids(prefix, session, position)):
                if found := self.waits.get(id):
                    return found
        return None

    def follows_repeated(self, position: CallPosition, effect: Effect) -> bool:
        """Whether it was planned after a failure that is repeated, by code that saw the failure, such as a handler.

        If the repetition succeeds, that code does not run, and the program does not call it again.
        """
        seen = (at for at, number in self._failed_at.items() if number < effect.number)
        return any(f"{at.scope}/".startswith(f"{position.scope}/") or not position.scope for at in seen)

    def is_foreign(self, effect: Effect) -> bool:
        """Whether another session of the line planned it."""
        return effect.session_uid != self.session.uid


class RunState(msgspec.Struct, frozen=True):
    """What a run knows when it begins: one read under its lease."""

    records: Records
    restore: Restore | None  # one may be declared while this process has the store open
    unfinished: list[Effect]


def read_state(tx: StoreTransaction, uid: str, read: Callable[[StoreTransaction, str], Records] | None) -> RunState:
    """`read` belongs to the program of the session. If that is not loaded here, only the session is read."""
    if read is None:
        return RunState(Records(sessions.get(tx, uid)), restore.unreleased_for(tx, uid), [])
    return RunState(read(tx, uid), restore.unreleased_for(tx, uid), doubt.unfinished(tx, uid))


def load(tx: StoreTransaction, uid: str) -> Records:
    """Read everything that the current run of a session can ask for."""
    records = Records(sessions.get(tx, uid))
    for one, after, through in line_of(tx, records.session):
        if one.uid != uid:
            records.line.append(one)
        _add(tx, records, one, after, through)
    for position, effect in records.effects.items():
        if "#" not in position.name and not records.follows_repeated(position, effect):
            records._by_tool.setdefault((position.scope, position.name), set()).add(position)
    return records


def line_of(tx: StoreTransaction, session: SessionRecord) -> Iterator[tuple[SessionRecord, int, int]]:
    """The sessions whose records count for this run, each with the events after and up to which they do.

    Numbers are those of each session's own log. A restart cuts the line: what came before it is not asked for again.
    """
    through = 2**62
    while True:
        restarted = session.restart_number > 0
        after = event.newest_of(tx, session.uid, "session.restarted", through=through) if restarted else 0
        yield session, after, through
        if after or session.forked_from is None or session.forked_at is None:
            return
        through = session.forked_at
        session = sessions.get(tx, session.forked_from)


def recall(tx: StoreTransaction, session: SessionRecord, scope: str | None, key: str) -> Any:
    """A fact's value; of a private one, what the line knew at the fork, unless the branch knows better."""
    known = fact.get(tx, scope or private_scope(session.uid), key)
    while known is None and scope is None and session.forked_from is not None:
        then = event.state_at(tx, session.forked_from, session.forked_at)
        session = sessions.get(tx, session.forked_from)
        if (row := then.facts.get(f"{private_scope(session.uid)} {key}")) is not None:
            return row["value"]
    return None if known is None else known.value


def wait_id(prefix: str, uid: str, position: CallPosition, restart_number: int) -> str:
    return f"{prefix}-{digest(encode([uid, *position.stored(restart_number)]))[:16]}"


def _add(tx: StoreTransaction, records: Records, one: SessionRecord, after: int, through: int) -> None:
    restart, uid, is_own = records.session.restart_number, one.uid, one.uid == records.session.uid
    repeated = session_retry.repeated(tx, one, through)
    records.repeated = repeated if is_own else records.repeated
    for step in steps.of_session(tx, uid, restart, through=through):
        name = step.name.split(":", 2)[2] if step.name.startswith(AGAIN) else step.name
        position = CallPosition(step.scope, "step", name, step.argument_digest, step.occurrence)
        if step.number not in repeated:
            records.steps.setdefault(position, step)
        elif is_own:
            records._retried[position], records._failed_at[position] = 0, step.number
    for effect in effects.of_session(tx, uid, after=after, through=through):
        found, number = _position_of(effect)
        if found is None or number != restart:
            continue
        if effect.number not in repeated:
            _keep_newest(records, found, effect)
        elif is_own:
            records._retried[found] = effect.generation
            records._failed_at[found] = effect.settled_number or effect.number
    for wait in waits.between(tx, uid, after, through):
        if is_own and (wait.resolved_by == CLOSED or wait.number in repeated):
            records._closed.add(wait.id)
        wait = reopened(wait) if wait.number in repeated else as_open(wait)
        if wait.kind == WaitKind.CHILD or _is_settled(wait, through) or is_own:
            records.waits.setdefault(wait.id, wait)


def as_open(wait: Wait) -> Wait:
    """A wait that was closed with its session is unanswered; who inherits a child or a question still waits for it."""
    return reopened(wait) if wait.resolved_by == CLOSED else wait


def reopened(wait: Wait) -> Wait:
    return msgspec.structs.replace(wait, answer=None, resolved_by=None, resolved_at=None, resolved_number=None)


def _is_settled(wait: Wait, through: int) -> bool:
    """Whether an answer was there at the fork; one that came later, or was never given, is not inherited."""
    return wait.resolved_number is not None and wait.resolved_number <= through


def _position_of(effect: Effect) -> tuple[CallPosition | None, int]:
    """Where a recorded effect stands, and in which run of the program; an undo stands nowhere in it."""
    position = effect.position
    if isinstance(position, list) and position[:1] == ["undo"]:
        return None, 0
    if not isinstance(position, list) or len(position) != 6 or not isinstance(position[0], int):
        raise Damaged(f"Effect {effect.id} stands nowhere: its position is {position!r:.80}.")
    return CallPosition(*position[1:]), position[0]


def _keep_newest(records: Records, position: CallPosition, effect: Effect) -> None:
    there = records.effects.get(position)
    same = there is not None and there.session_uid == effect.session_uid
    if there is None or (same and there.generation < effect.generation and there.state == EffectState.SUPERSEDED):
        records.effects[position] = effect
