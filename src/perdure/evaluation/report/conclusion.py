"""What a run showed, from its plan and its results alone: the same report wherever and whenever it is made again."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from perdure.clock import format_time
from perdure.evaluation.catalogue import WORKLOADS, find_workload
from perdure.evaluation.peers import PeerDescription
from perdure.evaluation.protocol import protocol_digest
from perdure.evaluation.report.markdown import plain, section
from perdure.evaluation.report.markdown import report as markdown_of
from perdure.evaluation.report.markdown import table as markdown_table
from perdure.evaluation.report.model import Cell, ReportTable, Section, WorkloadReport
from perdure.evaluation.report.page import page, summary
from perdure.evaluation.results import Plan
from perdure.evaluation.workload import Form, Result

TITLE = "Evaluation of Perdure"
VOID = "A control was not caught: this run is void, and none of its figures count."
PARTIAL = "Only some trials were run, without every control: this run is void, and none of its figures count."
CHANGED = "The protocol was changed after this run began."
UNKNOWN = "not recorded"


class Conclusion(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an evaluation, as `--json` prints it."""

    folder: str
    workloads: list[str]
    trials: int
    counted: int
    void: int
    not_run: int
    controls_caught: bool
    refuted: list[str]
    reports: list[WorkloadReport]

    @property
    def succeeded(self) -> bool:
        return self.controls_caught and not self.refuted


def conclusion_of(plan: Plan, results: Sequence[Result], folder: str = "") -> Conclusion:
    """The conclusion from all results of a run."""
    reports = []
    for name in plan.workloads:
        own = [one for one in results if one.workload == name]
        reports.append(_with_commands(find_workload(name).summarise(own), plan, name))
    outcomes = Counter(one.outcome for one in results)
    return Conclusion(
        folder=folder, workloads=plan.workloads, trials=len(results), counted=outcomes["counted"],
        void=outcomes["void"], not_run=outcomes["not run"],
        controls_caught=not any(one.is_void for one in reports),
        refuted=[claim.text for one in reports for claim in one.hypotheses if not claim.holds],
        reports=reports,
    )  # fmt: skip


def html_report(plan: Plan, results: Sequence[Result], made: Conclusion) -> str:
    """The report as one HTML page."""
    return page(
        TITLE, _about(plan, made, results), warnings(plan, made, results), made.reports, _appendix(plan, results)
    )


def markdown_report(
    plan: Plan, results: Sequence[Result], made: Conclusion, plots: Mapping[str, str] | None = None
) -> str:
    """The report as Markdown. `plots` are the files of plots that were drawn, by their title."""
    said = (f"**{plain(one)}**\n" for one in warnings(plan, made, results))
    lines = [f"# {TITLE}", "", *said, *markdown_table(_about(plan, made, results)), ""]
    if glance := summary(made.reports):
        lines += ["## At a glance", "", *markdown_table(glance), ""]
    for one in made.reports:
        lines += markdown_of(one, plots)
    if appendix := _appendix(plan, results):
        lines += ["## About the run", "", *(line for one in appendix for line in section(one, plots))]
    return "\n".join(lines).rstrip() + "\n"


def warnings(plan: Plan, made: Conclusion, results: Sequence[Result]) -> list[str]:
    """What a reader must know before any figure."""
    found = [] if made.controls_caught else [PARTIAL if plan.only else VOID]
    if plan.protocol != protocol_digest():
        found.append(CHANGED)
    others = sorted({one.perdure for one in results} - {"", plan.version})
    if others:
        found.append(f"The run began with Perdure {plan.version} and was continued with {', '.join(others)}.")
    return found


def command_of(plan: Plan, workloads: Sequence[str] = (), only: Sequence[str] = ()) -> str:
    """The command that repeats a run, or only some of its trials."""
    full = ["--full"] if plan.form is Form.FULL else []
    full += ["--rounds", str(plan.rounds)] if plan.rounds else []
    trials = [word for trial in only or plan.only for word in ("--trial", trial)]
    chosen = workloads or ([] if plan.workloads == list(WORKLOADS) else plan.workloads)
    return shlex.join(["perdure", "evaluate", *chosen, *full, "--seed", str(plan.seed), *trials])


