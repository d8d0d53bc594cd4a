"""One table of a policy's text, read strictly: a missing, unknown or wrong value is an error with its line."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

from perdure.domain.policy.lines import Lines
from perdure.errors import ConfigError

_MISSING: Any = object()
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)")
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}


def problem(source: str, line: int, what: str, *, hint: str = "Correct this line and load the policy again.") -> Any:
    """The error for a line of a policy."""
    return ConfigError(f"{source}, line {line}: {what}.", hint=hint, line=line)


class Table:
    """The values of one table, with the place where it stands."""

    def __init__(self, values: dict[str, Any], lines: Lines, source: str, place: tuple[str | int, ...] = ()) -> None:
        self.values = values
        self._lines = lines
        self._source = source
        self._place = place

    def line(self, *key: str | int) -> int:
        return self._lines.of(*self._place, *key)

    def problem(self, what: str, *key: str | int, hint: str | None = None) -> ConfigError:
        hint = hint or "Correct this line and load the policy again."
        found: ConfigError = problem(self._source, self.line(*key), what, hint=hint)
        return found

    def allow(self, *known: str) -> None:
        """Refuse every other key, with the known one that was probably meant."""
        for name in self.values:
            if name not in known:
                near = get_close_matches(name, known, n=1, cutoff=0.6)
                hint = f"Did you mean {near[0]}?" if near else f"Known here: {', '.join(sorted(known))}."
                raise self.problem(f"{name!r} is not known here", name, hint=hint)

    def table(self, name: str) -> Table | None:
        if (found := self.values.get(name)) is None:
            return None
        if not isinstance(found, dict):
            raise self.problem(f"{name!r} is a table", name)
        return Table(found, self._lines, self._source, (*self._place, name))

    def tables(self, name: str) -> list[Table]:
        found = self.values.get(name, [])
        if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
            raise self.problem(f"{name!r} is an array of tables", name, hint=f"Write [[{name}]].")
        return [Table(one, self._lines, self._source, (*self._place, name, number)) for number, one in enumerate(found)]

    def text(self, name: str, *, default: Any = _MISSING) -> str:
        found = self._get(name, default)
        if not isinstance(found, str) or (default is _MISSING and not found.strip()):
            raise self.problem(f"{name!r} is a text that is not empty", name)
        return found

    def word(self, name: str, known: Iterable[str], *, default: Any = _MISSING) -> Any:
        """A text that is one of the known ones."""
        return self._known(name, self._get(name, default), tuple(known))

    def words(self, name: str, known: Iterable[str]) -> tuple[str, ...]:
        choices = tuple(known)
        return tuple(self._known(name, one, choices) for one in self.texts(name))

    def texts(self, name: str) -> tuple[str, ...]:
        """A text or a list of texts; empty if the key is missing."""
        found = self.values.get(name, ())
        listed = [found] if isinstance(found, str) else found
        wrong = not isinstance(listed, list | tuple) or not all(isinstance(one, str) and one for one in listed)
        if wrong or (name in self.values and not listed):
            raise self.problem(f"{name!r} is a text or a list of texts", name)
        return tuple(listed)

    def has(self, name: str) -> bool:
        return name in self.values

    def flag(self, name: str, *, default: bool = False) -> bool:
        found = self.values.get(name, default)
        if not isinstance(found, bool):
            raise self.problem(f"{name!r} is true or false", name)
        return found

    def number(self, name: str, *, default: Any = _MISSING) -> float:
        found = self._get(name, default)
        if isinstance(found, bool) or not isinstance(found, int | float) or not 0 <= found < 1e15:
            raise self.problem(f"{name!r} is a number from 0", name)
        return found

    def count(self, name: str, *, default: int) -> int:
        found = self.number(name, default=default)
        if found != int(found) or found < 1:
            raise self.problem(f"{name!r} is a whole number from 1", name)
        return int(found)

    def seconds(self, name: str) -> float:
        """A duration such as "30m", in seconds."""
        return _seconds(self.duration(name) or "")

    def duration(self, name: str, *, default: Any = _MISSING) -> str | None:
        """A duration such as "30m", as it is written; None if that is the default."""
        found = self._get(name, default)
        if found is None:
            return None
        if not isinstance(found, str) or _DURATION.fullmatch(found.strip()) is None:
            raise self.problem(f"{name!r} is a duration", name, hint='Write "30m", "24h" or "7d".')
        return found.strip()

    def _known(self, name: str, found: Any, known: tuple[str, ...]) -> str:
        if not isinstance(found, str) or found not in known:
            near = get_close_matches(str(found), known, n=1, cutoff=0.6)
            hint = f"Did you mean {near[0]!r}? " if near else ""
            shown = repr(found)[:80]
            raise self.problem(f"{name!r} cannot be {shown}", name, hint=f"{hint}It is one of {', '.join(known)}.")
        return found

    def _get(self, name: str, default: Any) -> Any:
        if (found := self.values.get(name, default)) is _MISSING:
            raise self.problem(f"{name!r} is missing", hint=f"Add {name} = ... here.")
        return found


def _seconds(text: str) -> float:
    found = _DURATION.fullmatch(text)
    return 0.0 if found is None else float(found[1]) * _SECONDS[found[2]]
