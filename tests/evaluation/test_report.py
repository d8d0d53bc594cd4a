"""The report is escaped, contains nothing from elsewhere, and has a table beside each plot."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

from perdure.control.plot.frame import Scale
from perdure.evaluation.report import svg
from perdure.evaluation.report.markdown import report as markdown
from perdure.evaluation.report.model import Cell, LinePlot, Matrix, ReportTable, Section, Series, Tone, WorkloadReport
from perdure.evaluation.report.page import page, summary
from perdure.evaluation.workload import Result, Trial
from tests.evaluation.toy import ToyWorkload

HOSTILE = "<script>alert('1')</script> | `x` [a](javascript:b)"


def result(trial: str) -> Result:
    made = Result.of(Trial(id=trial, system="toy"))
    return Result(trial=made.trial, system=made.system, verdicts={"good": int(trial != "control")})


def hostile() -> WorkloadReport:
    table = ReportTable([HOSTILE], [[HOSTILE], [Cell(HOSTILE, Tone.BAD)]])
    plots = (
        Matrix(HOSTILE, [HOSTILE], [HOSTILE], [[Cell(HOSTILE, Tone.COST)]]),
        LinePlot(HOSTILE, HOSTILE, HOSTILE, [Series(HOSTILE, [(1, 1)])]),
    )
    return WorkloadReport(
        title=HOSTILE,
        text=HOSTILE,
        sections=[Section(title=HOSTILE, text=HOSTILE, table=table, plot=plot, notes=[HOSTILE]) for plot in plots],
    )


def test_page_escapes_everything_and_loads_nothing() -> None:
    made = page(HOSTILE, ReportTable([HOSTILE], [[HOSTILE]]), [HOSTILE], [hostile()])
    assert "<script" not in made
    assert "default-src &#x27;none&#x27;" in made
    assert re.findall(r"(?:src|href)=", made) == []


def test_markdown_escapes_everything() -> None:
    made = "\n".join(markdown(hostile()))
    assert "<script" not in made
    assert not re.search(r"(?<!\\)\]\(javascript", made)
    rows = [line for line in made.splitlines() if line.startswith("| ")]
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 2 for row in rows if "alert" in row)


def test_every_plot_has_a_description_with_its_figures() -> None:
    for section in ToyWorkload().summarise([result("t0"), result("control")]).sections:
        assert section.plot is not None
        assert section.table is not None
        root = ElementTree.fromstring(svg.draw(section.plot, "plot"))
        assert root.get("role") == "img"
        names = str(root.get("aria-labelledby")).split()
        texts = {one.get("id"): one.text for one in root if one.get("id")}
        assert texts[names[0]] == section.plot.title
        assert len(str(texts[names[1]])) > 10


def test_tones_and_lines_differ_without_colour() -> None:
    light = {tone: sum(int(fill[n : n + 2], 16) for n in (1, 3, 5)) for tone, fill in svg.FILLS.items()}
    assert light[Tone.GOOD] > light[Tone.COST] + 60 > light[Tone.BAD] + 120
    assert {Tone.COST, Tone.BAD} <= svg.PATTERNS.keys()
    assert len(set(svg.DASHES)) == len(svg.DASHES) == len(svg.COLOURS)


def test_logarithmic_axis_keeps_every_point_inside() -> None:
    scale = Scale.over([3, 99_000], 80, 560, log=True)
    assert scale.ticks() == [1, 10, 100, 1000, 10_000, 100_000]
    assert 80 <= scale(3) < scale(99_000) <= 560


def test_summary_says_what_holds_and_which_controls_were_caught() -> None:
    made = ToyWorkload().summarise([result("t0"), result("control")])
    table = summary([made, hostile()])
    assert table is not None
    [row] = table.rows
    assert [getattr(cell, "text", cell) for cell in row[1:]] == ["1 of 1 hold", "1 of 1 caught", "counts", "none"]
    shown = page("t", ReportTable([], []), [], [made])
    assert 'href="#workload-0"' in shown
    assert 'id="workload-0"' in shown


def test_names_of_lines_are_inside_their_plot() -> None:
    long = "perdure/postgres/questions/synced"
    plot = LinePlot(title="t", x="x", y="y", series=[Series(long, [(1, 1), (2, 2)])])
    root = ElementTree.fromstring(svg.draw(plot, "plot"))
    [place] = [float(one.get("x", 0)) for one in root.iter() if one.text == long and one.tag.endswith("text")]
    assert place + 7 * len(long) < float(str(root.get("width")))


def test_report_without_controls_is_void() -> None:
    assert WorkloadReport(title="t", text="").is_void


def test_toy_verifier_is_a_script_alone(folder: Path) -> None:
    assert "perdure" not in (Path(__file__).parent / "toy.py").read_text().split("VERIFIER = ")[1].split("def ")[0]
