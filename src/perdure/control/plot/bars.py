"""Stacked bars. Each part of a bar has a fill and a pattern of its own, which differ in grey, and a border."""

from __future__ import annotations

import msgspec

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

# Fill, path of the pattern, and its ink. The order alternates dark and light, so that neighbours differ in grey.
LOOKS = (
    ("#1b4f8a", "", ""),
    ("#ffffff", "M0 6L6 0", "#111111"),
    ("#9a9a9a", "", ""),
    ("#ffffff", "M0 3H6", "#111111"),
    ("#5a1f1a", "M0 0L6 6M0 6L6 0", "#ffffff"),
    ("#e6cf8a", "", ""),
    ("#ffffff", "M3 0V6M0 3H6", "#111111"),
    ("#444444", "M0 6L6 0", "#ffffff"),
)
WIDEST = 60  # of a bar
MOST_WORDS = 22  # characters of a name in the legend


class BarSeries(msgspec.Struct, frozen=True):
    """One part of every bar, from the first to the last."""

    name: str
    values: list[float]


class BarPlot(msgspec.Struct, frozen=True):
    """Bars with their labels; each is the sum of its parts."""

    title: str
    x: str
    y: str
    labels: list[str]
    series: list[BarSeries]


def draw(plot: BarPlot, name: str) -> str:
    """The plot as an SVG element. `name` is unique in its page."""
    sums = [sum(one.values[place] for one in plot.series) for place in range(len(plot.labels))]
    up = Scale.over([*sums, 1.0], HEIGHT - BOTTOM, TOP, log=False)
    room = (WIDTH - RIGHT - LEFT) / max(len(plot.labels), 1)
    wide = min(room * 0.8, WIDEST)
    parts = [_patterns(name, len(plot.series)), text(8, 20, plot.title, more=' font-weight="600"')]
    parts += vertical_axis(up, plot.y)
    parts.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12, plot.x, anchor="middle"))
    shown = max(1, -(-len(plot.labels) * 70 // (WIDTH - RIGHT - LEFT)))  # every label that has 70 pixels
    for place, label in enumerate(plot.labels):
        middle, below = LEFT + room * (place + 0.5), 0.0
        if place % shown == 0:
            parts.append(text(middle, HEIGHT - BOTTOM + 18, label, anchor="middle"))
        for number, one in enumerate(plot.series):
            if one.values[place] > 0:
                top = up(below + one.values[place])
                parts += _bar(name, number, middle - wide / 2, top, wide, up(below) - top)
                below += one.values[place]
    parts.append(f'<path d="M{LEFT} {HEIGHT - BOTTOM}H{WIDTH - RIGHT}" stroke="#111111"/>')
    parts += _legend(plot, name)
    sentences = [
        f"{label}: " + ", ".join(f"{one.name} {short(one.values[place])}" for one in plot.series if one.values[place])
        for place, label in enumerate(plot.labels)
    ]
    return frame(name, plot.title, ". ".join(sentences) or "nothing", WIDTH, HEIGHT, parts)


def _legend(plot: BarPlot, name: str) -> list[str]:
    """The looks of the parts with their names, the uppermost part first."""
    parts = []
    for place, number in enumerate(reversed(range(len(plot.series)))):
        y, words = TOP + 22 * place, plot.series[number].name
        words = words if len(words) <= MOST_WORDS else words[: MOST_WORDS - 1] + "…"
        parts += [*_bar(name, number, WIDTH - RIGHT + 12, y, 18, 14), text(WIDTH - RIGHT + 38, y + 12, words)]
    return parts


def _bar(name: str, number: int, x: float, y: float, width: float, height: float) -> list[str]:
    fill, path, _ = LOOKS[number % len(LOOKS)]
    place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    parts = [f'<rect {place} fill="{fill}" stroke="#111111" stroke-width="0.75"/>']
    if path:
        parts.append(f'<rect {place} fill="url(#{name}-look-{number % len(LOOKS)})"/>')
    return parts


def _patterns(name: str, count: int) -> str:
    made = "".join(
        f'<pattern id="{name}-look-{number}" width="6" height="6" patternUnits="userSpaceOnUse">'
        f'<path d="{path}" stroke="{ink}" stroke-width="1"/></pattern>'
        for number, (_, path, ink) in enumerate(LOOKS[:count])
        if path
    )
    return f"<defs>{made}</defs>"
