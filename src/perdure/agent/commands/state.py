"""The fate of a command: what its folder says of it, to whoever asks, however its worker died.

    folder    scratch/<key>/<attempt>, durable
    lock      scratch/<key>/lock is taken here, before there is a shepherd: two attempts are never under way at once
    begin     the shepherd is started and inherits the lock; ours is closed
    started, exec, exit      the shepherd's; see `perdure.agent.commands.runner`
    settle    the ledger's; then the folder may be forgotten

A worker that dies before `begin` leaves a free lock and no `started`: it never began. To make that final, whoever
finds it so writes `never` while holding the lock, and a worker that was only slow finds that and does not begin. A
worker that dies after `begin` leaves a shepherd that goes on and holds the lock: whoever takes over waits for it. If it
has ended by then, `exit` says how. Only a shepherd that was itself killed, or a machine that stopped, leaves a doubt.

The folder speaks for one machine. Asked on another it would say "never", so it is asked where the attempt was made.
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

# Imported, and not run as a file, because then it is compiled only once; last on the path, so that it hides nothing.
_SCRIPT = "import sys; sys.path.append(sys.argv[1]); import runner; runner.main(*sys.argv[2:])"
BEAT = 1.0
MIB = 1 << 20
GIB = 1 << 30


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """How far a command may go: seconds, processes at once, and bytes."""

    seconds: int = 120
    processes: int = 1024
    output: int = 50 * MIB
    file: int = 4 * GIB
    disk: int = 8 * GIB
    memory: int = 64 * GIB  # of addresses, which many programs reserve in plenty


class Fate(StrEnum):
    FINISHED = "finished"
    RUNNING = "running"
    NEVER = "never"
    UNKNOWN = "unknown"


class Ending(msgspec.Struct, frozen=True):
    """How a command ended. `how` is exited, timeout, ended, processes or disk; a negative code is a signal."""

    folder: Path
    how: str
    code: int
    because: str = ""  # what whoever ended it said


class Trail:
    """What the attempts at one command leave behind on this machine."""

    def __init__(self, workspace: Workspace, key: str) -> None:
        scratch = workspace.scratch or runtime_folder() / "commands" / workspace.session_uid
        self.folder = scratch / (key if key.isalnum() else digest(key))

    def attempt(self, number: int) -> Path:
        return self.folder / str(number)

    def prepare(self, number: int, command: str) -> Path:
        """Make the folder of an attempt, durable before anything else happens; returns a place for temporary files."""
        make_folder(folder := self.attempt(number))
        (folder / "command").write_text(command, encoding="utf-8", errors="replace")
        (folder / "tmp").mkdir(exist_ok=True)
        return folder / "tmp"

    def newest(self) -> int:
        """The number of the newest attempt; 0 where there is none."""
        if not self.folder.is_dir():
            return 0
        return max((int(path.name) for path in self.folder.iterdir() if path.name.isdigit()), default=0)

    def ending(self, through: int) -> Ending | None:
        """How the command ended, in whichever attempt it did."""
        for number in range(through, 0, -1):
            said = _read(folder := self.attempt(number), "exit")
            if said and said["how"] != "never":
                return Ending(folder, said["how"], int(said["code"]), _read(folder, "end").get("because", ""))
        return None

    def pid(self) -> int | None:
        """The shepherd of the newest attempt, while it lives."""
        said = _read(self.attempt(number := self.newest()), "started")
        lives = said and self.ending(number) is None and start_time(int(said["pid"])) == said["began"]
        return int(said["pid"]) if lives else None

    def fate(self, number: int, *, final: bool = False) -> Fate:
        """What became of an attempt. Only with `final` does an attempt that has not begun never do so."""
        if self.ending(number) is not None:
            return Fate.FINISHED
        folder = self.attempt(number)
        if final:
            make_folder(folder)
        if not folder.is_dir():
            return Fate.NEVER
        if (lock := self.take()) is None:
            return Fate.RUNNING
        try:
            if self.ending(number) is not None:
                return Fate.FINISHED
            if (folder / "started").exists() and not (folder / "exit").exists():
                return Fate.UNKNOWN
            if final:
                runner.record(str(folder), "never")
            return Fate.NEVER
        finally:
            os.close(lock)

    def take(self) -> int | None:
        """The lock, as a descriptor to close; None while somebody has it."""
        lock = open_for_parent(self.folder / "lock", os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return None
        return lock

    def end(self, because: str) -> bool:
        """Ask the shepherd of the newest attempt to end its command; whether there was one to ask."""
        if (number := self.newest()) == 0 or self.ending(number) is not None:
            return False
        if (lock := self.take()) is not None:
            os.close(lock)
            return False
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
    ) -> Ending:
        """Run a prepared command to its end, unless an earlier attempt has come to one or still does."""
        folder = self.attempt(number)
        faults.point("command.folder")
        while (lock := self.take()) is None:  # an earlier attempt is under way: its end is this one's
            select.select([], [], [], 0.05)
            _beat(beat)
        try:
            if (earlier := self.ending(number)) is not None:
                return earlier
            if (folder / "never").exists():
                raise NotDone("Somebody found that this attempt had not begun, and made sure that it never will.")
            if (folder / "started").exists():
                raise EffectInDoubt("This attempt has begun before, and nobody can say how it ended.")
            faults.point("command.locked")
            process, alive = _begin(argv, folder, lock, bounds, workspace, environment)
        finally:
            os.close(lock)
        faults.point("command.begun")
        try:
            while not select.select([alive], [], [], BEAT)[0]:
                _beat(beat)
        finally:
            os.close(alive)
        process.wait()
        faults.point("command.ended")
        return self._ended(number)

    def _ended(self, number: int) -> Ending:
        match self.fate(number):
            case Fate.FINISHED:
                ending = self.ending(number)
                assert ending is not None
                return ending
            case Fate.NEVER:
                said = _read(self.attempt(number), "exit")
                why = os.strerror(int(said["code"])) if said else _trouble(self.attempt(number))
                raise NotDone(f"The command could not be started: {why}.")
            case _:
                raise EffectInDoubt("The command's shepherd was killed; nobody can say how the command ended.")


def _begin(
    argv: list[str], folder: Path, lock: int, bounds: Bounds, workspace: Workspace, environment: dict[str, str]
) -> tuple[subprocess.Popen[bytes], int]:
    """Start the shepherd. The descriptor becomes readable when it has ended; it needs no child of ours for that."""
    alive, its_end = os.pipe()
    held = (lock, its_end)
    fenced = cgroup.make(bounds.processes)
    line = [str(folder), str(fenced or ""), _limits(bounds), *argv]
    start = [sys.executable, "-I", "-S", "-c", _SCRIPT, str(Path(runner.__file__).parent), ",".join(map(str, held))]
    try:
        with open(folder / "trouble", "wb") as trouble:
            process = subprocess.Popen(
                [*start, *line], cwd=workspace.root, env=environment, pass_fds=held, start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=trouble,
            )  # fmt: skip
    except OSError as error:
        os.close(alive)
        if fenced is not None:
            cgroup.remove(fenced)
        raise NotDone(f"The command could not be started: {error.strerror}.") from error
    finally:
        os.close(its_end)
    return process, alive


def _beat(beat: Callable[[], None]) -> None:
    """A lost lease does not end the command: it goes on, and what comes of it is the outcome, however late."""
    with suppress(LeaseLost):
        beat()


def _limits(bounds: Bounds) -> str:
    return ",".join(f"{name}={value}" for name, value in limits_of(bounds).items())


def limits_of(bounds: Bounds) -> dict[str, int]:
    """Bounds as a shepherd goes by them."""
    return msgspec.structs.asdict(bounds) | {"tasks": cgroup.tasks(bounds.processes)}


def _read(folder: Path, name: str) -> dict[str, str]:
    """A small file of a shepherd's; empty where there is none."""
    try:
        lines = (folder / name).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return {}
    return dict(line.split(" ", 1) for line in lines)


def _trouble(folder: Path) -> str:
    said = (folder / "trouble").read_text(encoding="utf-8", errors="replace").strip()
    return said.rpartition("\n")[2][-200:] or "its shepherd was killed before it began"
