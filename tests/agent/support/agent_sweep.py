"""The kill sweeps of agents: one scenario each, on both databases, with a repository of its own for each trial."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from perdure.ids import digest
from perdure.runtime.definitions.program import Bound
from perdure.testing import Sink
from perdure.testing.sink import WHERE
from perdure.testing.sweep.report import HEADS, Report
from perdure.testing.sweep.server_pool import ServerPool
from perdure.testing.sweep.sweep import Sweep
from tests.figures import record_sweep

MakeSweep = Callable[[str | Path], Sweep]
REPOSITORIES, TEMPLATE = "PERDURE_TEST_REPOSITORIES", "template"


@dataclass(frozen=True)
class Scenario:
    """What is swept: an agent with its prompt, the script that runs it, and its module, which the processes import."""

    name: str
    module: ModuleType
    bound: Bound[Any]
    script: Callable[..., Any]
    make_template: Callable[[Path], None]
    kind: type[Sweep] = Sweep

    def sweep(self, pool: ServerPool, sink: Sink, store: str | Path, repositories: Path) -> Sweep:
        environment = {REPOSITORIES: str(repositories)}
        return self.kind(pool, self.bound, sink, store, name=self.name, environment=environment, script=self.script)


def repository() -> Path:
    """The repository of this trial, copied from the template; complete or not there at all."""
    base = Path(os.environ[REPOSITORIES])
    own = base / digest(os.environ[WHERE])[:16]
    if not own.exists():
        half = own.with_suffix(".half")
        shutil.rmtree(half, ignore_errors=True)
        shutil.copytree(base / TEMPLATE, half, symlinks=True)
        half.rename(own)
    return own / "work"


def show(sweep: Sweep, what: str = "") -> Report:
    """Add the report of a sweep to the table of agents."""
    database = "PostgreSQL" if sweep.url else "SQLite"
    record_sweep("agents", ", ".join(filter(None, (sweep.report.name, what, database))), sweep.report, HEADS)
    return sweep.report


def check_report(sweep: Sweep) -> None:
    """Nothing was found, and at most one process in four ended before its kill point."""
    assert not sweep.report.failures, "\n".join(sweep.report.failures)[:5_000]
    assert sweep.report.kills > 3 * sweep.report.unreached
