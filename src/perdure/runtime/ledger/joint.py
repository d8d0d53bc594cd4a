"""The act of a joint tool: a function of the store's own transaction, which commits with the record or not at all."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from perdure.domain.effect import AttemptOutcome, Effect
from perdure.errors import ConfigError, PerdureError
from perdure.ids import decode
from perdure.runtime.definitions.tool import Tool
from perdure.runtime.description import describe
from perdure.runtime.run.run import Run
from perdure.store.move import Log, Move, StoreTransaction, hold
from perdure.store.moves import effect as effects
from perdure.store.moves.effect_input import AttemptResult, Dispatch, NewEffect
from perdure.store.store import SERVICE, Store


class Transaction:
    """The store's own transaction, given to a `joint` tool: what it writes commits with the record, or not at all."""

    __module__ = "perdure"

    __slots__ = ("_execute",)

    def __init__(self, execute: Callable[[str, Sequence[Any]], list[tuple[Any, ...]]]) -> None:
        self._execute = execute

    def execute(self, sql: str, params: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one statement with `?` for its parameters; return its rows."""
        words = _SKIPPED.sub(" ", sql).split(";")
        first = _FIRST_WORD.match(words[0])[1].lower()  # type: ignore[index] # it always matches
        if first in _NOT_ALLOWED:
            raise ConfigError(f"A joint tool may not {first or 'run nothing'}: the transaction is not its own.")
        if any(word.strip() for word in words[1:]):
            raise ConfigError("A joint tool runs one statement at a time.")
        return self._execute(sql, params)


_NOT_ALLOWED = frozenset(
    {
        *("", "begin", "start", "commit", "end", "rollback", "abort", "savepoint", "release", "prepare"),
        *("set", "reset", "discard", "pragma", "attach", "detach", "vacuum"),
    }
)
_FIRST_WORD = re.compile(r"[\s(]*(\w*)")
_SKIPPED = re.compile(  # texts, names and comments: what looks like a statement in them is none
    r"""\b[eE]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|"(?:[^"]|"")*"|\$(\w*)\$.*?\$\1\$|--[^\n]*|/\*(?:(?!/\*).)*?(?:\*/|\Z)""",
    re.DOTALL,
)


class JointRollback(Exception):
    """A joint tool raised; its transaction is rolled back, and nothing of it happened."""


def act_inside(tool: Tool[..., Any], log: Log, arguments: dict[str, Any]) -> AttemptResult:
    """Act inside a transaction. What the database itself could not do is its own error, and not the tool's.

    A tool may catch the error of a statement and return, but not if that statement undid what came before it.
    """
    broken: list[Exception] = []
    returned = False

    def execute(sql: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
        if returned:
            raise ConfigError("A joint tool's transaction ends when the tool returns.")
        try:
            return log.tx.execute(sql, parameters)
        except PerdureError:
            raise
        except Exception as error:
            broken.append(error)
            raise

    try:
        value = tool.function(log if tool.wants_log else Transaction(execute), **arguments)
        known = AttemptResult(outcome=AttemptOutcome.ACKNOWLEDGED, result=tool.signature.encode_result(value))
    except Exception as error:
        if broken:
            raise broken[0] from None
        raise JointRollback from error
    finally:
        returned = True
    if broken:
        raise broken[0]
    if log.tx.rolled_back is not None:
        raise JointRollback from log.tx.rolled_back
    return known


def check_store(store: Store, tool: Tool[..., Any]) -> None:
    """A tool's own tables need a database that keeps them; text files keep only the tables of Perdure."""
    if store.database.dialect == SERVICE:
        raise ConfigError(
            f"Tool {tool.name} is `joint`: its effect commits with its record, which needs the database itself.",
            hint="Run this program on a worker with access to the database.",
        )
    if not tool.wants_log and not store.database.keeps_other_tables:
        raise ConfigError(
            f"Tool {tool.name} is `joint`, and a files: store cannot keep the tables of a tool.",
            hint="Use a SQLite file or PostgreSQL for this program.",
        )


async def act_and_record(
    run: Run,
    tool: Tool[..., Any],
    intent: NewEffect,
    arguments: dict[str, Any],
    dispatch: Dispatch,
    planned: Effect | None,
    in_order: AbstractAsyncContextManager[None],
) -> Effect:
    """Act inside the transaction that records the effect. A rollback is proof that nothing happened."""
    opened = tool.signature.unbind_for_act(arguments)

    def write(tx: StoreTransaction) -> Effect:
        log = hold(tx, run.holder)
        if effects.is_held_back(log, decode(intent.position)):
            done = planned or effects.plan.on(log, intent)
        elif planned is None:
            done = effects.record.on(log, intent, dispatch, act_inside(tool, log, opened))
        else:
            done = effects.dispatch_and_settle.on(log, intent.id, dispatch, act_inside(tool, log, opened))
        log.close()
        return done

    try:
        async with in_order:
            return await run.write(Move("effect.joint", "holder", write))
    except JointRollback as rolled_back:
        cause = rolled_back.__cause__
        assert cause is not None
        failed = AttemptResult(outcome=AttemptOutcome.FAILED, error=describe(cause))
        if planned is None:
            return await run.write(effects.record(run.holder, intent, dispatch, failed, over=True))
        return await run.write(effects.dispatch_and_settle(run.holder, intent.id, dispatch, failed))
