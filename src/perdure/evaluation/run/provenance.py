"""Where and with what a run was made: the machine, the code, and the settings of each system. Recorded before the run.

A report that is made again elsewhere shows what was recorded, and never what it finds there. No path, host or user is
recorded.
"""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

import perdure
from perdure.clock import SystemClock, format_time

ROOT = Path(perdure.__file__).parents[2]
BLOB = {"write": "a temporary file, fsync, rename, fsync of the folder", "lock": "flock"}
SQLITE = {"journal_mode": "WAL", "synchronous": "FULL"}
POSTGRES = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}
FILES = {"log": "fsync after each line"}
OWN = {"sqlite": SQLITE, "postgres": POSTGRES, "files": FILES}


def machine(folder: Path) -> dict[str, str]:
    """This machine now, with the file system below a folder, and the code that is run."""
    from perdure.evaluation.crash.system import tracer

    return {
        "began": format_time(SystemClock().now()),
        "system": f"{platform.system()} {platform.release()}, {platform.machine()}",
        "processor": _field(Path("/proc/cpuinfo"), "model name") or "unknown",
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": _field(Path("/proc/meminfo"), "MemTotal") or "unknown",
        "file system": file_system(folder),
        "load at the start": ", ".join(f"{one:.2f}" for one in os.getloadavg()),
        "python": platform.python_version(),
        "commit": commit(ROOT),
        "strace": tracer() or "not installed, or may not trace here",
    }


def _field(path: Path, name: str) -> str:
    """The first value of this name in a file with lines of the form `name : value`."""
    try:
        pairs = (line.partition(":") for line in path.read_text(encoding="utf-8").splitlines())
        return next((value.strip() for key, _, value in pairs if key.strip() == name), "")
    except OSError:
        return ""


def file_system(folder: Path) -> str:
    """The kind and the options of the file system that holds a folder."""
    try:
        mounts = [line.split() for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines()]
    except OSError:
        return "unknown"
    above = {str(one) for one in (folder.resolve(), *folder.resolve().parents)}
    held = [(len(point), kind, options) for _, point, kind, options, *_ in mounts if point in above]
    if not held:
        return "unknown"
    _, kind, options = max(held, key=lambda one: one[0])
    plain = [one for one in options.split(",") if "/" not in one and "=" not in one]  # an option may name a path
    return f"{kind} ({', '.join(plain)})"


def commit(root: Path) -> str:
    """The commit of the source tree, and whether files differ from it; an installed package has none."""
    words = ["git", "-C", str(root), "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty= with changes"]
    if not (root / ".git").exists():
        return f"none: the package {perdure.__version__}"
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return done.stdout.strip()


def settings(systems: Iterable[str], peers: Mapping[str, dict[str, str]]) -> dict[str, dict[str, str]]:
    """What decides the durability of each system, by `system/substrate`; of a peer, what its adapter says it sets."""
    found: dict[str, dict[str, str]] = {}
    for system in systems:
        name, substrate, *_ = [*system.split("/"), ""]
        key = f"{name}/{substrate}"
        if key in found:
            continue
        if name == "blob":
            found[key] = BLOB
        elif name == "perdure":
            found[key] = OWN.get(substrate, {})
        elif name in peers:
            found[key] = peers[name]
    return {key: value for key, value in found.items() if value}
