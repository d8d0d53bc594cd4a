"""Each peer has an environment of its own (`make peers`) and is called through its Python."""

from __future__ import annotations

import subprocess
from pathlib import Path

HERE = Path(__file__).parent
PEERS = HERE.parent / ".peers"


def installed() -> bool:
    return all(_python(name).exists() for name in ("dbos", "absurd"))


def _python(name: str) -> Path:
    return PEERS / name / "bin" / "python"


def dbos(what: str, database: str, count: int) -> float:
    """Run the benchmark of DBOS and return its number."""
    return _number("dbos", what, database, str(count))


def absurd(database: str, count: int) -> float:
    """Let one worker of Absurd run so many tasks, and return how many it ran in a second."""
    return _number("absurd", database, str(count))


def _number(name: str, *words: str) -> float:
    command = [str(_python(name)), str(HERE / "peers" / f"{name}_peer.py"), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode:
        raise RuntimeError(f"{name} failed: {done.stderr.strip()[-500:]}")
    return float(done.stdout.strip().splitlines()[-1])
