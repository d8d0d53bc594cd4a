"""Workers of one version of Perdure on a store, each started again when it ends."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

APP = Path(__file__).with_name("app.py")
ROOT = Path(__file__).parents[4]
PATIENCE = 180.0


class WorkerGroup:
    """So many workers; `package` is the folder of another Perdure."""

    def __init__(self, folder: Path, target: str, sink: str, *, workers: int, package: Path | None = None) -> None:
        self.killed = 0
        self.started: set[int] = set()  # every process, also those that have ended
        self._log = folder / ("old.log" if package else "new.log")
        self._command = [
            sys.executable, "-m", "perdure", "worker", "--app", str(APP), "--store", target, "--concurrency", "2",
        ]  # fmt: skip
        self._environment = os.environ | {
            "PERDURE_SINK": sink, "PERDURE_IGNORE_FOLDER": "1", "XDG_RUNTIME_DIR": str(folder), "HOME": str(folder),
            "PYTHONPATH": f"{package}:{ROOT}" if package else str(ROOT),
        }  # fmt: skip
        self._wanted = workers
        self._workers: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        self._workers = [self._start() for _ in range(self._wanted)]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._workers:
            process.kill()
            process.wait()

    def _start(self) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            process = subprocess.Popen(
                self._command, env=self._environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        self.started.add(process.pid)
        return process

    def tend(self) -> None:
        """Start workers that have ended again."""
        self._workers = [one if one.poll() is None else self._start() for one in self._workers]

    def kill(self, chance: random.Random) -> None:
        """Kill a worker that runs, but not the first: while it runs, its version is in use."""
        process = chance.choice(self._workers[1:])
        if process.poll() is None:
            process.kill()
            process.wait()
            self.killed += 1

    def end(self) -> None:
        """Ask every worker to stop, and wait until it has."""
        for process in self._workers:
            process.terminate()
        for process in self._workers:
            process.wait(PATIENCE)

    def log_text(self) -> str:
        return self._log.read_text(errors="replace")
