"""A supervisor as a process, without a store: `python -m ... NAME` runs one of these trees in the current folder."""

from __future__ import annotations

import asyncio
import ctypes
import sys
from pathlib import Path

from perdure.clock import SECOND, SystemClock
from perdure.control.supervisor.notification import take_notifier
from perdure.control.supervisor.specification import ChildSpec, GroupSpec, Restart
from perdure.control.supervisor.supervisor import ChildReport, Supervisor

SUBREAPER = 36
STUBBORN = """
trap "" TERM
setsid sleep 600 > /dev/null & echo $! > outside
sleep 600 & echo $! > inside
echo $$ > leader
wait
"""
ORPHAN = "setsid sleep 0.1 > /dev/null & echo x >> starts; exec sleep 600"
WORKER = """
from perdure.control.supervisor.notification import take_notifier
take_notifier().send(X_PERDURE_WORKER="w-1@host:7", READY=1)
"""
WATCHED = """
import pathlib, signal, sys, time
from perdure.control.supervisor.notification import take_notifier
notifier = take_notifier()
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
notifier.send(READY=1)
with open(f"{sys.argv[1]}-starts", "a") as file:
    file.write("start\\n")
while sys.argv[1] == "silent" or not pathlib.Path("slept").exists():
    time.sleep(0.01)
notifier.send(WATCHDOG=1)
pathlib.Path("signed").touch()
time.sleep(600)
"""
CROWDING = """
import pathlib, time
from perdure.control.supervisor.notification import take_notifier
notifier = take_notifier()
pathlib.Path("started").touch()
while not pathlib.Path("stopped").exists():
    time.sleep(0.01)
while notifier.send(STATUS="one of too many"):
    pass
notifier.send(READY=1)
pathlib.Path("crowded").touch()
while True:
    notifier.send_sign()
    time.sleep(0.01)
"""


class SleepingClock(SystemClock):
    """An hour later as soon as the file `slept` exists, as after a machine slept."""

    def boot(self) -> int:
        return super().boot() + (3600 * SECOND if Path("slept").exists() else 0)


def watched(id: str) -> ChildSpec:
    return ChildSpec(id, (sys.executable, "-c", WATCHED, id), watchdog=60 * SECOND)


def shell(id: str, script: str, shutdown: int = SECOND // 5) -> ChildSpec:
    return ChildSpec(id, ("/bin/sh", "-c", script), shutdown=shutdown)


TREES = {
    "sleepers": GroupSpec(
        "root", (shell("a", "echo $$ > a; exec sleep 600"), shell("b", "echo $$ > b; exec sleep 600"))
    ),
    "stubborn": GroupSpec("root", (shell("a", STUBBORN),)),
    "failing": GroupSpec("root", (shell("a", "echo start >> starts; exit 7"),), restarts=2),
    "missing": GroupSpec("root", (ChildSpec("a", ("/does/not/exist",)),), restarts=1),
    "worker": GroupSpec("root", (ChildSpec("a", (sys.executable, "-c", WORKER), Restart.TEMPORARY),)),
    "crowded": GroupSpec("root", (ChildSpec("a", (sys.executable, "-c", CROWDING), watchdog=600 * SECOND),)),
    "watched": GroupSpec("root", (watched("silent"), watched("signing"))),
    "orphans": GroupSpec(
        "root", (shell("a", "setsid sleep 0.1 > /dev/null & sleep 0.01; echo x >> starts; exec sleep 600"),)
    ),
}


async def main(name: str) -> int:
    async def report(worker: str, because: str) -> None:
        print(f"{worker}: {because}")

    async def changed(tree: ChildReport) -> None:
        if tree.state == "running":
            Path("running").touch()

    supervisor = Supervisor(
        TREES[name], SleepingClock(), notifier=take_notifier(), changed=changed, worker_ended=report
    )
    ended = await supervisor.run()
    if name == "watched":
        for id, one in ended.children.items():
            print(f"{id}: {one.last_exit}")
    print(ended.failure or "stopped")
    return ended.exit_code


if __name__ == "__main__":
    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)  # as process 1 of a container, it adopts orphans
    sys.exit(asyncio.run(main(sys.argv[1])))
