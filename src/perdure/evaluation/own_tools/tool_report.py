"""The report on the tools of a user: one line for each, then what was seen and what to change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec

from perdure.durable import make_folder, write_whole
from perdure.evaluation.own_tools.diagnosis import NOT_OBSERVED, NOT_RUN, RIGHT, WRONG, Mistake, ToolVerdict
from perdure.evaluation.report.markdown import section as markdown_section
from perdure.evaluation.report.markdown import table as markdown_table
from perdure.evaluation.report.model import Cell, ReportTable, Section, Tone, WorkloadReport
from perdure.evaluation.report.page import page

TITLE = "Your tools under kills and faults"
TONES = {RIGHT: Tone.GOOD, WRONG: Tone.BAD, NOT_RUN: Tone.MISSING, NOT_OBSERVED: Tone.COST}


class ToolConclusion(msgspec.Struct, frozen=True, kw_only=True):
    """The result of `perdure evaluate crash --app`, as `--json` prints it."""

    folder: str
    counts: dict[str, int]
    verdicts: list[ToolVerdict]

    @property
    def succeeded(self) -> bool:
        """Whether something was judged, and nothing is wrong."""
        return self.counts.get(WRONG, 0) == 0 and self.counts.get(RIGHT, 0) > 0


def write_report(folder: Path, verdicts: Sequence[ToolVerdict], about: Sequence[tuple[str, str]]) -> ToolConclusion:
    """Write `results.jsonl`, `report.html` and `report.md`."""
    make_folder(folder.absolute())
    intro = ReportTable(["about this run", ""], [[name, text] for name, text in about])
    sections = [_verdicts(verdicts), *_mistakes(verdicts), *_notes(verdicts)]
    shown = WorkloadReport(title="Verdicts", text=TEXT, sections=sections)
    write_whole(folder / "results.jsonl", b"".join(msgspec.json.encode(one) + b"\n" for one in verdicts))
    write_whole(folder / "report.html", page(TITLE, intro, [], [shown]).encode())
    lines = [f"# {TITLE}", "", *markdown_table(intro), "", TEXT, ""]
    lines += [line for one in sections for line in markdown_section(one)]
    write_whole(folder / "report.md", ("\n".join(lines).rstrip() + "\n").encode())
    counts = Counter(one.verdict for one in verdicts)
    return ToolConclusion(folder=str(folder), counts=dict(counts), verdicts=list(verdicts))


TEXT = (
    "Each tool and program ran undisturbed, was killed at its kill points and continued by another process, and met a "
    "service that fails. Correct: the same is outside as after an undisturbed run, and no question was needless."
)


def _verdicts(verdicts: Sequence[ToolVerdict]) -> Section:
    rows: list[list[str | Cell]] = [
        [
            one.name, one.rule or one.kind, str(one.kills), str(one.faults), Cell(one.verdict, TONES[one.verdict]),
            one.reason or "; ".join(found.mistake for found in one.findings),
        ]
        for one in verdicts
    ]  # fmt: skip
    columns = ["tool or program", "rule", "kills", "faults", "verdict", "why"]
    return Section(title="Every tool and program", table=ReportTable(columns, rows))


def _mistakes(verdicts: Sequence[ToolVerdict]) -> list[Section]:
    found: list[tuple[ToolVerdict, Mistake]] = [(one, each) for one in verdicts for each in one.findings]
    rows: list[list[str | Cell]] = [[one.name, each.mistake, each.seen, each.change] for one, each in found]
    table = ReportTable(["tool or program", "mistake", "what was seen", "what to change"], rows)
    return [Section(title="Mistakes", table=table)] if rows else []


def _notes(verdicts: Sequence[ToolVerdict]) -> list[Section]:
    rows: list[list[str | Cell]] = [[one.name, note] for one in verdicts for note in one.notes]
    table = ReportTable(["tool or program", "note"], rows)
    return [Section(title="Notes", text="A note is no finding.", table=table)] if rows else []
