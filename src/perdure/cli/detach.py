"""Going on in the background: a worker of its own session and group, which a closed terminal does not take along.

What it says goes to a log beside the store. It ends by itself when there is nothing to do.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from perdure.cli.command import Shell
from perdure.config import IGNORE_FOLDER, SETTINGS
from perdure.errors import ConfigError
from perdure.store import doctor

IDLE = 5.0  # seconds
PERDURE = "from perdure.cli import main; main()"
TAIL = 2000  # bytes of a log


class Background(NamedTuple):
    """A worker that was started."""

    process: subprocess.Popen[bytes]
    log: Path

    def shown(self) -> dict[str, object]:
        return {"pid": self.process.pid, "log": str(self.log)}


def is_possible(shell: Shell) -> bool:
    """Whether another process can use the store beside this one."""
    return doctor.place_of(shell.store).kind not in ("memory", "files")


def check(shell: Shell) -> None:
    if not is_possible(shell):
        raise ConfigError(
            "This store is for one process at a time, so nothing can go on in the background.",
            hint="Leave --detach out, or use a SQLite file or PostgreSQL.",
        )


def background(shell: Shell, uid: str, *, idle: float = IDLE) -> Background:
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
    return Background(process, log)


def log_of(shell: Shell, uid: str) -> Path:
    from perdure.runtime.private_folder import runtime_folder

    folder = doctor.place_of(shell.store).folder
    return (folder if folder is not None else runtime_folder()) / "logs" / f"{uid}.log"


def last_words(log: Path) -> str:
    """The end of what a worker said."""
    try:
        text = log.read_bytes()[-TAIL:].decode(errors="replace")
    except OSError:
        return ""
    return text[text.rfind("\nworker ") + 1 :].strip()
