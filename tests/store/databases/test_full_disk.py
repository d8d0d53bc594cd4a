"""Limits that the kernel does not report as a full disk."""

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
async def disk_filler(s: perdure.Session) -> int:
    for number in range(1000):
        await s.step("fill", lambda: "x" * 10_000)
    return 1

GroupCommit.__init__.__kwdefaults__["patience"] = 1  # a minute otherwise
open_store(sys.argv[1]).close()
resource.setrlimit(resource.RLIMIT_FSIZE, (1_500_000, 1_500_000))
try:
    perdure.run(disk_filler.bind(), id="s", store=sys.argv[1])
except perdure.PerdureError as error:
    print(error.code)
"""


@pytest.mark.slow
def test_a_file_size_limit_is_reported_as_a_full_store(folder: Path) -> None:
    command = [sys.executable, "-c", SCRIPT, str(folder / "a.db")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    assert ended.stdout.strip() == "store-full", ended.stderr
