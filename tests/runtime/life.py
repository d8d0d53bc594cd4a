"""A worker in a process of its own: registers, says its id, starts a child if asked, and lives until it is killed."""

from __future__ import annotations

import signal
import subprocess
import sys

from perdure.runtime.liveness import presences
from perdure.store.store import open_store

CHILD = [sys.executable, "-c", "import signal; signal.pause()"]


def main(target: str, child: str) -> None:
    with open_store(target) as store:
        alive = presences(store).enter(store, programs=["review"])
        pid = 0
        if child != "none":
            pid = subprocess.Popen(CHILD, pass_fds=alive.pass_fds if child == "heir" else ()).pid
        print(alive.id, pid, flush=True)
        signal.pause()


if __name__ == "__main__":
    main(*sys.argv[1:])
