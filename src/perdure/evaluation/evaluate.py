"""An evaluation from its plan to its report: what `perdure evaluate` does.

plan      the folder gets `plan.json`, or has one
run       the session runs every trial that has not happened
verify    a process without Perdure judges the raw files
report    results.jsonl, report.html and report.md are written from the judged results alone
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

import perdure
from perdure.durable import make_folder, write_whole
from perdure.errors import ConfigError
from perdure.evaluation.catalogue import WORKLOADS, find_workload
from perdure.evaluation.peers import PeerDescription, described, find_peers
from perdure.evaluation.protocol import protocol_digest
from perdure.evaluation.report.conclusion import Conclusion, conclusion_of, html_report, markdown_report
from perdure.evaluation.results import PLAN, Plan, collect, read_plan, write_results
from perdure.evaluation.run import provenance
from perdure.evaluation.run.session import Progress, planned, run_evaluation
from perdure.evaluation.workload import Form, Result
from perdure.ids import new_uid


def prepare(
    folder: Path, workloads: list[str], form: Form, seed: int, *, resume: bool, only: Sequence[str] = (),
    rounds: int = 0,
) -> Plan:  # fmt: skip
    """The plan in this folder: an existing one with `resume`, otherwise a new one."""
    known = read_plan(folder)
    if resume:
        if known is None:
            raise ConfigError(f"{folder} holds no evaluation.", hint="Start it without --resume.")
        return known
    if folder.exists():
        for part in folder.glob(f".{PLAN}-*"):  # of a start that was killed
            part.unlink()
    if folder.exists() and any(folder.iterdir()):
        hint = "Continue it with --resume, or name another folder with --to."
        raise ConfigError(f"{folder} is not empty.", hint=hint)
    trials = [trial for name in workloads or WORKLOADS for trial in find_workload(name).trials(form, rounds)]
    if missing := sorted(set(only) - {trial.id for trial in trials}):
        raise ConfigError(
            f"No trial is called {missing[0]!r}.", hint="results.jsonl names every trial; --full has more."
        )
    systems = sorted({trial.system for trial in trials if not only or trial.id in only})
    make_folder(folder.absolute())
    peers = _peers(systems)
    said = {name: one.settings for name, one in peers.items() if isinstance(one, PeerDescription)}
    plan = Plan(
        workloads=list(dict.fromkeys(workloads)) or list(WORKLOADS), form=form, seed=seed, protocol=protocol_digest(),
        version=perdure.__version__, only=list(only), rounds=rounds, uid=new_uid(), machine=provenance.machine(folder),
        settings=provenance.settings(systems, said), peers=peers,
    )  # fmt: skip
    write_whole(folder / PLAN, msgspec.json.encode(plan))
    return plan


def evaluate(folder: Path, plan: Plan, progress: Progress | None = None) -> Conclusion:
    """Run what has not happened yet, judge everything, and write the report."""
    run_evaluation(folder, progress)
    return conclude(folder, plan)


def _peers(systems: Sequence[str]) -> dict[str, PeerDescription | str]:
    """What the peers among these systems say of themselves, or why they cannot be run here."""
    names = sorted({system.split("/")[0] for system in systems} - {"perdure", "blob"})
    there = [one.name for one in find_peers()] if names else []
    others = {one: "it is not in this form of these workloads" for one in there if one not in names}
    with ThreadPoolExecutor(2) as pool:
        return {**dict(zip(names, pool.map(described, names), strict=True)), **others}


def conclude(folder: Path, plan: Plan) -> Conclusion:
    """Judge the raw files and write the report."""
    results: list[Result] = []
    for workload, trials in planned(plan):
        results += collect(folder, workload.name, trials)
    write_results(folder, results)
    made = conclusion_of(plan, results, str(folder))
    write_whole(folder / "report.html", html_report(plan, results, made).encode())
    write_whole(folder / "report.md", markdown_report(plan, results, made).encode())
    return made
