"""The pen: a control group that bounds how many processes a command has. The kernel counts, so no bomb outruns it.

For root it is needed, because the kernel lets root fork past the limit that holds for others. Making one takes rights
that other users seldom have; they are bounded by that limit. Where neither holds, the shepherd counts, some time late.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from perdure.ids import new_uid

_GROUPS = Path("/sys/fs/cgroup")
_SPARE = 16  # the sandbox's own; and the shepherd must see the limit passed


def make(processes: int) -> Path | None:
    """A new pen for so many processes; None where there can be none."""
    for parent in _parents():
        pen = parent / f"perdure-{new_uid()}"
        try:
            pen.mkdir()
        except OSError:
            continue
        try:
            with open(pen / "pids.max", "r+") as most:
                most.write(str(processes + _SPARE))
            return pen
        except OSError:
            remove(pen)
    return None


def remove(pen: Path) -> None:
    with suppress(OSError):
        pen.rmdir()


def tasks(processes: int) -> int:
    """The limit of a user's tasks that leaves him so many more: all that there are may be his."""
    try:
        there = int(Path("/proc/loadavg").read_text().split()[3].partition("/")[2])
    except (OSError, ValueError, IndexError):
        there = 1 << 20
    return there + processes


def _parents() -> list[Path]:
    """Where a pen may stand: in the group of this process, or beside it where a group holds processes or groups."""
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
