"""A store with real `perdure` processes on it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from perdure.control.supervisor.overview import ProcessView, process_overview
from perdure.domain.session import SessionRecord
from perdure.runtime.definitions.program import Bound
from perdure.runtime.runtime import open as open_runtime
from perdure.runtime.workers.liveness import locks_of_store
from perdure.store.moves import session
from perdure.store.store import open_store
from perdure.testing.proxy import wait_until

APP = str(Path(__file__).with_name("served_programs.py"))
PATIENCE = 300.0  # seconds: a tree is nine processes, and the machine may be busy with others
COMMAND = [sys.executable, "-P", "-c", "from perdure.cli import main; main()"]


class Deployment:
    """Runs commands on one store. Leave it with `close`, which kills what it started."""

    def __init__(self, target: str, folder: Path) -> None:
        self.target = target
        self.folder = folder
        self._store = open_store(target)
        self._started: list[subprocess.Popen[str]] = []
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PERDURE_")}
        self.environment = kept | {
            "PERDURE_STORE": target, "PERDURE_APP": APP, "PERDURE_BY": "ada", "PERDURE_LEASE": "3600s",
            "XDG_RUNTIME_DIR": str(folder), "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder),
        }  # fmt: skip

    def start(self, *words: str) -> subprocess.Popen[str]:
        with open(self.folder / "log", "a") as log:
            process = subprocess.Popen(
                [*COMMAND, *words], env=self.environment, cwd=self.folder, stdout=log, stderr=log, text=True
            )
        self._started.append(process)
        return process

    def close(self) -> None:
        for process in self._started:
            process.kill()
            process.wait()
        self._store.close()

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    async def start_sessions(self, **sessions: Bound[Any]) -> None:
        async with open_runtime(self.target) as runtime:
            for id, bound in sessions.items():
                await runtime.start(bound, id=id)

    def session(self, id: str) -> SessionRecord:
        return self._store.read_now(session.find, id)

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for a condition; if it is not met, tell what runs and what was printed."""
        try:
            wait_until(condition, what, PATIENCE)
        except TimeoutError as error:
            states = [(one.id, one.state, one.restarts, one.last_exit) for one in self.processes()]
            raise TimeoutError(f"{error}\n{states}\n{self.log}") from None

    def until_status(self, id: str, *statuses: str) -> None:
        self.until(lambda: self.session(id).status in statuses, f"session {id} is {statuses}")

    def until_exists(self, name: str) -> None:
        self.until((self.folder / name).exists, f"{name} exists")

    def lines(self) -> list[str]:
        path = self.folder / "lines"
        return sorted(path.read_text().split("\n")[:-1]) if path.exists() else []

    def processes(self) -> list[ProcessView]:
        """The processes as `perdure tree` reports them, without groups."""
        found: list[ProcessView] = []

        def collect(one: ProcessView) -> None:
            if one.strategy is None:
                found.append(one)
            for child in one.children:
                collect(child)

        for one in self._store.read_now(process_overview, locks_of_store(self._store).life).processes:
            collect(one)
        return found

    def until_served(self) -> list[ProcessView]:
        """Wait until a whole tree runs; returns its processes."""
        found: list[ProcessView] = []

        def runs() -> bool:
            found[:] = [one for one in self.processes() if one.state != "dead"]
            return len(found) > 1 and {one.state for one in found} == {"running"}

        self.until(runs, "the tree runs")
        return found

    def kill_worker_of(self, id: str) -> str:
        """Kill the process that holds a session; returns the holder."""
        holder = self.session(id).lease_holder
        assert holder is not None
        os.kill(int(holder.rpartition(":")[2]), signal.SIGKILL)
        return holder
