"""No room that the kernel does not call a full disk: what a second reader of the store found."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import resource, sys
import perdure
from perdure.store.writer.group_commit import GroupCommit
from perdure.store.store import open_store

@perdure.program
async def review_filler(s: perdure.Session) -> int:
    for number in range(1000):
        await s.step("fill", lambda: "x" * 10_000)
    return 1

GroupCommit.__init__.__kwdefaults__["patience"] = 1  # a minute otherwise
open_store(sys.argv[1]).close()
resource.setrlimit(resource.RLIMIT_FSIZE, (1_500_000, 1_500_000))
try:
    perdure.run(review_filler.bind(), id="s", store=sys.argv[1])
except perdure.PerdureError as error:
    print(error.code)
"""


@pytest.mark.slow
def test_a_file_that_may_not_grow_is_a_full_store_and_not_an_unknown_commit(folder: Path) -> None:
    command = [sys.executable, "-c", SCRIPT, str(folder / "a.db")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.stdout.strip() == "store-full", ended.stderr
