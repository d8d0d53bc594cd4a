# mypy: disable-error-code="method-assign, assignment, attr-defined, misc"
"""Bugs planted on purpose, only in the processes of a sweep, to check that the sweep catches them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import msgspec

from perdure import faults
from perdure.domain import effect as domain
from perdure.domain.effect import AttemptOutcome
from perdure.domain.recovery_decision import Action, RecoveryDecision
from perdure.ids import new_name
from perdure.runtime import queries, runtime
from perdure.runtime.definitions.tool import Call, Outcome
from perdure.runtime.ledger import execution, ledger
from perdure.runtime.recovery import recovery
from perdure.runtime.run import records
from perdure.runtime.run.driver import Driver
from perdure.runtime.workers import identity
from perdure.store import move
from perdure.store.databases.sqlite import database, engine
from perdure.store.moves import effect as effects
from perdure.store.moves import restore, session
from perdure.store.moves.effect_input import AttemptResult as Known
from perdure.store.writer import group_commit

PLANTS: dict[str, Callable[[], None]] = {}


def plant(function: Callable[[], None]) -> Callable[[], None]:
    PLANTS[function.__name__] = function
    return function


@plant
def no_sync_before_dispatch() -> None:
    real = engine.connect

    def connect(*args: Any, **kwargs: Any) -> Any:
        db = real(*args, **kwargs)
        db.execute("PRAGMA synchronous = OFF")
        return db

    engine.connect = database.connect = connect


@plant
def fence_only_at_settle() -> None:
    """A dispatch is not fenced by the epoch."""

    def unfenced(real: Any) -> Any:
        def make(holder: Any, /, *args: Any, **kwargs: Any) -> move.Move[Any]:
            def run(tx: move.StoreTransaction) -> Any:
                log = move.Log(tx, move.read_head(tx, holder.uid), holder.name, holder)
                result = real.on(log, *args, **kwargs)
                log.close()
                return result

            return move.Move(real.name, "holder", run)

        make.on, make.name = real.on, real.name
        return make

    effects.plan_and_dispatch = unfenced(effects.plan_and_dispatch)
    effects.dispatch = unfenced(effects.dispatch)


@plant
def names_before_locks() -> None:
    """An attempt is ours if host name and process number are."""

    def is_here(process: Any) -> bool:
        return bool((process["host"], process["pid"]) == (identity.host(), identity.os.getpid()))

    queries.is_here = runtime.is_here = is_here


@plant
def deadline_not_checked() -> None:
    """A worker acts after its dispatch, however long ago that was."""

    async def act_and_settle(self: Any, tool: Any, context: Any, arguments: Any, site: Any) -> Any:
        faults.point("act.before")
        known = await self._act(tool, context, arguments, site)
        return await self.settle(tool, context.effect_id, context.attempt, known)

    ledger.Ledger._act_and_settle = act_and_settle


@plant
def exception_treated_as_failed() -> None:
    real = execution.outcome

    def outcome(tool: Any, ended: Any, reference: str | None = None) -> Known:
        known = real(tool, ended, reference)
        if known.outcome is AttemptOutcome.UNKNOWN:
            return Known(outcome=AttemptOutcome.FAILED, error=known.error)
        return known

    execution.outcome = outcome


@plant
def absent_believed_at_once() -> None:
    recovery.after_absent = lambda *_, **__: RecoveryDecision(Action.DISPATCH, "The probe found nothing.")


@plant
def absent_dated_by_its_answer() -> None:
    real = recovery.after_absent

    def after_absent(evidence: Any, rule: Any) -> RecoveryDecision:
        return real(msgspec.structs.replace(evidence, at=time.time_ns() // 1000), rule)

    recovery.after_absent = after_absent


@plant
def undo_dated_by_its_answer() -> None:
    """The undo begins immediately; only its end has to be late enough."""
    real = recovery.recover

    def recover(*evidence: Any) -> RecoveryDecision:
        course = real(*evidence)
        return RecoveryDecision(course.action, course.why) if course.action is Action.UNDO else course

    recovery.recover = recover


@plant
def rule_of_the_loaded_code() -> None:
    assert recovery.binding_rule is not None
    recovery.binding_rule = lambda _effect, loaded: loaded


@plant
def key_from_the_attempt() -> None:
    real = ledger.Ledger.context

    def context(self: Any, id: str, key: str, number: int) -> Call:
        return real(self, id, f"{key}-{number}", number)

    ledger.Ledger.context = context


@plant
def probe_answer_ignored() -> None:
    async def ask_probe(*_: Any, **__: Any) -> tuple[Outcome, None]:
        return Outcome.absent(), None

    recovery.ask_probe = ask_probe


@plant
def approval_not_consumed() -> None:
    assert effects._consume is not None
    effects._consume = lambda *_, **__: {}


@plant
def digest_without_arguments() -> None:
    real = domain.intent_digest
    assert ledger.intent_digest is real
    ledger.intent_digest = lambda tool, _arguments, targets: real(tool, {}, targets)


@plant
def settle_refused_after_lease_loss() -> None:
    """The settle is fenced by the epoch, as every other move of a holder is."""
    real = ledger.Ledger.settle

    async def settle(self: Any, *args: Any, **kwargs: Any) -> Any:
        holder, unfenced = self.run.holder, effects.settle

        def fenced(uid: str, by: str, *settled: Any, **more: Any) -> move.Move[Any]:
            def run(tx: move.StoreTransaction) -> Any:
                log = move.hold(tx, holder)
                result = unfenced.on(log, *settled, **more)
                log.close()
                return result

            return move.Move("effect.settle", "holder", run)

        fenced.on = unfenced.on
        effects.settle = fenced
        try:
            return await real(self, *args, **kwargs)
        finally:
            effects.settle = unfenced

    ledger.Ledger.settle = settle


@plant
def merged_settle_lost_with_a_refused_dispatch() -> None:
    """A refused move rolls back the whole group, and the other moves are reported as done."""

    def rollback_all(self: Any) -> None:
        self.db.execute("ROLLBACK")
        self.db.execute("BEGIN IMMEDIATE")

    engine.SQLiteEngine.rollback_to_savepoint = rollback_all


@plant
def lost_sibling() -> None:
    """Of several parallel effects, one that is settled is not found again."""
    real = records._add

    def add(tx: Any, found: records.Records, *rest: Any) -> None:
        real(tx, found, *rest)
        for place in [place for place, one in found.effects.items() if one.state in domain.SETTLED][:1]:
            del found.effects[place]

    records._add = add


@plant
def child_started_twice() -> None:
    real = Driver.run_child

    async def run_child(self: Any, run: Any, bound: Any, name: str, wait_id: str, *rest: Any) -> Any:
        twin = new_name(wait_id)
        return await real(self, run, bound, f"{name}.{twin}", twin, *rest)

    Driver.run_child = run_child


@plant
def timer_fired_twice() -> None:
    """The timer starts again whenever the program does."""
    real = records.Records.wait_id

    def wait_id(self: Any, prefix: str, place: Any) -> str:
        return new_name("w") if place.kind == "sleep" else real(self, prefix, place)

    records.Records.wait_id = wait_id
    records.Records.wait_at = lambda *_: None


@plant
def fork_repeating_an_effect() -> None:
    real = records._add

    def add(tx: Any, found: records.Records, one: Any, *rest: Any, **more: Any) -> None:
        if one.uid == found.session.uid:
            real(tx, found, one, *rest, **more)

    records._add = add


@plant
def ambiguous_commit_guessed() -> None:
    assert group_commit.GroupCommit._resolve is not None
    group_commit.GroupCommit._resolve = lambda *_, **__: True


@plant
def compensated_successor_with_the_old_key() -> None:
    real = ledger.Ledger._act

    async def act(self: Any, tool: Any, context: Any, arguments: Any, site: Any) -> Any:
        effect = await self.get(context.effect_id)
        if effect.supersedes is not None:
            context.key = (await self.get(effect.supersedes)).idempotency_key
        return await real(self, tool, context, arguments, site)

    ledger.Ledger._act = act


@plant
def restore_forgets_children() -> None:
    """Only the session's own age is compared with the restore, and not that of its oldest ancestor."""
    real = restore.unreleased_for

    def over(tx: Any, uid: str) -> Any:
        found = real(tx, uid)
        return None if found is None or found.began_at < session.get(tx, uid).created_at else found

    restore.unreleased_for = over
