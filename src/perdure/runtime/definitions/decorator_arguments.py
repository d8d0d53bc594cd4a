"""The arguments of a decorator. A wrong one is a `ConfigError` that names the tool, the argument and the value."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, TypeVar

from perdure.domain.principal import Role
from perdure.errors import ConfigError
from perdure.runtime.definitions.durations import microseconds

E = TypeVar("E", bound=StrEnum)


class Declaration:
    """The arguments that a tool was declared with."""

    def __init__(self, tool: str, given: Mapping[str, Any]) -> None:
        self._tool = tool
        self._given = given

    def choice(self, name: str, words: type[E]) -> E:
        """One of a few words."""
        value = self._given[name]
        if isinstance(value, str) and value in list(words):
            return words(value)
        from difflib import get_close_matches  # late: rarely needed

        near = get_close_matches(str(value), list(words), n=1)
        known = ", ".join(f'"{word}"' for word in words)
        raise self._wrong(name, f'Did you mean "{near[0]}"?' if near else f"It is one of {known}.")

    def duration(self, name: str) -> int | None:
        """A span of time in microseconds, or none."""
        value = self._given[name]
        if value is None and name != "inflight":
            return None
        try:
            if not isinstance(value, bool):
                return microseconds(value)
        except (ConfigError, TypeError, ValueError, OverflowError):
            pass
        raise self._wrong(name, 'It is a duration: "500ms", "20s", "15m", "24h", "7d", or seconds as a number.')

    def count(self, name: str) -> int:
        """A whole number from 1."""
        value = self._given[name]
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise self._wrong(name, "It counts all attempts, so it is a whole number and at least 1.")
        return value

    def errors(self, name: str) -> tuple[type[BaseException], ...]:
        """Types of errors."""
        value = self._given[name]
        if not isinstance(value, tuple | list) or not all(
            isinstance(one, type) and issubclass(one, BaseException) for one in value
        ):
            raise self._wrong(name, "It is a tuple of exception types, such as `(ConnectionRefusedError,)`.")
        return tuple(value)

    def texts(self, name: str) -> tuple[str, ...]:
        """Templates."""
        value = self._given[name]
        if not isinstance(value, tuple | list) or not all(isinstance(one, str) for one in value):
            raise self._wrong(name, 'It is a tuple of texts, such as `("pr:{pr}",)`.')
        return tuple(value)

    def gate(self, name: str, kind: type[Any]) -> Any:
        """The gate, or none."""
        value = self._given[name]
        if value is not None and not isinstance(value, kind):
            raise self._wrong(name, 'It is a `perdure.Gate("name")` or None.')
        if value is not None and value.expires is not None:
            Declaration(self._tool, {"gate.expires": value.expires}).duration("gate.expires")
        if value is not None and value.reason not in ("optional", "required"):
            raise self._wrong(name, 'The reason of a gate is "optional" or "required".')
        if value is not None:
            self._check_deciders(name, value)
        return value

    def _check_deciders(self, name: str, gate: Any) -> None:
        """Who may decide, and who is asked later."""
        if type(gate.quorum) is not int or gate.quorum < 1:
            raise self._wrong(name, "The quorum of a gate is a whole number from 1.")
        for given in (gate.roles, gate.people, gate.escalate_to):
            if not isinstance(given, tuple | list) or not all(isinstance(one, str) and one for one in given):
                raise self._wrong(name, 'Roles and people are tuples of names, such as `("approver",)`.')
        if unknown := set(gate.roles) - set(Role):
            raise self._wrong(name, f"{min(unknown)!r} is not a role; the roles are {', '.join(Role)}.")
        if gate.escalate_after is not None:
            Declaration(self._tool, {"gate.escalate_after": gate.escalate_after}).duration("gate.escalate_after")
        if (gate.escalate_after is None) != (not gate.escalate_to):
            raise self._wrong(name, "An escalation needs both `escalate_after` and `escalate_to`.")

    def _wrong(self, name: str, hint: str) -> ConfigError:
        return ConfigError(f"Tool {self._tool}: {name} cannot be {self._given[name]!r}.", hint=hint)
