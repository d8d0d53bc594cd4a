"""The state of a command, read from its folder, however its worker died.

    folder    scratch/<key>/<attempt>, durable
    lock      scratch/<key>/lock is taken here, before the runner exists: two attempts never run at the same time
    begin     the runner is started and inherits the lock; ours is closed
    started, exec, exit      written by the runner; see `perdure.agent.commands.runner`
    settle    written by the ledger; then the folder can be removed

A worker that dies before `begin` leaves a free lock and no `started`: the command never began. To make that final, the
process that finds it writes `never` while holding the lock; a worker that was only slow then finds `never` and does not
begin. A worker that dies after `begin` leaves a runner that continues and holds the lock; the next worker waits for it.
If the command has ended by then, `exit` records how. Only a runner that was killed, or a machine that stopped, leaves
the outcome in doubt.

The folder is valid for one machine. On another machine it would always say "never", so only the machine of the attempt
may read it.
"""

from __future__ import annotations

import fcntl
import os
import select
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from pathlib import Path

import msgspec

from perdure import faults
from perdure.agent.commands import cgroup, runner
from perdure.agent.files.workspace import Workspace
from perdure.durable import make_folder
from perdure.errors import EffectInDoubt, LeaseLost, NotDone
from perdure.ids import digest
from perdure.process import open_for_parent
from perdure.runtime.workers.liveness import start_time
from perdure.runtime.workers.private_folder import runtime_folder
from perdure.secrets.redaction import byte_markers
from perdure.secrets.stream import send_markers

