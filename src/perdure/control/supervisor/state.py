"""What a supervisor knows of its tree, the events that change it, and the actions that it decides on."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from perdure.control.supervisor.specification import GroupSpec, processes


class Phase(StrEnum):
    """What a supervised process does."""

    WAITING = "waiting"  # it is started when its time has come, and nothing that restarts with it still runs
    RUNNING = "running"
    STOPPING = "stopping"  # it was asked to end
    ENDED = "ended"  # it is not started again


class ChildState(msgspec.Struct, frozen=True):
    """One process as the supervisor sees it."""

    phase: Phase = Phase.WAITING
    start_at: int = 0
    batch: int = 0  # children that restart together have the same number
    stop: bool = False  # it must end before something else can happen
    again: bool = False  # and is then started again
    kill_at: int | None = None
    killed: bool = False
    ready: bool = False
    heard_at: int = 0  # its last sign of life
    restarts: int = 0
    last_exit: str | None = None

    @property
    def is_alive(self) -> bool:
        return self.phase in (Phase.RUNNING, Phase.STOPPING)


class TreeState(msgspec.Struct, frozen=True):
    """The whole tree. Begin with `begin(tree)`."""

    tree: GroupSpec
    children: dict[str, ChildState]
    restarts: dict[str, tuple[int, ...]] = {}  # by group: when it restarted something, within its period
    batches: int = 0
    seed: int = 0
    stopping: bool = False
    failure: str | None = None  # why it stops by itself
    exit_code: int = 0

    @property
    def is_over(self) -> bool:
        return all(one.phase is Phase.ENDED for one in self.children.values())


class Begin(msgspec.Struct, frozen=True):
    """The supervisor has started."""


class Tick(msgspec.Struct, frozen=True):
    """Time has passed."""


class Standstill(msgspec.Struct, frozen=True):
    """The supervisor itself was stopped, or the machine slept: no process had its time, so all times begin anew."""


class StopRequest(msgspec.Struct, frozen=True):
    """The tree is to stop."""


class Ready(msgspec.Struct, frozen=True):
    """A process has reported that it is ready."""

    id: str


class SignOfLife(msgspec.Struct, frozen=True):
    """A process has reported that it is in control."""

    id: str


class Exit(msgspec.Struct, frozen=True):
    """A process has ended. `status` is its exit code, or the negative number of a signal."""

    id: str
    status: int


SupervisorEvent = Begin | Tick | Standstill | StopRequest | Ready | SignOfLife | Exit


class Start(msgspec.Struct, frozen=True):
    """Start a process."""

    id: str


class Terminate(msgspec.Struct, frozen=True):
    """Ask a process to end: SIGTERM."""

    id: str


class Kill(msgspec.Struct, frozen=True):
    """End a process: SIGKILL to its group."""

    id: str


Action = Start | Terminate | Kill


def begin(tree: GroupSpec, *, seed: int = 0) -> TreeState:
    return TreeState(tree, {one.id: ChildState() for one in processes(tree)}, seed=seed)
