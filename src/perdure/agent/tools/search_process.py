"""The child process that searches: it uses only Python's standard library, and is killed when it takes too long.

In:  a line of JSON (root, pattern, most matches, longest line), then file names, each ended by NUL.
Out: a line of JSON for each match: name, line number, text; or one with the error in the pattern.
"""

from __future__ import annotations

import json
import os
import re
import resource
import stat
import sys

LARGEST = 5_000_000
MEMORY = 2 << 30


def search() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    request = json.loads(sys.stdin.buffer.readline())
    try:
        pattern = re.compile(request["pattern"])
    except (re.error, RecursionError, OverflowError) as error:
        write_line(error=str(error))
        return
    root = os.open(request["root"], os.O_RDONLY | os.O_DIRECTORY)
    left = request["most"]
    for name in sys.stdin.buffer.read().split(b"\0"):
        content = read(root, name)
        for number, line in enumerate(content.decode(errors="replace").split("\n"), 1) if content else ():
            if (found := pattern.search(line)) is None:
                continue
            write_line(
                name=name.decode(errors="replace"), line=number, text=around(line, found.start(), request["longest"])
            )
            left -= 1
            if not left:
                return


def read(root: int, name: bytes) -> bytes:
    """A regular text file of moderate size, or nothing."""
    try:
        descriptor = open_below(root, name)
    except (OSError, ValueError):
        return b""
    with os.fdopen(descriptor, "rb") as file:
        there = os.fstat(descriptor)
        if not stat.S_ISREG(there.st_mode) or there.st_size > LARGEST:
            return b""
        content = file.read(LARGEST)
        return b"" if b"\0" in content[:8192] else content


def open_below(root: int, name: bytes) -> int:
    """Open a file folder by folder, none of which may be a link: one may have been put there since it was listed."""
    *folders, last = name.split(b"/")
    if b".." in folders:
        raise ValueError("it leads up")  # the index of a foreign repository may contain this
    above = os.dup(root)
    try:
        for folder in folders:
            below = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=above)
            os.close(above)
            above = below
        return os.open(last, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=above)
    finally:
        os.close(above)


def around(line: str, start: int, longest: int) -> str:
    """A line, or the part of a long one where the match begins."""
    line = line.rstrip("\r")
    if len(line) <= longest:
        return line
    begin = max(0, min(start - longest // 4, len(line) - longest))
    return ("…" if begin else "") + line[begin : begin + longest] + ("…" if begin + longest < len(line) else "")


def write_line(**words: object) -> None:
    sys.stdout.buffer.write(json.dumps(words).encode() + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    search()
