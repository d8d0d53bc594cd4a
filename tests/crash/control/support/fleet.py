"""The processes of the control soak: a supervisor with its workers, found by a token in their environment."""

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
PATIENCE = 180.0


class Fleet:
    """`perdure serve` on a store. It is started again when it ends."""

    def __init__(
        self, folder: Path, target: str, sink: str, *, workers: int, lease: float, concurrency: int = 4
    ) -> None:
        self.token = secrets.token_hex(8)
        self.deaths: Counter[str] = Counter()
        self.lease = lease
        self._log = folder / "serve.log"
        self._command = [
            sys.executable, "-m", "perdure", "serve", "--app", str(APP), "--store", target, "--workers", str(workers),
            "--concurrency", str(concurrency), "--drain", "5s", "--json",
        ]  # fmt: skip
        self._environment = os.environ | {
            TOKEN: self.token, "PERDURE_SINK": sink, "PERDURE_LEASE": f"{lease}s", "PERDURE_IGNORE_FOLDER": "1",
            "XDG_RUNTIME_DIR": str(folder), "XDG_DATA_HOME": str(folder / "data"), "HOME": str(folder),
            "PYTHONPATH": os.pathsep.join(filter(None, [str(Path.cwd()), os.environ.get("PYTHONPATH")])),
        }  # fmt: skip
        self._stopped: dict[int, float] = {}

    def __enter__(self) -> Self:
        self._serve = self._start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for pid in processes_of(self.token):
            _send(pid, signal.SIGKILL)
        self._serve.wait()

    def _start(self) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            return subprocess.Popen(
                self._command, env=self._environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, process_group=0
            )

    def tend(self) -> None:
        """Start a supervisor that has ended again, and let stopped workers continue when their leases are over."""
        if self._serve.poll() is not None:
            if self._serve.returncode != -signal.SIGKILL:
                self.deaths["supervisors ended by themselves"] += 1
            self._serve = self._start()
        for pid, until in list(self._stopped.items()):
            if time.monotonic() >= until:
                del self._stopped[pid]
                _send(pid, signal.SIGCONT)

    def kill_worker(self, chance: random.Random) -> None:
        """Kill a worker or a service."""
        if children := [pid for pid in processes_of(self.token) if pid != self._serve.pid and pid not in self._stopped]:
            _send(chance.choice(children), signal.SIGKILL)
            self.deaths["workers killed"] += 1

    def stop_worker(self, chance: random.Random) -> None:
        """Stop a worker until after its leases have ended."""
        running = [
            pid for pid in processes_of(self.token) if " worker " in command_of(pid) and pid not in self._stopped
        ]
        if running:
            pid = chance.choice(running)
            _send(pid, signal.SIGSTOP)
            self._stopped[pid] = time.monotonic() + 1.5 * self.lease
            self.deaths["workers stopped past the lease"] += 1

    def kill_supervisor(self) -> None:
        """Kill the supervisor, with which its children end."""
        self._serve.kill()
        self._serve.wait()
        self._stopped.clear()
        self.deaths["supervisors killed"] += 1

    def end(self) -> list[str]:
        """Ask everything to stop. Returns what is left afterwards: orphans, and a supervisor that did not stop."""
        for pid in self._stopped:
            _send(pid, signal.SIGCONT)
        self._stopped.clear()
        self._serve.terminate()
        left = []
        try:
            self._serve.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            left.append("the supervisor did not stop")
        with suppress(TimeoutError):
            wait_until(lambda: not processes_of(self.token), "no process is left")
        return left + [f"process {pid}: {command_of(pid)}" for pid in processes_of(self.token)]

    def log_text(self) -> str:
        return self._log.read_text(errors="replace")


def _send(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


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
