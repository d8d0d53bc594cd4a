# mypy: disable-error-code="method-assign, assignment, misc, attr-defined, no-untyped-def"
"""Bugs on purpose, each planted in the processes of a sweep only, to see that the sweep would catch it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from perdure.domain import effect as domain
from perdure.domain.effect import Action, AttemptOutcome, Course
from perdure.errors import LeaseLost
from perdure.ids import new_name
from perdure.runtime import act, records
from perdure.runtime import effect as ledger
from perdure.runtime.runtime import Runtime
from perdure.runtime.session import Session
from perdure.runtime.tool import Call, Outcome
from perdure.store import commit, move, wait
from perdure.store import effect as effects
from perdure.store.databases import engine

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

    from perdure.store.databases import sqlite

    engine.connect = sqlite.connect = connect


@plant
def fence_only_at_settle() -> None:
    real = move.hold

    def hold(tx: move.Transaction, holder: Any) -> move.Log:
        try:
            return real(tx, holder)
        except LeaseLost:
            return move.Log(tx, move.read_head(tx, holder.uid), holder.name, holder)

    def unfenced(move_: Any) -> Any:
        def make(holder: Any, /, *args: Any, **kwargs: Any) -> move.Move[Any]:
            def run(tx: move.Transaction) -> Any:
                log = hold(tx, holder)
                result = move_.on(log, *args, **kwargs)
                log.close()
                return result

            return move.Move(move_.name, "holder", run)

        make.on = move_.on
        return make

    effects.plan_and_dispatch = unfenced(effects.plan_and_dispatch)
    effects.dispatch = unfenced(effects.dispatch)


@plant
def exception_treated_as_failed() -> None:
    real = ledger.outcome

    def outcome(tool: Any, ended: act.Ended) -> effects.Outcome:
        known = real(tool, ended)
        if known.outcome is AttemptOutcome.UNKNOWN:
            return effects.Outcome(outcome=AttemptOutcome.FAILED, error=known.error)
        return known

    ledger.outcome = outcome


@plant
def absent_believed_at_once() -> None:
    def after_absent(*_: Any, **__: Any) -> Course:
        return Course(Action.DISPATCH, "The probe found nothing.")

    ledger.after_absent = after_absent


@plant
def key_from_the_attempt() -> None:
    real = ledger.Ledger._given

    def given(self: Any, id: str, key: str, number: int) -> Call:
        return real(self, id, f"{key}-{number}", number)

    ledger.Ledger._given = given


@plant
def probe_answer_ignored() -> None:
    async def ask_probe(self: Any, *_: Any, **__: Any) -> Outcome:
        return Outcome.absent()

    ledger.Ledger._ask_probe = ask_probe


@plant
def approval_not_consumed() -> None:
    effects._consume = lambda *_, **__: {}


@plant
def digest_without_arguments() -> None:
    real = domain.intent_digest
    ledger.intent_digest = lambda tool, _arguments, targets: real(tool, {}, targets)


@plant
def settle_refused_after_lease_loss() -> None:
    """The settle is fenced by the epoch, as every other move of the holder is."""
    real = ledger.Ledger._act

    async def act_(self: Any, *args: Any, **kwargs: Any) -> Any:
        holder, settle = self.run.holder, effects.settle

        def fenced(uid: str, by: str, *told: Any, **more: Any) -> move.Move[Any]:
            def run(tx: move.Transaction) -> Any:
                log = move.hold(tx, holder)
                result = settle.on(log, *told, **more)
                log.close()
                return result

            return move.Move("effect.settle", "holder", run)

        effects.settle, fenced.on = fenced, settle.on
        try:
            return await real(self, *args, **kwargs)
        finally:
            effects.settle = settle

    ledger.Ledger._act = act_


@plant
def merged_settle_lost_with_a_refused_dispatch() -> None:
    """A refused move takes back the whole group, and the others are told that they are done."""

    def rollback_all(self: Any) -> None:
        self.db.execute("ROLLBACK")
        self.db.execute("BEGIN IMMEDIATE")

    engine.SQLiteEngine.rollback_to_savepoint = rollback_all


@plant
def lost_sibling() -> None:
    """Of several effects side by side only the last one planned is found again."""
    real = records.load

    def load(tx: Any, uid: str) -> records.Records:
        found = real(tx, uid)
        settled = [place for place, one in found.effects.items() if one.state in domain.SETTLED]
        if len(found.effects) > len(settled) or len(found.effects) == 3:
            for place in settled[:1]:
                del found.effects[place]
        return found

    records.load = load


@plant
def child_started_twice() -> None:
    real = Runtime.run_child

    async def run_child(self: Any, run: Any, bound: Any, name: str, wait_id: str, lane: Any) -> Any:
        twin = new_name(wait_id)
        return await real(self, run, bound, f"{name}.{twin}", twin, lane)

    Runtime.run_child = run_child


@plant
def timer_fired_twice() -> None:
    """The timer begins anew whenever the program does."""
    real = records.Records.wait_id

    def wait_id(self: Any, prefix: str, place: Any) -> str:
        return new_name("w") if prefix == "w" and place.kind == "sleep" else real(self, prefix, place)

    records.Records.wait_id = wait_id
    records.Records.wait_at = lambda self, prefix, place: None


@plant
def fork_repeating_an_effect() -> None:
    real = records._add

    def add(tx: Any, found: records.Records, uid: str, *rest: Any, **more: Any) -> None:
        if uid == found.session.uid:
            real(tx, found, uid, *rest, **more)

    records._add = add


@plant
def ambiguous_commit_guessed() -> None:
    commit.GroupCommit._resolve = lambda self, *_, **__: True


@plant
def compensated_successor_with_the_old_key() -> None:
    real = ledger.Ledger._act

    async def act_(self: Any, tool: Any, id: str, key: str, arguments: Any, number: int) -> Any:
        given = await self._get(id)
        if given.supersedes is not None:
            key = (await self._get(given.supersedes)).idempotency_key
        return await real(self, tool, id, key, arguments, number)

    ledger.Ledger._act = act_


def shared(*_: Any) -> None:
    """Nothing: the clean code."""


__all__ = ["PLANTS", "Session", "contextlib", "wait"]
