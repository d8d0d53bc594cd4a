"""Parts of plots: the frame, texts, axes. Nothing here knows what is drawn.

No meaning depends on colour alone, and every plot has a title and a description for screen readers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from html import escape

WIDTH, HEIGHT = 760, 380
LEFT, RIGHT, TOP, BOTTOM = 80, 200, 40, 56


def frame(name: str, title: str, description: str, width: float, height: float, parts: Iterable[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" aria-labelledby="{name}-title {name}-text" '
        'font-family="system-ui, sans-serif" font-size="13">'
    )
    words = f'<title id="{name}-title">{escape(title)}</title><desc id="{name}-text">{escape(description)}</desc>'
    return "".join((head, words, *parts, "</svg>"))


def text(x: float, y: float, words: str, *, anchor: str = "start", ink: str = "#111111", more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{ink}"{more}>{escape(words)}</text>'


def vertical_axis(up: Scale, title: str) -> list[str]:
    """Lines across the plot with their values, and the title of the axis."""
    parts = []
    for value in up.ticks():
        y = up(value)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#dddddd"/>')
        parts.append(text(LEFT - 8, y + 4, short(value), anchor="end"))
    turn = f' transform="rotate(-90 16 {(TOP + HEIGHT - BOTTOM) / 2:.0f})"'
    return [*parts, text(16, (TOP + HEIGHT - BOTTOM) / 2, title, anchor="middle", more=turn)]


class Scale:
    """Maps figures to places, on a linear or a logarithmic axis."""

    def __init__(self, low: float, high: float, begin: float, end: float, *, log: bool) -> None:
        self.low, self.high, self.begin, self.end, self.log = low, high, begin, end, log

    @classmethod
    def over(cls, values: list[float], begin: float, end: float, *, log: bool) -> Scale:
        """An axis on which all these values have a place."""
        usable = [value for value in values if value > 0 or not log] or [1.0]
        low, high = min(usable), max(usable)
        if log:
            low, high = 10 ** math.floor(math.log10(low)), 10 ** math.ceil(math.log10(high))
            return cls(low, high if high > low else low * 10, begin, end, log=True)
        low = min(0.0, low)
        return cls(low, high if high > low else low + 1, begin, end, log=False)

    def __call__(self, value: float) -> float:
        if self.log:
            value = max(value, self.low)
            part = (math.log10(value) - math.log10(self.low)) / (math.log10(self.high) - math.log10(self.low))
        else:
            part = (value - self.low) / (self.high - self.low)
        return self.begin + part * (self.end - self.begin)

    def ticks(self) -> list[float]:
        if self.log:
            first, last = round(math.log10(self.low)), round(math.log10(self.high))
            return [10.0**power for power in range(first, last + 1)]
        step = 10 ** math.floor(math.log10((self.high - self.low) / 4))
        step *= next(factor for factor in (1, 2, 5, 10) if (self.high - self.low) / (step * factor) <= 6)
        first = math.ceil(self.low / step)
        return [step * n for n in range(first, math.floor(self.high / step) + 1)]


def short(value: float) -> str:
    """A figure in few characters: 1500000 is 1.5M."""
    for limit, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:.3g}{suffix}"
    return f"{value:.3g}"
