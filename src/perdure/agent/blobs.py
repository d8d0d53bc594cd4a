"""Reads contents out of our git dir, many in one go and none of them whole in memory."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterable, Iterator
from tempfile import TemporaryFile

from perdure.agent.gitdir import LIMIT, stop
from perdure.agent.gitstore import Held
from perdure.errors import Damaged

CHUNK = 1 << 20


def read_blobs(held: Held, names: Iterable[str]) -> Iterator[Iterator[bytes]]:
    """The content of each blob, in pieces, in the order asked. Each must be read to its end before the next."""
    names = list(names)
    with TemporaryFile() as wanted:
        wanted.write("".join(f"{name}\n" for name in names).encode())
        wanted.seek(0)
        process = held.start("cat-file", "--batch", "--buffer", stdin=wanted.fileno())
    watch = threading.Timer(LIMIT, stop, [process])
    watch.daemon = True
    watch.start()
    try:
        for name in names:
            yield _content(process, name)
    finally:
        watch.cancel()
        stop(process)


def _content(process: subprocess.Popen[bytes], name: str) -> Iterator[bytes]:
    assert process.stdout is not None
    header = process.stdout.readline().decode().split()
    if len(header) != 3 or header[1] != "blob":
        raise Damaged(f"Content {name[:12]} is missing from the snapshots.")
    left = int(header[2])
    while left:
        if not (chunk := process.stdout.read(min(CHUNK, left))):
            raise Damaged(f"Content {name[:12]} is cut short.")
        left -= len(chunk)
        yield chunk
    process.stdout.read(1)  # the line break after each content
