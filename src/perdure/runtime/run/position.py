"""The position of a call: its identity in its program.

    position = (scope path, kind, name, argument digest, occurrence in the scope)

It is taken when `s.x(...)` is *called*, not when it is awaited, so calls made in order have the same positions in every
run. A task that runs beside others enters a scope of its own; a call from a task that did not is refused,
because its order among the others would be arbitrary.
"""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

from perdure.errors import ConfigError
from perdure.ids import check_name


class CallPosition(NamedTuple):
    """Where a call stands in its program."""

    scope: str
    kind: str
    name: str
    argument_digest: str
    occurrence: int

    def stored(self, restart_number: int) -> list[Any]:
        return [restart_number, *self]


class ExecutionLane:
    """One line of execution inside a program: the program itself, or a scope."""

    def __init__(self, path: str, owner: asyncio.Task[Any] | None, outer: ExecutionLane | None = None) -> None:
        self.path = path
        self.owner = owner
        self.outer = outer
        self.inside: set[ExecutionLane] = set()  # the scopes that are open inside this one
        self.waiting = 0
        self._counts: dict[tuple[str, str, str], int] = {}
        self._scopes: set[str] = set()
        self._gathers = 0

    def is_blocked(self) -> bool:
        """Whether it can only wait: for a wait of its own or, as far as is known, for the scopes inside it.

        A future does not show what will complete it: what the program itself awaits outside the session may come by
        itself, or from a scope that waits. If the first is assumed, a session might never be parked; if the second is
        assumed, it only continues later. A step is tracked, and finishes before the program is unwound.
        """
        return bool(self.waiting or self.inside or not self.path)

    def next_position(self, kind: str, name: str, argument_digest: str) -> CallPosition:
        """The next position of this call in this lane."""
        key = (kind, name, argument_digest)
        occurrence = self._counts.get(key, 0)
        self._counts[key] = occurrence + 1
        return CallPosition(self.path, kind, name, argument_digest, occurrence)

    def enter(self, name: str) -> str:
        """The path of a scope inside this one; a name is used once."""
        check_name("The scope", name)
        if "/" in name:
            raise ConfigError(f"The scope {name!r} may not hold a slash.")
        if name in self._scopes:
            raise ConfigError(f"The scope {name!r} was entered already.", hint="Give each scope its own name.")
        return self.enter_reserved(name)

    def enter_reserved(self, name: str) -> str:
        """The path of a scope that Perdure names itself."""
        self._scopes.add(name)
        return f"{self.path}/{name}" if self.path else name

    def next_gather(self) -> int:
        """The number of the next gather in this lane that needs scopes."""
        self._gathers += 1
        return self._gathers
