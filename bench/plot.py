"""The plot of docs/performance.md, drawn from bench/results/latest.json (`make bench` does it after each run).

    .venv/bin/python -m bench.plot

A dot for each system and column: its height is the p50 at k = 10 on a logarithmic scale. It is hollow where recall is
below .99, because a fast wrong answer is not to be read as a fast one.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

CHECKOUT = Path(__file__).parents[1]
RESULTS, PLOT = CHECKOUT / "bench" / "results" / "latest.json", CHECKOUT / "docs" / "retrieval.svg"
GATE, K = 0.99, 10
COLOURS = ("#0072b2", "#56b4e9", "#000000", "#d55e00", "#009e73", "#cc79a7")  # Okabe and Ito: told apart by all eyes
LEFT, TOP, BOTTOM, COLUMN_WIDTH, PLOT_HEIGHT, DOT = 56, 56, 28, 70, 300, 4.5


def draw(rows: Sequence[dict[str, Any]], title: str) -> str:
    """An SVG of the p50 of all systems by column."""
    shown = [row for row in rows if row["k"] == K]
    systems = list(dict.fromkeys(row["system"] for row in shown))
    columns = list(dict.fromkeys(row["column"] for row in shown))
    lowest = math.floor(math.log10(min(row["p50_ms"] for row in shown)))
    highest = math.ceil(math.log10(max(row["p50_ms"] for row in shown)))
    width, height = LEFT + COLUMN_WIDTH * len(columns) + 10, TOP + PLOT_HEIGHT + BOTTOM

    def y(ms: float) -> float:
        return TOP + PLOT_HEIGHT * (highest - math.log10(ms)) / (highest - lowest)

    parts = [_text(LEFT, 16, title, size=13)]
    for power in range(lowest, highest + 1):
        level = y(10**power)
        parts.append(f'<line x1="{LEFT}" x2="{width - 10}" y1="{level:.1f}" y2="{level:.1f}" stroke="#ddd"/>')
        parts.append(_text(LEFT - 6, level + 4, f"{10**power:g} ms", anchor="end"))
    for place, column in enumerate(columns):
        parts.append(_text(LEFT + COLUMN_WIDTH * (place + 0.5), height - 10, column, anchor="middle"))
    for number, system in enumerate(systems):
        colour = COLOURS[number % len(COLOURS)]
        parts.append(_dot(LEFT + 8 + 125 * number, 36, colour, filled=True))
        parts.append(_text(LEFT + 17 + 125 * number, 40, system))
        for row in (row for row in shown if row["system"] == system):
            step = COLUMN_WIDTH * (number + 1) / (len(systems) + 1)
            x = LEFT + COLUMN_WIDTH * columns.index(row["column"]) + step
            parts.append(_dot(x, y(row["p50_ms"]), colour, filled=row["recall"] >= GATE))
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif">\n'
        f'<rect width="100%" height="100%" fill="#fff"/>\n{body}\n</svg>\n'
    )


def _text(x: float, y: float, text: str, *, anchor: str = "start", size: int = 11) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">{escape(text)}</text>'


def _dot(x: float, y: float, colour: str, *, filled: bool) -> str:
    fill = colour if filled else "#fff"
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{DOT}" fill="{fill}" stroke="{colour}" stroke-width="1.5"/>'


def write_plot() -> None:
    result = json.loads(RESULTS.read_text())
    facts = result["facts"]
    title = (
        f"{facts['rows']:,} vectors of {facts['dimensions']} dimensions: p50 at k = {K}; hollow: recall below {GATE:g}"
    )
    PLOT.write_text(draw(result["rows"], title))


if __name__ == "__main__":
    write_plot()
