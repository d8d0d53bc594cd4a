"""Who moves a session that somebody looks at: this process, or a worker in the background.

Going on in the background: a worker of its own session and group, which a closed terminal does not take along.

What it says goes to a log beside the store. It ends by itself when there is nothing to do.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Protocol

from perdure.cli.shell import Shell
from perdure.config import IGNORE_FOLDER, SETTINGS
from perdure.errors import ConfigError, PerdureError, SessionWaiting
from perdure.runtime.runtime import Runtime
from perdure.store.inspection import read_access

STARTS = 3  # workers in a row that may be started without the session moving on
LEASING = frozenset({"lease.acquired", "lease.taken_over", "lease.expired", "session.released"})
Report = Callable[[PerdureError | None], None]  # it stands still now, or it cannot be moved and why


class Driver(Protocol):
    """`start` lets the session go on if nobody does; `leave` ends this process's part and says whether it has ended.

    `saw` is told the kind of every event of the session.
    """

    is_here: bool

    @property
    def is_moving(self) -> bool: ...
    def start(self) -> None: ...
    def saw(self, kind: str) -> None: ...
    def look(self) -> PerdureError | None: ...
    async def rest(self, seconds: float) -> None: ...
    async def leave(self, seconds: float) -> bool: ...


class LocalDriver:
    """This process."""

    is_here = True

    def __init__(self, runtime: Runtime, uid: str, report: Report) -> None:
        self._runtime = runtime
        self._uid = uid
        self._report = report
        self._task: asyncio.Task[None] | None = None

    @property
    def is_moving(self) -> bool:
        return self._task is not None and not self._task.done()

    def start(self) -> None:
        if not self.is_moving:
            self._task = asyncio.ensure_future(self._run())

    def saw(self, kind: str) -> None:
        """It is told how its own run ends."""

    async def _run(self) -> None:
        try:
            await self._runtime.complete(self._uid)
        except SessionWaiting:
            self._report(None)
        except PerdureError as error:
            self._report(error)
        else:
            self._report(None)

    def look(self) -> PerdureError | None:
        return None

    async def rest(self, seconds: float) -> None:
        """Let it come to rest by itself, if that is soon."""
        if self._task is not None:
            await asyncio.wait([self._task], timeout=seconds)

    async def leave(self, seconds: float) -> bool:
        """Give the session back; an act that began is seen through, if it ends in time."""
        if self._task is None:
            return True
        self._task.cancel()
        done, _ = await asyncio.wait([self._task], timeout=seconds)
        return bool(done)


class BackgroundDriver:
    """A worker of its own, which outlives this terminal."""

    is_here = False

    def __init__(self, shell: Shell, uid: str, told: Callable[[BackgroundWorker], None]) -> None:
        self._shell = shell
        self._uid = uid
        self._told = told
        self._worker: BackgroundWorker | None = None
        self._starts = 0

    @property
    def is_moving(self) -> bool:
        return self._worker is not None and self._worker.process.poll() is None

    def start(self) -> None:
        if not self.is_moving and supports_background(self._shell):
            self._starts += 1
            if self._starts > STARTS:
                return
            self._worker = background(self._shell, self._uid)
            self._told(self._worker)

    def saw(self, kind: str) -> None:
        """Only taking the session and giving it back is no progress."""
        if kind not in LEASING:
            self._starts = 0

    def look(self) -> PerdureError | None:
        """Why the worker left, if it left because of an error, or why no other one is started."""
        if self._starts > STARTS:
            said = f"{STARTS} workers in a row were started, and the session did not move on."
            return ConfigError(said, hint=f"The log of the workers is {log_of(self._shell, self._uid)}.")
        if self._worker is None or self._worker.process.poll() in (None, 0):
            return None
        said, log = log_tail(self._worker.log), self._worker.log
        self._worker = None
        return ConfigError(f"The worker could not go on. It said: {said or 'nothing'}", hint=f"Its log is {log}.")

    async def rest(self, seconds: float) -> None:
        """It goes on by itself."""

    async def leave(self, seconds: float) -> bool:  # noqa: ARG002 - it goes on by itself
        return True


IDLE = 5.0  # seconds
PERDURE = "from perdure.cli import main; main()"
TAIL = 2000  # bytes of a log


class BackgroundWorker(NamedTuple):
    """A worker that was started."""

    process: subprocess.Popen[bytes]
    log: Path

    def shown(self) -> dict[str, object]:
        return {"pid": self.process.pid, "log": str(self.log)}


def supports_background(shell: Shell) -> bool:
    """Whether another process can use the store beside this one."""
    return read_access.locate_store(shell.store).kind not in ("memory", "files")


def check(shell: Shell) -> None:
    if not supports_background(shell):
        raise ConfigError(
            "This store is for one process at a time, so nothing can go on in the background.",
            hint="Leave --detach out, or use a SQLite file or PostgreSQL.",
        )


def background(shell: Shell, uid: str, *, idle: float = IDLE) -> BackgroundWorker:
    """Start a worker for a session, here and with the same code; it is not waited for."""
    log = log_of(shell, uid)
    log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    words = ["worker", uid, "--idle", f"{idle:g}"]
    for one in shell.app:
        words += ["--app", one]
    settings = {one.env: shell.settings[one.name] for one in SETTINGS if one.name in shell.settings}
    store = {} if shell.store is None else {"PERDURE_STORE": shell.store}  # an address may hold a password
    with log.open("ab") as out:
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", PERDURE, *words],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
            env=os.environ | settings | store | {"PERDURE_BY": shell.by, IGNORE_FOLDER: "1"},
        )
    return BackgroundWorker(process, log)


def log_of(shell: Shell, uid: str) -> Path:
    from perdure.runtime.workers.private_folder import runtime_folder

    folder = read_access.locate_store(shell.store).folder
    return (folder if folder is not None else runtime_folder()) / "logs" / f"{uid}.log"


def log_tail(log: Path) -> str:
    """The end of what a worker said."""
    try:
        text = log.read_bytes()[-TAIL:].decode(errors="replace")
    except OSError:
        return ""
    return text[text.rfind("\nworker ") + 1 :].strip()
