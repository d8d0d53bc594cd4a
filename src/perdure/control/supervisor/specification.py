"""What is supervised, as data: processes, and groups of them with a strategy and a restart budget.

A group is no process of its own. One supervisor process runs the whole tree, so the death of the supervisor ends every
process, and a decision about nested groups is one pure function (`decision`).
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

import msgspec

from perdure.clock import SECOND
from perdure.errors import ConfigError

GIVEN_BACK = 5  # the exit code of a worker that had to give sessions back before it stopped
WRONG_USE = 2  # the exit code of a command that was called wrongly: starting it again cannot help


class Restart(StrEnum):
    """When a child that ended by itself is started again."""

    PERMANENT = "permanent"  # always
    TRANSIENT = "transient"  # if it failed
    TEMPORARY = "temporary"  # never


class Strategy(StrEnum):
    """Which children of a group are restarted when one has failed."""

    ONE_FOR_ONE = "one-for-one"
    ALL_FOR_ONE = "all-for-one"
    REST_FOR_ONE = "rest-for-one"  # it, and those that were started after it


class ChildSpec(msgspec.Struct, frozen=True):
    """One process. Times are in microseconds."""

    id: str
    command: tuple[str, ...]
    restart: Restart = Restart.PERMANENT
    shutdown: int = 10 * SECOND  # from SIGTERM to SIGKILL
    watchdog: int | None = None  # it is killed if it sends no sign of life for so long
    normal: frozenset[int] = frozenset({0, GIVEN_BACK})  # exit codes of a process that did not fail
    fatal: frozenset[int] = frozenset({WRONG_USE})  # exit codes after which the whole tree stops
    descriptors: tuple[int, ...] = ()  # open files of the supervisor that the process inherits


class GroupSpec(msgspec.Struct, frozen=True):
    """Children that are started in order and stopped in reverse, with a budget of `restarts` within `period`."""

    id: str
    children: tuple[ChildSpec | GroupSpec, ...]
    strategy: Strategy = Strategy.ONE_FOR_ONE
    restarts: int = 5
    period: int = 60 * SECOND
    restart: Restart = Restart.PERMANENT
    stops_together: bool = False  # its children are stopped at the same time, because none needs another
    ends_first: bool = False  # it has ended before those in front of it are stopped, whatever the group above does


Spec = ChildSpec | GroupSpec


def processes(spec: Spec) -> Iterator[ChildSpec]:
    """The processes of a tree, in the order in which they are started."""
    if isinstance(spec, ChildSpec):
        yield spec
        return
    for child in spec.children:
        yield from processes(child)


def groups(spec: Spec) -> Iterator[GroupSpec]:
    """The groups of a tree, each before its children."""
    if isinstance(spec, GroupSpec):
        yield spec
        for child in spec.children:
            yield from groups(child)


def check_ids(tree: GroupSpec) -> None:
    """Refuse a tree in which two processes, or two groups, have the same id."""
    for ids in ([one.id for one in groups(tree)], [one.id for one in processes(tree)]):
        if twice := {id for id in ids if ids.count(id) > 1}:
            raise ConfigError(f"A supervised tree has two children of the name {min(twice)!r}.")