def seconds_of(results: Sequence[Result]) -> float:
    """For how long trials were run: side by side counts once, and a pause between two processes does not."""
    total, until = 0, 0
    for one in sorted(results, key=lambda one: one.began):
        total += max(0, one.ended - max(one.began, until))
        until = max(until, one.ended)
    return total / 1e6


def _with_commands(report: WorkloadReport, plan: Plan, name: str) -> WorkloadReport:
    """The report with a command for each trial that showed an error."""
    if not report.repeat:
        return report
    rows: list[list[str | Cell]] = [[trial, command_of(plan, [name], [trial])] for trial in report.repeat]
    table = ReportTable(["trial", "command"], rows)
    section = Section(title="Repeat a trial with an error", text="Each command runs one trial.", table=table)
    return msgspec.structs.replace(report, sections=[*report.sections, section])


def _about(plan: Plan, made: Conclusion, results: Sequence[Result]) -> ReportTable:
    versions = {name: version for one in results for name, version in one.versions.items()}
    interrupted = sum(one.attempts - 1 for one in results)
    ended = max((one.ended for one in results), default=0)
    loads = [one.load for one in results if one.ended]
    shown = ", ".join(f"{name} {version}" for name, version in sorted({"perdure": plan.version, **versions}.items()))
    rows = [
        ["command", command_of(plan)],
        *([name, value] for name, value in (plan.machine or {"machine": UNKNOWN}).items()),
        ["ended", format_time(ended) if ended else UNKNOWN],
        ["duration of the trials", f"{seconds_of(results):,.0f} s" if ended else UNKNOWN],
        ["load during the trials", f"{min(loads):.1f} to {max(loads):.1f}" if loads else UNKNOWN],
        ["versions", shown],
        ["seed, form", f"{plan.seed}, {plan.form}"],
        ["protocol (SHA-256)", plan.protocol],
        ["trials", f"{made.trials}: {made.counted} counted, {made.void} void, {made.not_run} not run"],
        ["interrupted attempts", f"{interrupted}, run again from the beginning"],
    ]
    return ReportTable(["about this run", ""], [[*row] for row in rows])


def _appendix(plan: Plan, results: Sequence[Result]) -> list[Section]:
    """How long each workload took, what each system was set to, and what peers are."""
    found = []
    if any(one.ended for one in results):
        rows: list[list[str | Cell]] = []
        for name in plan.workloads:
            own = [one for one in results if one.workload == name]
            rows.append([name, str(len(own)), f"{seconds_of(own):,.0f}"])
        found.append(Section(title="Time of each workload", table=ReportTable(["workload", "trials", "seconds"], rows)))
    if plan.settings:
        set_to = [
            [name, ", ".join(f"{key}: {value}" for key, value in said.items())] for name, said in plan.settings.items()
        ]
        table = ReportTable(["system", "settings"], [[*row] for row in set_to])
        found.append(Section(title="Settings that decide what is durable", table=table))
    if plan.peers:
        found.append(peers_section(plan.peers))
    return found


def peers_section(peers: Mapping[str, PeerDescription | str]) -> Section:
    """What each peer is, as its adapter says, and why others were not run."""
    rows: list[list[str | Cell]] = []
    for name, one in peers.items():
        if isinstance(one, str):
            rows.append([name, f"not run: {one}", "", "", ""])
            continue
        versions = ", ".join(f"{package} {version}" for package, version in one.versions.items())
        rows.append([
            name, versions, one.page, "; ".join(f"{key}: {value}" for key, value in one.configurations.items()),
            "; ".join(one.cannot),
        ])  # fmt: skip
    columns = ["peer", "versions", "page of its documentation", "configurations", "what it cannot express"]
    return Section(title="Peers", text="As the adapters in evaluation/peers say.", table=ReportTable(columns, rows))
