"""The processes of the control soak: workers and their children, found by a token in their environment."""

from __future__ import annotations

import os
import random
import secrets
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from perdure.testing.proxy import wait_until

APP = Path(__file__).with_name("app.py")
TOKEN = "CONTROL_SOAK_TOKEN"
PATIENCE = 30.0


class Fleet:
    """So many workers on one store, each started again when it ends."""

    def __init__(
        self, folder: Path, target: str, sink: str, *, workers: int, lease: float, concurrency: int = 4
    ) -> None:
        self.token = secrets.token_hex(8)
        self.deaths: Counter[str] = Counter()
        self.lease = lease
        self._log = folder / "workers.log"
        self._command = [
            sys.executable, "-m", "perdure", "worker", "--app", str(APP), "--store", target,
            "--concurrency", str(concurrency), "--json",
        ]  # fmt: skip
        self._environment = os.environ | {
            TOKEN: self.token, "PERDURE_SINK": sink, "PERDURE_LEASE": f"{lease}s", "PERDURE_IGNORE_FOLDER": "1",
            "XDG_RUNTIME_DIR": str(folder), "XDG_DATA_HOME": str(folder / "data"), "HOME": str(folder),
            "PYTHONPATH": str(Path.cwd()),
        }  # fmt: skip
        self._workers: list[subprocess.Popen[bytes]] = []
        self._wanted = workers
        self._stopped: dict[int, float] = {}

    def __enter__(self) -> Self:
        while len(self._workers) < self._wanted:
            self._workers.append(self._start())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for pid in processes_of(self.token):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for process in self._workers:
            process.wait()

    def _start(self) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            return subprocess.Popen(
                self._command, env=self._environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, process_group=0
            )

    def tend(self) -> None:
        """Start workers that have ended again, and let stopped ones continue when their lease is over."""
        for place, process in enumerate(self._workers):
            if process.poll() is not None:
                if process.returncode != -signal.SIGKILL:
                    self.deaths["ended by itself"] += 1
                self._workers[place] = self._start()
        for pid, until in list(self._stopped.items()):
            if time.monotonic() >= until:
                del self._stopped[pid]
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def kill(self, chance: random.Random) -> None:
        """Kill a worker that runs."""
        process = chance.choice(self._workers)
        if process.poll() is None and process.pid not in self._stopped:
            process.kill()
            process.wait()
            self.deaths["workers killed"] += 1

    def stop(self, chance: random.Random) -> None:
        """Stop a worker until after its leases have ended."""
        process = chance.choice(self._workers)
        if process.poll() is None and process.pid not in self._stopped:
            process.send_signal(signal.SIGSTOP)
            self._stopped[process.pid] = time.monotonic() + 1.5 * self.lease
            self.deaths["workers stopped past the lease"] += 1

    def end(self) -> list[str]:
        """Ask every worker to stop. Returns what is left of them afterwards: orphans, and workers that did not stop."""
        for pid in self._stopped:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        self._stopped.clear()
        for process in self._workers:
            process.terminate()
        left = []
        for process in self._workers:
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                left.append(f"worker {process.pid} did not stop")
                process.kill()
                process.wait()
        with suppress(TimeoutError):
            wait_until(lambda: not processes_of(self.token), "no process is left", patience=5)
        return left + [f"process {pid}: {command_of(pid)}" for pid in processes_of(self.token)]

    def log_text(self) -> str:
        return self._log.read_text(errors="replace")


def processes_of(token: str) -> list[int]:
    """The processes that have the token in their environment, zombies not included."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):
                if token.encode() in (folder / "environ").read_bytes():
                    found.append(int(folder.name))
    return found


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return "ended"
