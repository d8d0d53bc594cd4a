"""A worker in a process of its own: registers, says its id, starts a child if asked, and lives until it is killed.

As an `asker` it only says, for each line that it reads, who is alive in its eyes.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from typing import Any

from perdure.domain.effect import Attempt
from perdure.domain.worker import WorkerRecord
from perdure.runtime.runtime import Runtime
from perdure.runtime.workers.liveness import locks_of_store
from perdure.store.moves import worker
from perdure.store.store import open_store

CHILD = [sys.executable, "-c", "import signal; signal.pause()"]


def ask(target: str) -> None:
    with open_store(target) as store:
        runtime = Runtime(store)
        for _ in sys.stdin:
            lives = {one.id: runtime.life_of(an_attempt(one)) for one in store.read_now(worker.listing)}
            print(json.dumps([os.getpid(), socket.gethostname(), lives]), flush=True)


def an_attempt(one: WorkerRecord) -> Attempt:
    """An attempt of a worker's that was not settled."""
    process = {"id": one.id, "host": one.host, "boot_id": one.boot_id, "pid": one.pid, "start_token": one.start_token}
    columns: dict[str, Any] = dict.fromkeys(Attempt.__struct_fields__) | {"process": process, "number": 1}
    return Attempt(**columns)


def main(target: str, child: str) -> None:
    if child == "asker":
        ask(target)
        return
    with open_store(target) as store:
        alive = locks_of_store(store).enter(store, programs=["review"])
        pid = 0
        if child != "none":
            pid = subprocess.Popen(CHILD, pass_fds=alive.pass_fds if child == "heir" else ()).pid
        print(alive.id, pid, os.getpid(), socket.gethostname(), flush=True)
        signal.pause()


if __name__ == "__main__":
    main(*sys.argv[1:])
