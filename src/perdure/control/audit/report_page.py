"""A report as one HTML file: no scripts, nothing from elsewhere, readable in grey and on paper.

Everything in it comes from a store that may be hostile: texts are escaped, invisible characters are shown, and the
policy of the page allows no script.
"""

from __future__ import annotations

from html import escape

from perdure.clock import format_time
from perdure.control.audit.report import AuditReport, AuditSection, AuditTable
from perdure.control.plot import bars
from perdure.control.plot.bars import BarPlot, BarSeries
from perdure.domain.text import visible

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 80rem; margin: 2rem auto; padding: 0 1rem; color: #111; }
h1, h2 { line-height: 1.2; }
h2 { margin-top: 2.5rem; }
table { border-collapse: collapse; margin: 1rem 0; }
th, td { border: 1px solid #767676; padding: .2rem .5rem; text-align: left; vertical-align: top;
  overflow-wrap: anywhere; }
thead th { background: #eee; overflow-wrap: normal; }
.beside { display: grid; grid-template-columns: minmax(18rem, 1fr) fit-content(60%); gap: 1.5rem; align-items: start; }
.beside table { margin-top: 0; font-size: 12.5px; }
.beside td { overflow-wrap: normal; }
@media screen and (max-width: 56rem) { .beside { display: block; } }
.scroll { overflow-x: auto; }
.wide table { font-size: 13px; }
figure { margin: 0; overflow-x: auto; }
svg { max-width: 100%; height: auto; }
p.note { color: #444; }
@media print {
  @page { size: landscape; margin: 12mm; }
  body { margin: 0; max-width: none; font-size: 10pt; }
  figure, tr { break-inside: avoid; }
  h2 { break-after: avoid; }
  thead { display: table-header-group; }
  .wide table { font-size: 7.5pt; }
}
"""
POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def page(report: AuditReport) -> str:
    """The whole page."""
    since = format_time(report.since) if report.since else "the beginning"
    title = f"Audit report: {since} to {format_time(report.until)}"
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f'<meta http-equiv="Content-Security-Policy" content="{escape(POLICY)}">',
        f"<title>{_safe(title)}</title><style>{STYLE}</style></head><body><main>",
        f"<h1>{_safe(title)}</h1>",
        f"<p>Store {_safe(report.store)}. Made on {format_time(report.made_at)}. Times are in UTC.</p>",
        *(part for number, one in enumerate(report.sections) for part in _section(one, f"plot-{number}")),
    ]
    return "\n".join([*parts, "</main></body></html>\n"])


def _section(section: AuditSection, name: str) -> list[str]:
    parts = [f"<section><h2>{_safe(section.title)}</h2>", f"<p>{_safe(section.text)}</p>"]
    if section.plot is not None:
        figure = bars.draw(_safe_plot(section.plot), name)
        parts.append(
            f'<div class="beside"><figure>{figure}</figure><div class="scroll">{_table(section.table)}</div></div>'
        )
    elif section.table.rows:
        parts.append(f'<div class="scroll wide">{_table(section.table)}</div>')
    else:
        parts.append('<p class="note">Nothing is on record.</p>')
    if section.table.more:
        parts.append('<p class="note">There are more; <code>perdure audit</code> lists all.</p>')
    return [*parts, "</section>"]


def _table(table: AuditTable) -> str:
    head = "".join(f'<th scope="col">{_safe(one)}</th>' for one in table.columns)
    rows = "".join("<tr>" + "".join(f"<td>{_safe(cell)}</td>" for cell in row) + "</tr>" for row in table.rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _safe_plot(plot: BarPlot) -> BarPlot:
    """The plot with names that show what is invisible; drawing escapes them."""
    series = [BarSeries(visible(one.name), one.values) for one in plot.series]
    return BarPlot(plot.title, plot.x, plot.y, list(map(visible, plot.labels)), series)


def _safe(text: str) -> str:
    return escape(visible(text))
