"""Writes the corpus of the current version of bundles: `python -m tests.interchange.support.write_corpus FOLDER`.

Run once for each released version and never again: the corpus is what that version really wrote.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import tempfile
from pathlib import Path

from perdure.runtime.runtime import open as open_runtime
from perdure.runtime.workers import liveness
from perdure.testing import ManualClock, Sink
from perdure.testing.sink import WHERE
from tests.interchange.support.transfer import export_session, start_session

NOON = 1_767_268_800_000_000


async def write_corpus(folder: Path) -> None:
    """A move that waits for an approval, as a .zip, and a copy of one of its branches, as a folder."""
    with tempfile.TemporaryDirectory() as place, Sink() as sink:
        os.environ |= {WHERE: sink.run().url, "TRAVELLER_ONCE": str(Path(place, "once"))}
        async with open_runtime(Path(place, "perdure.db"), by="ada", clock=ManualClock(NOON)) as rt:
            view = await start_session(rt, "journey", book="twice")
            await rt.fork("journey", at=view.cursor, id="branch")
            await rt.run("branch")
            await export_session(rt, "branch", folder / "copy")
            await export_session(rt, "journey", folder / "move.zip", move=True)


if __name__ == "__main__":
    socket.gethostname = lambda: "desk"  # the corpus contains nothing of this machine
    vars(liveness).update(boot_id=lambda: "desk", machine=lambda: "desk")
    asyncio.run(write_corpus(Path(sys.argv[1])))
