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
    command = [str(PYTHON), str(HERE / "peers" / "dbos_peer.py"), what, database, str(count)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode:
        raise RuntimeError(f"DBOS failed: {done.stderr.strip()[-500:]}")
    return float(done.stdout.strip().splitlines()[-1])
