"""What a report consists of. A plot always stands beside the table with its figures, for readers who do not see it."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Tone(StrEnum):
    """How a cell is marked. Each is also a word and a pattern, so that no meaning depends on colour."""

    PLAIN = ""
    GOOD = "good"
    COST = "cost"  # correct, at the price of a question
    BAD = "bad"
    MISSING = "missing"  # not run


class Cell(msgspec.Struct, frozen=True):
    text: str
    tone: Tone = Tone.PLAIN


class ReportTable(msgspec.Struct, frozen=True):
    """The first cell of each row is its heading."""

    columns: list[str]
    rows: list[list[str | Cell]]


class Matrix(msgspec.Struct, frozen=True):
    """Cells drawn as tiles: their tone is a fill and a pattern, their text stands in them."""

    title: str
    columns: list[str]
    rows: list[str]
    cells: list[list[Cell]]


class Series(msgspec.Struct, frozen=True):
    """A line of a plot; `points` are pairs of x and y. Each line has its own dashes and its own marker."""

    name: str
    points: list[tuple[float, float]]


class LinePlot(msgspec.Struct, frozen=True):
    title: str
    x: str
    y: str
    series: list[Series]
    log_x: bool = False
    log_y: bool = False


class RangeSeries(msgspec.Struct, frozen=True):
    """One system: for each column its low, middle and high value, or None where it has none."""

    name: str
    ranges: list[tuple[float, float, float] | None]


class RangePlot(msgspec.Struct, frozen=True):
    """Ranges side by side in named columns, on a logarithmic axis."""

    title: str
    columns: list[str]
    y: str
    series: list[RangeSeries]


Plot = Matrix | LinePlot | RangePlot


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """A heading, a paragraph, a plot and the table with its figures, and notes below it."""

    title: str
    text: str = ""
    table: ReportTable | None = None
    plot: Plot | None = None
    notes: list[str] = []


class Control(msgspec.Struct, frozen=True):
    """A planted defect that must be found in every trial with it; otherwise the whole run is void."""

    name: str
    caught: int
    of: int

    @property
    def holds(self) -> bool:
        return self.of > 0 and self.caught == self.of


class Hypothesis(msgspec.Struct, frozen=True):
    """What the workload set out to show, the figure, and whether it holds."""

    text: str
    figure: str
    holds: bool


class WorkloadReport(msgspec.Struct, frozen=True, kw_only=True):
    """The report on one workload."""

    title: str
    text: str
    sections: list[Section] = []
    controls: list[Control] = []
    hypotheses: list[Hypothesis] = []
    repeat: list[str] = []  # trials with an error, each with a command that repeats it

    @property
    def is_void(self) -> bool:
        """Whether a control was not caught, so that the run shows nothing."""
        return not self.controls or not all(one.holds for one in self.controls)
