"""A worker: a disposable process that runs sessions."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, ClassVar

from perdure.domain.record import Record


class Liveness(StrEnum):
    """Whether a process is alive. Across hosts that cannot be known, and `CANNOT_TELL` is an answer."""

    ALIVE = "alive"
    DEAD = "dead"
    CANNOT_TELL = "cannot tell"


def combined(lives: Sequence[Liveness]) -> Liveness:
    """What is known of several processes together: dead only if all of them are."""
    return next((life for life in (Liveness.ALIVE, Liveness.CANNOT_TELL) if life in lives), Liveness.DEAD)


class WorkerRecord(Record, frozen=True):
    """A row of `worker`."""

    json_columns: ClassVar[frozenset[str]] = frozenset({"programs", "queues", "code", "workspaces", "tree"})

    id: str
    host: str
    boot_id: str
    pid: int
    start_token: str
    schema_from: int
    schema_to: int
    programs: Any
    started_at: int
    seen_at: int
    role: str = "worker"
    parent: str | None = None  # the supervisor that started it
    machine: str | None = None
    queues: Any = None  # None: all of them
    concurrency: int | None = None
    code_version: str | None = None
    code: Any = None  # digests of the programs and tools that it has
    workspaces: Any = None  # repositories on its machine
    draining_at: int | None = None
    tree: Any = None  # of a supervisor: its children, as it last saw them

    @property
    def holder(self) -> str:
        """Its name as the holder of leases."""
        return f"{self.id}@{self.host}:{self.pid}"
