"""Worker processes for the benchmarks, and what the system knows of them: processor time and memory."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from perdure.store.moves import worker
from perdure.store.store import Store
from perdure.testing.proxy import wait_until

APP = Path(__file__).with_name("worker_app.py")
TICKS = os.sysconf("SC_CLK_TCK")


@contextmanager
def workers(
    store: Store, count: int, concurrency: int = 8, lease: str = "15s"
) -> Iterator[list[subprocess.Popen[bytes]]]:
    """So many worker processes, registered and ready; they are stopped afterwards."""
    known = len(store.read_now(worker.listing))
    command = [
        sys.executable, "-m", "perdure", "worker", "--app", str(APP), "--store", store.target,
        "--concurrency", str(concurrency), "--json",
    ]  # fmt: skip
    environment = os.environ | {"PERDURE_LEASE": lease, "PERDURE_IGNORE_FOLDER": "1", "PERDURE_LOG": "error"}
    started = [
        subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        for _ in range(count)
    ]
    try:
        wait_until(lambda: len(store.read_now(worker.listing)) >= known + count, "the workers are there", patience=120)
        yield started
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait()


def processor_time(process: subprocess.Popen[bytes]) -> float:
    """Seconds of processor time that a process has used."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def memory(process: subprocess.Popen[bytes]) -> int:
    """Bytes of memory that belong to a process alone."""
    for line in Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Private_Dirty:"):
            return int(line.split()[1]) * 1024
    return 0


@contextmanager
def supervised(store: Store, count: int) -> Iterator[None]:
    """`perdure serve` with so many workers."""
    command = [sys.executable, "-m", "perdure", "serve", "--app", str(APP), "--store", store.target, "--json"]
    environment = os.environ | {"PERDURE_IGNORE_FOLDER": "1", "PERDURE_LOG": "error"}
    process = subprocess.Popen(
        [*command, "--workers", str(count), "--drain", "1s"], env=environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield
    finally:
        process.terminate()
        process.wait()
