"""Draws charts as SVG texts: grouped columns, and lines over a scale.

The colours can be told apart without seeing red and green.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

COLOURS: Final = ("#0b5394", "#9aa5b1", "#c3a35b", "#7aa6a1", "#b58db6", "#777777")
# Pixels.
COLUMN: Final = 15
GAP: Final = 26
HEIGHT: Final = 240
TOP: Final = 64
LEFT: Final = 40

Group = tuple[str, Mapping[str, float], float | None]  # name, value of each series, and the bar


def grouped_bars(title: str, groups: Sequence[Group]) -> str:
    """Draw shares from 0 to 1: for each group its name, a column for each series, and a line at the bar."""
    series = list(dict.fromkeys(name for _, values, _ in groups for name in values))
    columns = LEFT + sum(len(values) * COLUMN + GAP for _, values, _ in groups) + GAP
    width = max(columns + 2 * GAP, LEFT + sum(30 + 7 * len(name) for name in series) + 2 * GAP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{TOP + HEIGHT + 110}" '
        'font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{LEFT}" y="20" font-size="14">{escape(title)}</text>',
    ]
    parts += _legend(series)
    for tenth in range(0, 11, 2):
        y = _y(tenth / 10)
        parts.append(f'<line x1="{LEFT}" x2="{columns - GAP}" y1="{y}" y2="{y}" stroke="#e3e6ea"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4}" text-anchor="end">{tenth / 10:.1f}</text>')
    x = LEFT + GAP // 2
    for name, values, bar in groups:
        parts += _group(x, name, values, bar, series)
        x += len(values) * COLUMN + GAP
    return "\n".join([*parts, "</svg>", ""])


def _y(share: float) -> float:
    return round(TOP + HEIGHT * (1 - share), 1)


def _legend(series: Sequence[str]) -> list[str]:
    parts, x = [], LEFT
    for index, name in enumerate(series):
        parts.append(f'<rect x="{x}" y="32" width="10" height="10" fill="{COLOURS[index % len(COLOURS)]}"/>')
        parts.append(f'<text x="{x + 14}" y="41">{escape(name)}</text>')
        x += 30 + 7 * len(name)
    return [*parts, f'<text x="{x}" y="41">– bar</text>']


def _group(x: int, name: str, values: Mapping[str, float], bar: float | None, series: Sequence[str]) -> list[str]:
    parts = []
    stop = x + len(values) * COLUMN
    for index, (label, value) in enumerate(values.items()):
        if not math.isnan(value):
            top, colour = _y(value), COLOURS[series.index(label) % len(COLOURS)]
            size = round(TOP + HEIGHT - top, 1)
            parts.append(
                f'<rect x="{x + index * COLUMN}" y="{top}" width="{COLUMN - 2}" height="{size}" fill="{colour}">'
                f"<title>{escape(label)} {value:.3f}</title></rect>"
            )
    if bar is not None:
        y = _y(bar)
        parts.append(f'<line x1="{x - 4}" x2="{stop + 2}" y1="{y}" y2="{y}" stroke="#c0392b" stroke-width="2"/>')
    y = TOP + HEIGHT + 14
    middle = (x + stop) // 2
    return [*parts, f'<text x="{middle}" y="{y}" transform="rotate(35 {middle} {y})">{escape(name)}</text>']


def line_chart(
    title: str, series: Mapping[str, Sequence[tuple[float, float]]], *, x_label: str, lowest: float = 0.0
) -> str:
    """Draw shares from `lowest` to 1 over numbers: for each series its points, in their order."""
    ticks = sorted({x for points in series.values() for x, _ in points})
    width, largest = 520, ticks[-1]

    def at(x: float, y: float) -> tuple[float, float]:
        share = max(0.0, (y - lowest) / (1 - lowest))
        return round(LEFT + 10 + x / largest * (width - LEFT - 60), 1), _y(share)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{TOP + HEIGHT + 60}" '
        'font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{LEFT}" y="20" font-size="14">{escape(title)}</text>',
    ]
    parts += _legend(list(series))[:-1]
    for tenth in range(round(lowest * 10), 11):
        _, y = at(0, tenth / 10)
        parts.append(f'<line x1="{LEFT}" x2="{width - 40}" y1="{y}" y2="{y}" stroke="#e3e6ea"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4}" text-anchor="end">{tenth / 10:.1f}</text>')
    for tick in ticks:
        x, _ = at(tick, 0)
        parts.append(f'<text x="{x}" y="{TOP + HEIGHT + 16}" text-anchor="middle">{tick:,.0f}</text>')
    parts.append(f'<text x="{width // 2}" y="{TOP + HEIGHT + 36}" text-anchor="middle">{escape(x_label)}</text>')
    for number, (name, points) in enumerate(series.items()):
        colour = COLOURS[number % len(COLOURS)]
        drawn = [at(x, y) for x, y in points]
        path = " ".join(f"{x},{y}" for x, y in drawn)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for (x, y), (_, value) in zip(drawn, points, strict=True):
            parts.append(
                f'<circle cx="{x}" cy="{y}" r="3" fill="{colour}"><title>{escape(name)} {value:.3f}</title></circle>'
            )
    return "\n".join([*parts, "</svg>", ""])