# Imported, and not run as a file, because then it is compiled only once; last on the path, so that it hides nothing.
_SCRIPT = "import sys; sys.path.append(sys.argv[1]); import runner; runner.main(*sys.argv[2:])"
BEAT = 1.0
MIB = 1 << 20
GIB = 1 << 30


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a command: seconds, processes at the same time, and bytes."""

    seconds: int = 120
    processes: int = 1024
    output: int = 50 * MIB
    file: int = 4 * GIB
    disk: int = 8 * GIB
    memory: int = 64 * GIB  # of address space, of which many programs reserve a lot


class CommandState(StrEnum):
    FINISHED = "finished"
    RUNNING = "running"
    NEVER = "never"
    UNKNOWN = "unknown"


class CommandExit(msgspec.Struct, frozen=True):
    """How a command ended. `how` is exited, timeout, ended, processes or disk; a negative code is a signal."""

    folder: Path
    how: str
    code: int
    because: str = ""  # the reason given by the user who ended it


class CommandAttempts:
    """The attempts at one command on this machine."""

    def __init__(self, workspace: Workspace, key: str) -> None:
        scratch = workspace.scratch or runtime_folder() / "commands" / workspace.session_uid
        self.folder = scratch / (key if key.isalnum() else digest(key))

    def attempt(self, number: int) -> Path:
        return self.folder / str(number)

    def prepare(self, number: int, command: str) -> Path:
        """Make the folder of an attempt, durable before anything else happens; returns a folder for temporary files."""
        make_folder(folder := self.attempt(number))
        (folder / "command").write_text(command, encoding="utf-8", errors="replace")
        (folder / "tmp").mkdir(exist_ok=True)
        return folder / "tmp"

    def newest(self) -> int:
        """The number of the newest attempt; 0 where there is none."""
        if not self.folder.is_dir():
            return 0
        return max((int(path.name) for path in self.folder.iterdir() if path.name.isdigit()), default=0)

    def exit_of(self, through: int) -> CommandExit | None:
        """How the command ended, in whichever attempt it did."""
        for number in range(through, 0, -1):
            values = _read(folder := self.attempt(number), "exit")
            if values and values["how"] != "never":
                return CommandExit(folder, values["how"], int(values["code"]), _read(folder, "end").get("because", ""))
        return None

    def runner_pid(self) -> int | None:
        """The process id of the newest attempt's runner, while it lives."""
        values = _read(self.attempt(number := self.newest()), "started")
        lives = values and self.exit_of(number) is None and start_time(int(values["pid"])) == values["began"]
        return int(values["pid"]) if lives else None

    def state(self, number: int, *, final: bool = False) -> CommandState:
        """The state of an attempt. With `final`, an attempt that has not begun can no longer begin."""
        if self.exit_of(number) is not None:
            return CommandState.FINISHED
        folder = self.attempt(number)
        if final:
            make_folder(folder)
        if not folder.is_dir():
            return CommandState.NEVER
        if (lock := self.lock()) is None:
            return CommandState.RUNNING
        try:
            if self.exit_of(number) is not None:
                return CommandState.FINISHED
            if (folder / "started").exists() and not (folder / "exit").exists():
                return CommandState.UNKNOWN
            if final:
                runner.record(str(folder), "never")
            return CommandState.NEVER
        finally:
            os.close(lock)

    def lock(self) -> int | None:
        """The lock, as a descriptor to close; None while another process holds it."""
        lock = open_for_parent(self.folder / "lock", os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return None
        return lock

    def end(self, because: str) -> bool:
        """Ask the runner of the newest attempt to end its command; returns whether there was one."""
        if (number := self.newest()) == 0 or self.exit_of(number) is not None:
            return False
        if (lock := self.lock()) is not None:
            os.close(lock)
            return False
        with suppress(OSError):  # it was removed or written by another thread meanwhile
            runner.record(str(self.attempt(number)), "end", because=because.replace("\n", " "))
        return True

    def forget(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(
        self,
        number: int,
        argv: list[str],
        *,
        workspace: Workspace,
        environment: dict[str, str],
        bounds: Bounds,
        beat: Callable[[], None],
        stopped: Callable[[], str | None] = lambda: None,
    ) -> CommandExit:
        """Run a prepared command to its end, unless an earlier attempt has ended or is still running.

        `stopped` returns the reason once the command is to be ended.
        """
        folder = self.attempt(number)
        faults.point("command.folder")
        while (lock := self.lock()) is None:  # an earlier attempt is running: its exit is the exit of this one
            select.select([], [], [], 0.05)
            _renew(beat)
        try:
            if (earlier := self.exit_of(number)) is not None:
                return earlier
            if (folder / "never").exists():
                raise NotDone("Another process found that this attempt had not begun, and stopped it from beginning.")
            if (folder / "started").exists():
                raise EffectInDoubt("This attempt has begun before, and how it ended is unknown.")
            if stopped() is not None:
                raise NotDone("The session was interrupted before the command began.")
            faults.point("command.locked")
            process, alive = _start_runner(argv, folder, lock, bounds, workspace, environment)
        finally:
            os.close(lock)
        faults.point("command.begun")
        if (because := stopped()) is not None:  # the request came before there was a runner to ask
            self.end(because)
        _await_end(alive, beat)
        process.wait()
        faults.point("command.ended")
        return self._final_exit(number)

    def _final_exit(self, number: int) -> CommandExit:
        match self.state(number):
            case CommandState.FINISHED:
                command_exit = self.exit_of(number)
                assert command_exit is not None
                return command_exit
            case CommandState.NEVER:
                values = _read(self.attempt(number), "exit")
                why = os.strerror(int(values["code"])) if values else _start_error(self.attempt(number))
                raise NotDone(f"The command could not be started: {why}.")
            case _:
                raise EffectInDoubt("The runner of the command was killed, so how the command ended is unknown.")


def _start_runner(
    argv: list[str], folder: Path, lock: int, bounds: Bounds, workspace: Workspace, environment: dict[str, str]
) -> tuple[subprocess.Popen[bytes], int]:
    """Start the runner. The descriptor becomes readable when the runner has ended, even if it is not our child."""
    alive, write_end = os.pipe()
    inherited, secrets, given = [lock, write_end], byte_markers(), None
    if secrets:
        given = os.pipe()
        inherited.append(given[0])
    group = cgroup.make(bounds.processes)
    line = [str(folder), str(group or ""), _limits(bounds), *argv]
    start = [
        sys.executable,
        "-I",
        "-S",
        "-c",
        _SCRIPT,
        str(Path(runner.__file__).parent),
        ",".join(map(str, inherited)),
    ]
    try:
        with open(folder / "trouble", "wb") as trouble:
            process = subprocess.Popen(
                [*start, *line], cwd=workspace.root, env=environment, pass_fds=inherited, start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=trouble,
            )  # fmt: skip
    except OSError as error:
        os.close(alive)
        if group is not None:
            cgroup.remove(group)
        raise NotDone(f"The command could not be started: {error.strerror}.") from error
    finally:
        os.close(write_end)
        if given is not None:
            os.close(given[0])
    if given is not None:
        send_markers(given[1], secrets)
    return process, alive


def _await_end(alive: int, beat: Callable[[], None]) -> None:
    end = select.poll()  # `select` takes no descriptor above 1023
    end.register(alive, select.POLLIN)
    try:
        while not end.poll(BEAT * 1000):
            _renew(beat)
    finally:
        os.close(alive)


def _renew(beat: Callable[[], None]) -> None:
    """A lost lease does not end the command: it continues, and its outcome counts, however late."""
    with suppress(LeaseLost):
        beat()


def _limits(bounds: Bounds) -> str:
    return ",".join(f"{name}={value}" for name, value in limits_of(bounds).items())


def limits_of(bounds: Bounds) -> dict[str, int]:
    """The bounds in the form that a runner uses."""
    return msgspec.structs.asdict(bounds) | {"tasks": cgroup.tasks(bounds.processes)}


def _read(folder: Path, name: str) -> dict[str, str]:
    """A small file written by a runner; empty where there is none."""
    try:
        lines = (folder / name).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return {}
    return dict(line.split(" ", 1) for line in lines)


def _start_error(folder: Path) -> str:
    values = (folder / "trouble").read_text(encoding="utf-8", errors="replace").strip()
    return values.rpartition("\n")[2][-200:] or "its runner was killed before it began"
