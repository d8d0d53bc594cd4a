"""A worker in the background: in its own process session and group, so that closing the terminal does not end it.

Its output goes to a log beside the store. It exits by itself when there is nothing to do.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from perdure.cli.shell import Shell
from perdure.config import IGNORE_FOLDER, SETTINGS
from perdure.errors import ConfigError
from perdure.runtime.workers.private_folder import runtime_folder
from perdure.store.inspection import read_access

IDLE = 5.0  # seconds
COMMAND = (sys.executable, "-P", "-c", "from perdure.cli import main; main()")
TAIL = 2000  # bytes of a log


class BackgroundWorker(NamedTuple):
    """A worker that was started."""

    process: subprocess.Popen[bytes]
    log: Path

    def to_json(self) -> dict[str, object]:
        return {"pid": self.process.pid, "log": str(self.log)}


def supports_background(shell: Shell) -> bool:
    """Whether another process can use the store beside this one."""
    return read_access.locate_store(shell.store).kind not in ("memory", "files")


def check_background(shell: Shell, instead: str = "Leave --detach out") -> None:
    if not supports_background(shell):
        raise ConfigError(
            "Only one process at a time can use this store, so nothing can run in the background.",
            hint=f"{instead}, or use a SQLite file or PostgreSQL.",
        )


def start_worker(shell: Shell, uid: str, *, idle: float = IDLE) -> BackgroundWorker:
    """Start a worker for a session, with the same code and settings, and do not wait for it."""
    log = log_path(shell, uid)
    log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    words = ["worker", uid, "--idle", f"{idle:g}"]
    for one in shell.app:
        words += ["--app", one]
    with log.open("ab") as out:
        process = subprocess.Popen(
            [*COMMAND, *words],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
            env=child_environment(shell),
        )
    return BackgroundWorker(process, log)


def child_environment(shell: Shell) -> dict[str, str]:
    """The environment of a process that uses the same store and settings as this one."""
    settings = {one.env: shell.settings[one.name] for one in SETTINGS if one.name in shell.settings}
    store = {} if shell.store is None else {"PERDURE_STORE": shell.store}  # an address may contain a password
    return os.environ | settings | store | {"PERDURE_BY": shell.by, IGNORE_FOLDER: "1"}


def log_path(shell: Shell, uid: str) -> Path:
    folder = read_access.locate_store(shell.store).folder
    return (folder if folder is not None else runtime_folder()) / "logs" / f"{uid}.log"


def log_tail(log: Path) -> str:
    """The end of what the last worker printed."""
    try:
        text = log.read_bytes()[-TAIL:].decode(errors="replace")
    except OSError:
        return ""
    return text[text.rfind("\nworker ") + 1 :].strip()
