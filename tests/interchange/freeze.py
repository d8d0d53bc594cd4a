"""Writes the corpus of the current version of bundles: `python -m tests.interchange.freeze FOLDER`.

Run once for each version that is released, and never again: what is frozen is what that version really wrote.
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
from tests.interchange.journey import begin, leave

NOON = 1_767_268_800_000_000


async def freeze(folder: Path) -> None:
    """A move that waits for an approval, as a .zip, and a copy of one of its branches, as a folder."""
    with tempfile.TemporaryDirectory() as place, Sink() as sink:
        os.environ |= {WHERE: sink.run().url, "TRAVELLER_ONCE": str(Path(place, "once"))}
        async with open_runtime(Path(place, "perdure.db"), by="ada", clock=ManualClock(NOON)) as rt:
            view = await begin(rt, "journey", book="twice")
            await rt.fork("journey", at=view.cursor, id="branch")
            await rt.run("branch")
            await leave(rt, "branch", folder / "copy")
            await leave(rt, "journey", folder / "move.zip", move=True)


if __name__ == "__main__":
    socket.gethostname = lambda: "desk"  # nothing of this machine is frozen with it
    vars(liveness).update(boot_id=lambda: "desk", machine=lambda: "desk")
    asyncio.run(freeze(Path(sys.argv[1])))
