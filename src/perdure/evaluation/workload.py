"""What a workload is: trials as pure data, a function that runs one, and a summary of the results.

A trial is the unit of every figure: fresh processes, one seed. Its result is counted, void, or not run; a result never
contains a verdict that the process under test gave about itself.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

import msgspec

from perdure.evaluation.report.model import WorkloadReport


class Form(StrEnum):
    """How much is run: the short form takes about a minute for each workload, the full form hours."""

    SHORT = "short"
    FULL = "full"


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """One trial, as data. The system is `system/substrate/configuration/durability`.

    The id is unique in its workload and may be the name of a folder: lower-case words, digits, hyphens and dots.
    """

    id: str
    system: str
    parameters: dict[str, Any] = {}
    seed: int = 0


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What a trial gave: one line of `results.jsonl`."""

    workload: str = ""
    trial: str
    system: str
    parameters: dict[str, Any] = {}
    seed: int = 0
    outcome: str = "counted"  # or "void", or "not run"
    reason: str = ""  # of a result that is not counted
    verdicts: dict[str, int] = {}
    findings: dict[str, str] = {}
    measures: dict[str, float] = {}
    versions: dict[str, str] = {}
    attempts: int = 1  # more than one: the evaluation was killed during the trial
    began: int = 0  # microseconds since 1970
    ended: int = 0
    load: float = 0.0  # of the machine at the end
    perdure: str = ""  # the version that ran the trial

    @classmethod
    def of(
        cls, trial: Trial, *, measures: dict[str, float] | None = None, versions: dict[str, str] | None = None
    ) -> Result:
        """The result of a trial that counts."""
        return cls(
            trial=trial.id, system=trial.system, parameters=trial.parameters, seed=trial.seed,
            measures=measures or {}, versions=versions or {},
        )  # fmt: skip

    @classmethod
    def not_run(cls, trial: Trial, reason: str) -> Result:
        """The system cannot be run here: something is missing, which is no verdict on it."""
        return msgspec.structs.replace(cls.of(trial), outcome="not run", reason=reason)

    @classmethod
    def void(cls, trial: Trial, reason: str) -> Result:
        """The trial ran and shows nothing, for example because the kill did not happen."""
        return msgspec.structs.replace(cls.of(trial), outcome="void", reason=reason)


class Workload(Protocol):
    """One workload of the protocol."""

    name: str
    lanes: int

    def trials(self, form: Form, rounds: int = 0) -> list[Trial]:
        """Every trial, in an order that spreads the systems. Without the seed of the run, which is mixed in later.

        `rounds` is how often each is repeated, instead of as often as the form says.
        """
        ...

    def run(self, trial: Trial, folder: Path) -> Result:
        """Run one trial in fresh processes, and leave what the verifier reads in `folder`."""
        ...

    def summarise(self, results: list[Result]) -> WorkloadReport:
        """The report on all results of this workload, also those that are void or were not run."""
        ...


def counted(results: list[Result]) -> list[Result]:
    """The results that count."""
    return [one for one in results if one.outcome == "counted"]
