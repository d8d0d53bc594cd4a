"""Peers have their own environment (`make peers`) and are called through its Python."""

from __future__ import annotations

import subprocess
from pathlib import Path

HERE = Path(__file__).parent
PYTHON = HERE.parent / ".peers" / "bin" / "python"


def installed() -> bool:
    return PYTHON.exists()


def dbos(what: str, database: str, count: int) -> float:
    """Run the benchmark of DBOS and return its number."""
    return _number("dbos_peer.py", what, database, str(count))


def absurd(database: str, count: int) -> float:
    """Let one worker of Absurd run so many tasks, and return how many it ran in a second."""
    return _number("absurd_peer.py", database, str(count))


def _number(script: str, *words: str) -> float:
    done = subprocess.run(
        [str(PYTHON), str(HERE / "peers" / script), *words], capture_output=True, text=True, check=False, timeout=600
    )
    if done.returncode:
        raise RuntimeError(f"{script} failed: {done.stderr.strip()[-500:]}")
    return float(done.stdout.strip().splitlines()[-1])
