"""Plots as SVG, written by hand: readable in grey, and with a title and a description for screen readers.

No meaning depends on colour alone: tiles carry their text and a pattern, lines their own dashes and markers.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from perdure.control.plot.frame import (
    BOTTOM,
    HEIGHT,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    Scale,
    frame,
    short,
    text,
    vertical_axis,
)
from perdure.evaluation.report.model import Cell, LinePlot, Matrix, Plot, RangePlot, Tone

# Fill and pattern of each tone. The fills differ in lightness, so that they differ in grey.
FILLS = {
    Tone.PLAIN: "#ffffff",
    Tone.GOOD: "#e3f1e5",
    Tone.COST: "#e6cf8a",
    Tone.BAD: "#b5443c",
    Tone.MISSING: "#f2f2f2",
}
PATTERNS = {Tone.COST: "M0 6L6 0", Tone.BAD: "M0 0L6 6M0 6L6 0"}
INKS = {Tone.BAD: "#ffffff"}
COLOURS = ("#1b4f8a", "#b5443c", "#2f7d4f", "#7b4fa0", "#8a6d1b", "#444444", "#0f8390", "#c2569b")
DASHES = ("", "7 3", "2 3", "10 3 2 3", "5 5", "1 4", "12 4", "4 2 1 2")
MARKERS = ("circle", "square", "triangle", "diamond")


def draw(plot: Plot, name: str) -> str:
    """A plot as an SVG element. `name` is unique in its page."""
    if isinstance(plot, Matrix):
        return _matrix(plot, name)
    return _lines(plot, name) if isinstance(plot, LinePlot) else _ranges(plot, name)


def _matrix(plot: Matrix, name: str) -> str:
    left = 16 + 7.3 * max(len(row) for row in plot.rows)
    tile = max(96.0, 16 + 7.3 * max(len(words) for words in _words(plot)))
    width, top, height = left + tile * len(plot.columns) + 8, 64, 30
    parts = [_patterns(name), text(8, 20, plot.title, more=' font-weight="600"')]
    parts += [text(left + tile * (n + 0.5), top - 10, one, anchor="middle") for n, one in enumerate(plot.columns)]
    for number, (row, cells) in enumerate(zip(plot.rows, plot.cells, strict=True)):
        y = top + number * height
        parts.append(text(left - 8, y + 20, row, anchor="end"))
        for place, wide, cell in _joined(cells):
            parts += _tile(name, left + place * tile, y, tile * wide, height, cell.text, cell.tone)
    sentences = [
        f"{row}: " + ", ".join(f"{column} {cell.text}" for column, cell in zip(plot.columns, cells, strict=True))
        for row, cells in zip(plot.rows, plot.cells, strict=True)
    ]
    total = top + height * len(plot.rows) + 8
    return frame(name, plot.title, ". ".join(sentences), width, total, parts)


def _joined(cells: list[Cell]) -> Iterator[tuple[int, int, Cell]]:
    """Place and width of each tile: neighbours in which nothing was run are one tile."""
    place = 0
    for (text_of, tone), group in groupby(cells, key=lambda one: (one.text, one.tone)):
        number = len([*group])
        if tone is Tone.MISSING:
            yield place, number, Cell(text_of, tone)
        else:
            yield from ((place + n, 1, Cell(text_of, tone)) for n in range(number))
        place += number


def _words(plot: Matrix) -> list[str]:
    return [*plot.columns, *(cell.text for row in plot.cells for cell in row)]


def _patterns(name: str) -> str:
    made = "".join(
        f'<pattern id="{name}-{tone}" width="6" height="6" patternUnits="userSpaceOnUse">'
        f'<path d="{path}" stroke="#000000" stroke-opacity="0.22" stroke-width="1"/></pattern>'
        for tone, path in PATTERNS.items()
    )
    return f"<defs>{made}</defs>"


def _tile(name: str, x: float, y: float, width: float, height: float, words: str, tone: Tone) -> list[str]:
    place = f'x="{x + 1:.1f}" y="{y + 1:.1f}" width="{width - 2:.1f}" height="{height - 2:.1f}"'
    parts = [f'<rect {place} fill="{FILLS[tone]}" stroke="#767676"/>']
    if tone in PATTERNS:
        parts.append(f'<rect {place} fill="url(#{name}-{tone})"/>')
    weight = ' font-weight="600"' if tone is Tone.BAD else ""
    ink = INKS.get(tone, "#111111")
    return [*parts, text(x + width / 2, y + height / 2 + 5, words, anchor="middle", ink=ink, more=weight)]


def _lines(plot: LinePlot, name: str) -> str:
    points = [point for series in plot.series for point in series.points]
    width = WIDTH - RIGHT + max([RIGHT, *(58 + 7.3 * len(series.name) for series in plot.series)])
    across = Scale.over([x for x, _ in points], LEFT, WIDTH - RIGHT, log=plot.log_x)
    up = Scale.over([y for _, y in points], HEIGHT - BOTTOM, TOP, log=plot.log_y)
    parts = [text(8, 20, plot.title, more=' font-weight="600"')]
    for value in across.ticks():
        x = across(value)
        parts.append(f'<path d="M{x:.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#dddddd"/>')
        parts.append(text(x, HEIGHT - BOTTOM + 18, short(value), anchor="middle"))
    parts += vertical_axis(up, plot.y)
    parts.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12, plot.x, anchor="middle"))
    for number, series in enumerate(plot.series):
        places = [(across(x), up(y)) for x, y in sorted(series.points)]
        parts += _line(number, places, series.name)
    sentences = [
        f"{series.name}: " + ", ".join(f"{short(x)} {plot.x}, {short(y)} {plot.y}" for x, y in sorted(series.points))
        for series in plot.series
    ]
    return frame(name, plot.title, ". ".join(sentences), width, HEIGHT, parts)


def _ranges(plot: RangePlot, name: str) -> str:
    width = WIDTH - RIGHT + max([RIGHT, *(58 + 7.3 * len(series.name) for series in plot.series)])
    values = [value for series in plot.series for one in series.ranges if one for value in one]
    up = Scale.over(values, HEIGHT - BOTTOM, TOP, log=True)
    column = (WIDTH - RIGHT - LEFT) / max(1, len(plot.columns))
    parts = [text(8, 20, plot.title, more=' font-weight="600"'), *vertical_axis(up, plot.y)]
    parts += [
        text(LEFT + column * (place + 0.5), HEIGHT - BOTTOM + 18, one, anchor="middle")
        for place, one in enumerate(plot.columns)
    ]
    for number, series in enumerate(plot.series):
        colour, legend = COLOURS[number % len(COLOURS)], TOP + 10 + 22 * number
        for place, one in enumerate(series.ranges):
            if one is not None:
                x = LEFT + column * (place + (number + 1) / (len(plot.series) + 1))
                parts.append(
                    f'<path d="M{x:.1f} {up(one[0]):.1f}V{up(one[2]):.1f}" stroke="{colour}" stroke-width="2"/>'
                )
                parts.append(_marker(number, x, up(one[1]), colour))
        parts += [
            _marker(number, WIDTH - RIGHT + 27, legend, colour),
            text(WIDTH - RIGHT + 50, legend + 4, series.name),
        ]
    sentences = [
        f"{series.name}: " + ", ".join(f"{column} {short(one[1])} {plot.y}" for column, one in pairs if one)
        for series in plot.series
        for pairs in [list(zip(plot.columns, series.ranges, strict=True))]
    ]
    return frame(name, plot.title, ". ".join(sentences), width, HEIGHT, parts)


def _line(number: int, places: list[tuple[float, float]], name: str) -> list[str]:
    colour, dashes = COLOURS[number % len(COLOURS)], DASHES[number % len(DASHES)]
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places) if places else "M0 0"
    legend = TOP + 10 + 22 * number
    style = f'fill="none" stroke="{colour}" stroke-width="2"{dashed}'
    return [
        f'<path d="{path}" {style}/>',
        *(_marker(number, x, y, colour) for x, y in places),
        f'<path d="M{WIDTH - RIGHT + 10} {legend}h34" {style}/>',
        _marker(number, WIDTH - RIGHT + 27, legend, colour),
        text(WIDTH - RIGHT + 50, legend + 4, name),
    ]


def _marker(number: int, x: float, y: float, colour: str) -> str:
    match MARKERS[number % len(MARKERS)]:
        case "circle":
            return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>'
        case "square":
            return f'<rect x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8" fill="{colour}"/>'
        case "triangle":
            return f'<path d="M{x:.1f} {y - 5:.1f}l5 9h-10z" fill="{colour}"/>'
    return f'<path d="M{x:.1f} {y - 5:.1f}l5 5l-5 5l-5 -5z" fill="{colour}"/>'
