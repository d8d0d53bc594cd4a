"""Steps that run again after an error.

    attempt   the function is called; a result is recorded as for every step
    error     while attempts are left: a durable timer is opened at the step's position, with the attempt's number
    timer     the session may be parked until it is due; then the next attempt begins
    last      the error of the last attempt is recorded as for every step

The timers are the count of the attempts that failed: a process that dies between two attempts does not begin anew.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from perdure.clock import SECOND
from perdure.domain.wait import Wait
from perdure.errors import ConfigError
from perdure.runtime.definitions.durations import microseconds
from perdure.runtime.description import summary
from perdure.runtime.run.position import CallPosition

LONGEST = 24 * 3600 * SECOND


class AttemptFailed(Exception):
    """An attempt of a step raised an error, and another attempt is allowed."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error


class RetryRule(msgspec.Struct, frozen=True):
    """How often a step runs again, and the time before the first of these runs; it doubles with each."""

    retries: int
    backoff: int

    def pause(self, number: int) -> int:
        """The time after the attempt of this number, in microseconds."""
        return min(self.backoff << min(number - 1, 40), LONGEST)


def retry_rule(name: str, retries: Any, backoff: Any) -> RetryRule:
    if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
        raise ConfigError(f"Step {name}: retries cannot be {retries!r}.", hint="It is a whole number from 0.")
    return RetryRule(retries, microseconds(backoff))


async def with_retries(
    rule: RetryRule,
    position: CallPosition,
    waited: Callable[[CallPosition], Wait | None],
    attempt: Callable[[bool], Awaitable[Any]],
    pause: Callable[[CallPosition, int, str], Awaitable[Any]],
) -> Any:
    """Call `attempt` until it succeeds or is the last one, with a durable pause after each error."""
    for number in range(1, rule.retries + 1):
        timer = position._replace(kind=f"retry-{number}")
        why = f"Attempt {number} of {rule.retries + 1} of step {position.name} failed."
        if waited(timer) is None:
            try:
                return await attempt(False)
            except AttemptFailed as failed:
                why = f"{why} {summary(failed.error)}"
        await pause(timer, rule.pause(number), why)
    return await attempt(True)
