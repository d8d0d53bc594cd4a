"""The report as Markdown: the tables; a plot is named, and its figures are in the table beside it."""

from __future__ import annotations

from collections.abc import Mapping

from perdure.evaluation.report.model import Cell, ReportTable, Section, WorkloadReport

ESCAPED = str.maketrans(
    {one: f"\\{one}" for one in "\\`*_[]|"} | {"<": "&lt;", ">": "&gt;", "&": "&amp;", "\n": " ", "\r": " "}
)


def plain(words: str) -> str:
    """Text that Markdown does not interpret."""
    return words.translate(ESCAPED)


def table(shown: ReportTable) -> list[str]:
    """The lines of a table."""
    head = [_row([plain(one) for one in shown.columns]), "|" + "---|" * len(shown.columns)]
    return head + [_row([_cell(one) for one in row]) for row in shown.rows]


def report(shown: WorkloadReport, plots: Mapping[str, str] | None = None) -> list[str]:
    """The lines of the report on one workload. `plots` are files that were drawn, by the title of the plot."""
    lines = [f"## {plain(shown.title)}", "", plain(shown.text), ""]
    if shown.hypotheses:
        lines += table(
            ReportTable(
                ["claim", "figure", "verdict"],
                [[one.text, one.figure, "holds" if one.holds else "refuted"] for one in shown.hypotheses],
            )
        )
        lines.append("")
    lines += table(
        ReportTable(
            ["control", "caught", "verdict"],
            [[one.name, f"{one.caught}/{one.of}", "caught" if one.holds else "missed"] for one in shown.controls],
        )
    )
    lines.append("")
    for one in shown.sections:
        lines += section(one, plots)
    return lines


def section(shown: Section, plots: Mapping[str, str] | None = None) -> list[str]:
    """The lines of one section."""
    lines = [f"### {plain(shown.title)}", ""]
    if shown.text:
        lines += [plain(shown.text), ""]
    if shown.plot is not None:
        file = (plots or {}).get(shown.plot.title)
        words = plain(shown.plot.title)
        lines += [f"![{words}]({file})" if file else f"Plot in report.html: {words}.", ""]
    if shown.table is not None:
        lines += [*table(shown.table), ""]
    return lines + [line for note in shown.notes for line in (f"- {plain(note)}",)] + ([""] if shown.notes else [])


def _cell(cell: str | Cell) -> str:
    if isinstance(cell, str):
        return plain(cell)
    return f"**{plain(cell.text)}**" if cell.tone == "bad" else plain(cell.text)


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"
