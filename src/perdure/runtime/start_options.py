"""The options with which a session is started: by a program, on the command line, or by a schedule.

`StartOptions.read` checks them as people write them. The result holds only plain values: a schedule stores it
(`stored`) and reads it back (`from_stored`).
"""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, Self

import msgspec

from perdure.errors import ConfigError
from perdure.ids import check_name, check_text
from perdure.runtime.definitions.durations import microseconds

ConflictWord = Literal["queue", "keep", "replace"]
CONFLICTS = ("queue", "keep", "replace")
PRIORITIES = range(-1_000_000, 1_000_001)
MOST_RETRIES = 1000
LONGEST_KEY = 500  # characters: an index holds it
LAST = 2**62  # microseconds: no store holds a later time


class StartOptions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """How a session is started. Durations and times are in microseconds."""

    owner: str | None = None
    repository: str | None = None
    title: str | None = None
    queue: str = "default"
    priority: int = 0
    key: str | None = None
    retries: int | None = None
    timeout: int | None = None  # from the time at which it may begin
    not_before: int | None = None  # a time
    delay: int | None = None  # or a duration, from its start
    pin: bool = False
    debounce: int | None = None
    on_conflict: str = "queue"

    @classmethod
    def read(
        cls,
        *,
        owner: str | None = None,
        repository: str | Path | None = None,
        title: str | None = None,
        queue: str = "default",
        priority: int = 0,
        not_before: datetime | str | int | None = None,
        key: str | None = None,
        retries: int | None = None,
        timeout: str | float | None = None,
        pin: bool = False,
        debounce: str | float | None = None,
        on_conflict: str = "queue",
    ) -> Self:
        """The options as people give them, checked."""
        at, delay = _not_before(not_before)
        made = cls(
            owner=owner,
            repository=None if repository is None else os.path.abspath(repository),
            title=title,
            queue=queue,
            priority=priority,
            key=key,
            retries=retries,
            timeout=None if timeout is None else microseconds(timeout),
            not_before=at,
            delay=delay,
            pin=pin,
            debounce=None if debounce is None else microseconds(debounce),
            on_conflict=on_conflict,
        )
        return cls.from_stored(msgspec.structs.asdict(made))  # it checks the types

    @classmethod
    def from_stored(cls, stored: Any) -> Self:
        """The options that `stored` returned, or any others with the same names."""
        try:
            made = msgspec.convert(stored, cls)
        except msgspec.ValidationError as error:
            raise ConfigError(f"The session cannot be started with these options: {error}.") from None
        made.check()
        return made

    def stored(self) -> dict[str, Any]:
        """The options as JSON builtins; what has its default is left out."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found

    def check(self) -> None:
        """Refuse options that cannot be meant."""
        check_name("The queue", self.queue)
        for name in ("owner", "title", "key", "repository"):
            check_text(f"The session's {name}", getattr(self, name) or "")
        if type(self.priority) is not int or self.priority not in PRIORITIES:
            raise ConfigError(
                f"The priority {self.priority!r} is not a number from {PRIORITIES[0]} to {PRIORITIES[-1]}."
            )
        if self.retries is not None and (type(self.retries) is not int or not 0 <= self.retries <= MOST_RETRIES):
            raise ConfigError(f"{self.retries!r} retries are not possible.", hint=f"Give 0 to {MOST_RETRIES}.")
        if self.key is not None and not 1 <= len(self.key) <= LONGEST_KEY:
            raise ConfigError(f"The key has {len(self.key)} characters.", hint=f"Give 1 to {LONGEST_KEY}.")
        if self.timeout == 0 or self.debounce == 0:
            raise ConfigError("A timeout or a debounce time is zero.", hint='Give a duration such as "15m".')
        if self.on_conflict not in CONFLICTS:
            raise ConfigError(f"on_conflict is {self.on_conflict!r}.", hint=f"Give one of {', '.join(CONFLICTS)}.")
        if self.key is None and (self.debounce is not None or self.on_conflict != "queue"):
            option = "debounce" if self.debounce is not None else "on_conflict"
            raise ConfigError(f"`{option}` needs a key.", hint="Give the key that such sessions share: `--key`.")
        if self.debounce is not None and (self.not_before is not None or self.delay is not None):
            raise ConfigError("`debounce` sets the start itself.", hint="Leave `not_before` out.")

    def begins_at(self, now: int) -> int:
        """When the session may begin, if it is started now."""
        wait = self.debounce if self.debounce is not None else self.delay
        return min(max(now, self.not_before or 0, now + (wait or 0)), LAST)

    def columns(self, now: int) -> dict[str, Any]:
        """What a `NewSession` gets of these options, if it is started now."""
        begins = self.begins_at(now)
        return {
            "owner": self.owner,
            "repository": self.repository,
            "title": self.title,
            "queue": self.queue,
            "priority": self.priority,
            "concurrency_key": self.key,
            "max_retries": self.retries,
            "not_before": begins if begins > now else None,
            "deadline_at": None if self.timeout is None else min(begins + self.timeout, LAST),
            "pinned_at": now if self.pin else None,
        }


def _not_before(given: datetime | str | int | None) -> tuple[int | None, int | None]:
    """A time, or a duration: of the two, the one that was given."""
    if given is None:
        return None, None
    if isinstance(given, str):
        return None, microseconds(given)
    if isinstance(given, datetime):
        if given.tzinfo is None:
            raise ConfigError(f"The time {given} has no time zone.", hint="Write datetime(..., tzinfo=UTC).")
        return max(0, int(given.timestamp() * 1_000_000)), None
    if type(given) is not int or not 0 <= given <= LAST:
        raise ConfigError(
            f"{given!r} is not a time at which a session may begin.",
            hint='Give a datetime, a duration such as "10m", or microseconds since 1970.',
        )
    return given, None
