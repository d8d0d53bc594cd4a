"""The act of a joint tool: a function of the store's own transaction, which commits with the record or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from perdure.domain.effect import AttemptOutcome
from perdure.errors import ConfigError, PerdureError
from perdure.runtime.tool import Tool, Transaction
from perdure.store.intent import Outcome
from perdure.store.move import Log


class RolledBack(Exception):
    """A joint tool raised; its transaction is rolled back, and nothing of it happened."""


def act_inside(tool: Tool[..., Any], log: Log, arguments: dict[str, Any]) -> Outcome:
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
        known = Outcome(outcome=AttemptOutcome.ACKNOWLEDGED, result=tool.shape.encode_result(value))
    except Exception as error:
        if broken:
            raise broken[0] from None
        raise RolledBack from error
    finally:
        returned = True
    if broken:
        raise broken[0]
    if log.tx.rolled_back is not None:
        raise RolledBack from log.tx.rolled_back
    return known
