"""A real file system that loses power: an ext4 image on a loop device, shut down by its own system call.

`FS_IOC_SHUTDOWN` with the flag that forbids flushing the journal drops everything that was not synced, as a power cut
does; the next mount recovers the journal. What a disk does below its file system is not part of this.

The machine keeps running where a power cut would have ended it. A sync that was under way when the journal was aborted
may return as if it had been done: 26 answers in 89 cuts came after the call, and 10 of those were not there afterwards.
After a power cut no caller gets such an answer, so an answer counts only if it was received before the call.
"""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
import threading
import time
from pathlib import Path
from typing import Any, Self

from perdure.store.moves import event
from perdure.store.store import open_store
from perdure.testing import ManualClock
from perdure.testing.proxy import wait_until
from perdure.testing.sweep.fork_process import Channel
from tests.crash.support import planted_bugs
from tests.crash.support.power_loss_tasks import begin
from tests.crash.support.verdict import Verdict, continue_session, examine, judge_safely, merge, verdict

SHUTDOWN = 0x8004587D  # _IOR('X', 125, __u32)
NO_LOG_FLUSH = 2
SIZE = 64 << 20


class Ext4Image:
    """An ext4 file system in a file, mounted inside `with`."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "disk.img"
        self.place = folder / "disk"
        self.place.mkdir()

    def __enter__(self) -> Self:
        with open(self.file, "wb") as file:
            file.truncate(SIZE)
        run("mkfs.ext4", "-q", "-F", str(self.file))
        self.mount()
        return self

    def __exit__(self, *_: object) -> None:
        self.unmount()

    def mount(self) -> None:
        run("mount", "-o", "loop", str(self.file), str(self.place))

    def unmount(self) -> None:
        wait_until(self._unmounted, "the disk is not in use any more")

    def _unmounted(self) -> bool:
        try:
            run("umount", str(self.place))
        except OSError as error:
            if "busy" in str(error):
                return False
            raise
        return True


def cut(channel: Channel, place: str) -> None:
    """From now on nothing reaches this disk, and what was not synced is gone. Reports when that was."""
    descriptor = os.open(place, os.O_RDONLY)
    try:
        channel.send(cut=time.monotonic_ns())
        fcntl.ioctl(descriptor, SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
    finally:
        os.close(descriptor)


def run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"{command[0]}: {done.stderr.strip() or done.stdout.strip()}")


def write_until_cut(channel: Channel, *, target: str, place: str, after: int, plant: str | None = None) -> None:
    """Write, reporting every answer; after so many, the disk is cut off while writing continues."""
    planted_bugs.plant(plant)
    store = open_store(target, clock=ManualClock())
    store.database._commits._patience = 1  # type: ignore[attr-defined]
    holders = begin(store, ("first", "second"))
    channel.send(begun=[holder.uid for holder in holders])
    cutter = threading.Thread(target=cut, args=(channel, place))
    for number in range(1, 100_000):
        for holder in holders:
            if number * 2 == after - after % 2:
                cutter.start()
                after = -1
            store.write_now(event.append(holder, "note", {"n": number, "text": "t" * (number % 5 * 700)}))
            channel.send(ack=[holder.uid, number, time.monotonic_ns()])


def judge_cut(_: object, *, target: str, acks: list[tuple[str, int, int]], begun: list[str], cut_at: int) -> Verdict:
    def judge() -> Verdict:
        found = verdict()
        with open_store(target, clock=ManualClock()) as store:
            for uid, id in zip(begun, ("first", "second"), strict=True):
                there = store.read_now(all_numbers, uid)
                received = [number for owner, number, at in acks if owner == uid and at < cut_at]
                most = len([ack for ack in acks if ack[0] == uid]) + 1
                if received != there[: len(received)]:
                    found["lost"].append(f"acknowledged {len(received)}, there are {len(there)}")
                if len(there) > most:
                    found["half"].append(f"acknowledged {most - 1}, there are {len(there)}")
                merge(found, store.read_now(examine, uid))
                merge(found, continue_session(store, id))
        return found

    return judge_safely(judge)


def all_numbers(tx: Any, uid: str) -> list[int]:
    found, after = list[int](), 0
    while page := event.after(tx, uid, after):
        found += [line.body["n"] for line in page if line.kind == "note" and "n" in line.body]
        after = page[-1].number
    return found
