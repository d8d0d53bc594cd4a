"""The report as one HTML file without scripts and without anything from elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from perdure.evaluation.report import svg
from perdure.evaluation.report.model import Cell, ReportTable, Section, Tone, WorkloadReport

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 68rem; margin: 2rem auto; padding: 0 1rem; color: #111; }
h1, h2, h3 { line-height: 1.2; }
table { border-collapse: collapse; margin: 1rem 0; }
th, td { border: 1px solid #767676; padding: .25rem .6rem; text-align: left; vertical-align: top; }
thead th { background: #eee; }
td.bad { background: #b5443c; color: #fff; font-weight: 600; }
td.cost { background: #e6cf8a; }
td.good { background: #e3f1e5; }
td.missing { color: #555; font-style: italic; }
.void { border: 4px solid #b5443c; padding: .5rem 1rem; font-weight: 600; }
figure { margin: 1rem 0; overflow-x: auto; }
"""
POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def page(
    title: str, intro: ReportTable, warnings: list[str], reports: list[WorkloadReport], appendix: Sequence[Section] = ()
) -> str:
    """The whole page. `intro` is about the run: machine, versions, seed, command. So is the appendix, in detail."""
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f'<meta http-equiv="Content-Security-Policy" content="{escape(POLICY)}">',
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body><main>",
        f"<h1>{escape(title)}</h1>",
        *(f'<p class="void" role="alert">{escape(one)}</p>' for one in warnings),
        _table(intro),
    ]
    if glance := summary(reports):
        parts += ["<h2>At a glance</h2>", _table(glance)]
        links = "".join(f'<li><a href="#workload-{n}">{escape(one.title)}</a></li>' for n, one in enumerate(reports))
        parts.append(f'<nav aria-label="Workloads"><ul>{links}</ul></nav>')
    for number, one in enumerate(reports):
        parts += _report(one, f"plot-{number}")
    if appendix:
        parts.append("<h2>About the run</h2>")
    for number, shown in enumerate(appendix):
        parts += _section(shown, f"about-{number}")
    return "\n".join([*parts, "</main></body></html>\n"])


def summary(reports: list[WorkloadReport]) -> ReportTable | None:
    """What each workload showed, in a line; none if there is nothing to sum up."""
    rows: list[list[str | Cell]] = []
    for one in reports:
        if not one.controls:
            continue
        held = sum(claim.holds for claim in one.hypotheses)
        caught = sum(control.holds for control in one.controls)
        claims = Cell(f"{held} of {len(one.hypotheses)} hold", Tone.GOOD if held == len(one.hypotheses) else Tone.BAD)
        controls = Cell(f"{caught} of {len(one.controls)} caught", Tone.BAD if one.is_void else Tone.GOOD)
        broken = "; ".join(claim.text for claim in one.hypotheses if not claim.holds)
        rows.append([one.title, claims, controls, "void" if one.is_void else "counts", broken or "none"])
    columns = ["workload", "claims about Perdure", "controls", "this run", "refuted"]
    return ReportTable(columns, rows) if rows else None


def _report(report: WorkloadReport, name: str) -> list[str]:
    parts = [f'<h2 id="workload-{name.partition("-")[2]}">{escape(report.title)}</h2>', f"<p>{escape(report.text)}</p>"]
    if report.hypotheses:
        rows: list[list[str | Cell]] = [
            [one.text, one.figure, "holds" if one.holds else "refuted"] for one in report.hypotheses
        ]
        parts += ["<h3>Claims</h3>", _table(ReportTable(["claim", "figure", "verdict"], rows))]
    controls: list[list[str | Cell]] = [
        [one.name, f"{one.caught}/{one.of}", "caught" if one.holds else "missed"] for one in report.controls
    ]
    if controls:
        parts += ["<h3>Controls</h3>", _table(ReportTable(["control", "caught", "verdict"], controls))]
    for number, section in enumerate(report.sections):
        parts += _section(section, f"{name}-{number}")
    return parts


def _section(section: Section, name: str) -> list[str]:
    parts = [f"<h3>{escape(section.title)}</h3>"]
    if section.text:
        parts.append(f"<p>{escape(section.text)}</p>")
    if section.plot is not None:
        parts.append(f"<figure>{svg.draw(section.plot, name)}</figure>")
    if section.table is not None:
        parts.append(_table(section.table))
    if section.notes:
        parts.append("<ul>" + "".join(f"<li>{escape(one)}</li>" for one in section.notes) + "</ul>")
    return parts


def _table(table: ReportTable) -> str:
    head = "".join(f'<th scope="col">{escape(one)}</th>' for one in table.columns)
    rows = "".join(f"<tr>{_row(row)}</tr>" for row in table.rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _row(row: list[str | Cell]) -> str:
    cells = [one if isinstance(one, Cell) else Cell(one) for one in row]
    first = f'<th scope="row">{escape(cells[0].text)}</th>'
    rest = (f'<td class="{one.tone}">{escape(one.text)}</td>' if one.tone else f"<td>{escape(one.text)}</td>"
            for one in cells[1:])  # fmt: skip
    return first + "".join(rest)
