"""The output of a running command, read from its file by any process of the same user on the same machine.

The command runner writes the output of a command to a file while it runs, whichever process waits for the command. A
reader looks only at the end of that file, so its cost does not depend on how much a command prints. On another machine
there is no such file, and nothing is shown before the command has ended.
"""

from __future__ import annotations

import os
import re
import stat
from contextlib import suppress
from pathlib import Path

from perdure.agent.files.branch import storage_folder
from perdure.config import default_store
from perdure.runtime.runtime import Runtime
from perdure.runtime.workers.private_folder import runtime_folder

END = 8192  # bytes at the end of the file that are read
LINE = 1000  # characters of a line that are kept
# Sequences that move the cursor, set colours or titles. One that the end of the file cuts off is removed too.
_SEQUENCES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*(?:[@-~]|$)"
    r"|(?:\x1b[\]PX^_]|[\x90\x9d])[^\x07\x1b\n]*(?:\x07|\x1b\\|$)?"
    r"|\x1b[ -/]*[0-~]?"
)
_SILENT = re.compile("[\x00\x07\x08]")


class CommandOutputReader:
    """Reads the last lines of the running commands of one session."""

    def __init__(self, folders: list[Path]) -> None:
        self._folders = folders
        self._paths: dict[str, Path] = {}  # of each command, once it was found

    def tail(self, effect_id: str, attempt: int, lines: int) -> list[str]:
        """The last lines that an attempt printed and that are not blank; none if it has not printed anything here."""
        try:
            path = self._find(effect_id, attempt)
            return [] if path is None else last_lines(_end_of(path), lines)
        except OSError:
            return []

    def _find(self, effect_id: str, attempt: int) -> Path | None:
        """The folder of a command is named by its idempotency key, and an effect id by the beginning of that key."""
        name = f"{effect_id}/{attempt}"
        if name not in self._paths:
            key = effect_id.removeprefix("e-")
            found = [path for folder in self._folders for path in folder.glob(f"{key}*/{attempt}/output")]
            if not key.isalnum() or len(found) != 1:
                return None
            self._paths[name] = found[0]
        return self._paths[name]


def output_reader(runtime: Runtime, session_uid: str) -> CommandOutputReader:
    """A reader for the commands of a session. Their folder is beside the store, or in a private folder of this user."""
    folders = [default_store().parent / "commands"]
    if (beside := storage_folder(runtime)) is not None:
        folders.append(beside / "commands")
    with suppress(OSError):
        folders.append(runtime_folder() / "commands" / session_uid)
    return CommandOutputReader(list(dict.fromkeys(folders)))


def _end_of(path: Path) -> str:
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        there = os.fstat(file)
        if not stat.S_ISREG(there.st_mode):
            return ""
        start = max(0, there.st_size - END)
        text = os.pread(file, END, start).decode(errors="replace")
    finally:
        os.close(file)
    return text if start == 0 else text.partition("\n")[2] or text


def last_lines(text: str, lines: int) -> list[str]:
    """The last lines of an output that are not blank, as a terminal would leave them, without escape sequences.

    A carriage return starts a line again, as progress bars do, so only what follows it is kept.
    """
    found: list[str] = []
    for line in reversed(text.split("\n")):
        parts = [part for part in _SILENT.sub("", _SEQUENCES.sub("", line)).split("\r") if part.strip()]
        if parts:
            found.append(parts[-1][:LINE].rstrip())
        if len(found) == lines:
            break
    return found[::-1]
