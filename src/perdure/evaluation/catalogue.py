"""The workloads by name. A module is imported when its workload is used."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import cast

from perdure.errors import ConfigError
from perdure.evaluation.workload import Workload

WORKLOADS = {
    "crash": "perdure.evaluation.workloads.crash",
    "actors": "perdure.evaluation.workloads.actors",
    "interrupt": "perdure.evaluation.workloads.interrupt",
    "audit": "perdure.evaluation.workloads.audit",
    "growth": "perdure.evaluation.workloads.growth",
}  # in the order of the report; each module has a class `WORKLOAD`
VERIFIERS = Path(__file__).parent / "verifiers"


def find_workload(name: str) -> Workload:
    """The workload with this name."""
    if name not in WORKLOADS:
        raise ConfigError(f"No workload is called {name!r}.", hint=f"The workloads are {', '.join(WORKLOADS)}.")
    return cast(Workload, importlib.import_module(WORKLOADS[name]).WORKLOAD())


def verifier_of(name: str) -> Path:
    """The script that judges the raw files of a workload."""
    return VERIFIERS / f"{name}.py"
