"""A control group that limits how many processes a command has. The kernel counts, so a fork bomb cannot outrun it.

Root needs it, because the kernel lets root fork past the limit that applies to others. Making a group takes rights that
other users seldom have; the other limit applies to them. Where neither works, the command runner counts, with some
delay.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from perdure.ids import new_uid

_GROUPS = Path("/sys/fs/cgroup")
_SPARE = 16  # for the sandbox itself; and the runner must see the limit exceeded


def make(processes: int) -> Path | None:
    """A new group for this many processes; None where none can be made."""
    for parent in _parents():
        group = parent / f"perdure-{new_uid()}"
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            with open(group / "pids.max", "r+") as most:
                most.write(str(processes + _SPARE))
            return group
        except OSError:
            remove(group)
    return None


def remove(group: Path) -> None:
    with suppress(OSError):
        group.rmdir()


def tasks(processes: int) -> int:
    """The limit on a user's tasks that leaves room for this many more: all existing tasks may be the user's."""
    try:
        there = int(Path("/proc/loadavg").read_text().split()[3].partition("/")[2])
    except (OSError, ValueError, IndexError):
        there = 1 << 20
    return there + processes


def _parents() -> list[Path]:
    """Parents for a new group: our own group in cgroup v1; in v2 its parent, as no v2 group holds both kinds."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    found = []
    for _, controllers, own in (line.split(":", 2) for line in lines):
        if "pids" in controllers.split(","):
            found.append(_GROUPS / "pids" / own.lstrip("/"))
        elif not controllers:
            found.append(_GROUPS / os.path.dirname(own).lstrip("/"))
    return [parent for parent in found if parent.is_dir()]
