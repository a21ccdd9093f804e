"""Drawings as plain SVG: the same bytes for the same figures, and readable on light and on dark pages."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH = 760
LEFT = 150
"""Where the axis begins; names stand before it."""
RIGHT = 70
"""Room for the figure behind the longest bar."""
BAR = 14
GAP = 10
TOP = 64
LETTER = 6.5
"""How wide one is, about."""

_STYLE = """
text { font: 12px system-ui, sans-serif; fill: #3d3d3a }
.title { font-size: 15px; font-weight: 600; fill: #1a1a19 }
.value { font-size: 11px }
.grid { stroke: #d9d8d4; stroke-width: 1 }
.theirs { fill: #8f8d86; stroke: #8f8d86 }
.ours { fill: #2a78d6; stroke: #2a78d6 }
@media (prefers-color-scheme: dark) {
  text { fill: #c9c8c2 }
  .title { fill: #f0efec }
  .grid { stroke: #3a3a38 }
  .theirs { fill: #8a8880; stroke: #8a8880 }
  .ours { fill: #4b96ec; stroke: #4b96ec }
}
"""


@dataclass(frozen=True, slots=True)
class Row:
    """One name with its figures.

    Args:
        theirs, ours: one figure makes a bar; several, in order, a line with dots. None: there is none.
    """

    name: str
    theirs: tuple[float, ...] | None
    ours: tuple[float, ...] | None


def drawing(title: str, unit: str, rows: Sequence[Row], *, note: str = "") -> str:
    """Rows on one logarithmic axis, for peers are hundreds of times apart.

    Args:
        note: a line below the title: what bars or dots are.

    Raises:
        ValueError: a figure is not above 0, or there is none at all.
    """
    scale = _Scale.over([value for row in rows for values in (row.theirs, row.ours) for value in values or ()])
    step = 2 * BAR + GAP
    bottom = TOP + step * len(rows)
    parts = [_text(0, 16, title, "title"), *_legend(note), *_grid(scale, bottom, unit)]
    for place, row in enumerate(rows):
        y = TOP + place * step
        parts.append(_text(LEFT - 8, y + BAR + 4, row.name, anchor="end"))
        for offset, values, kind in ((0, row.theirs, "theirs"), (BAR, row.ours, "ours")):
            if values:
                parts += _mark(scale, y + offset, values, kind)
    height = bottom + 34
    box = f'viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {box}>'
    return "\n".join([head, f"<style>{_STYLE}</style>", *parts, "</svg>", ""])


def shown(value: float) -> str:
    """Three digits that count, and thousands apart."""
    if value >= 1000:
        digits = 10 ** (math.floor(math.log10(value)) - 2)
        return f"{round(value / digits) * digits:,}".replace(",", " ")
    return f"{value:.3g}"


@dataclass(frozen=True, slots=True)
class _Scale:
    """A logarithmic axis between two powers of ten."""

    low: int
    high: int

    @classmethod
    def over(cls, values: Sequence[float]) -> _Scale:
        """The least axis that has all of these."""
        if not values or min(values) <= 0:
            raise ValueError(f"a logarithmic axis needs figures above 0, not {list(values)}")
        low = math.floor(math.log10(min(values) / 1.5))  # so that the least bar can be seen
        return cls(low, max(low + 1, math.ceil(math.log10(max(values)))))

    def x(self, value: float) -> float:
        """Where a figure stands."""
        share = (math.log10(value) - self.low) / (self.high - self.low)
        return round(LEFT + share * (WIDTH - LEFT - RIGHT), 1)


def _mark(scale: _Scale, y: float, values: tuple[float, ...], kind: str) -> list[str]:
    middle, end = y + BAR / 2, scale.x(values[-1])
    label = _label(" / ".join(map(shown, values)), scale.x(values[0]), end, middle + 4)
    if len(values) == 1:
        width = round(max(end - LEFT, 1), 1)
        return [f'<rect class="{kind}" x="{LEFT}" y="{y + 1}" width="{width}" height="{BAR - 2}" rx="2"/>', label]
    line = f'<line class="{kind}" x1="{scale.x(values[0])}" x2="{end}" y1="{middle}" y2="{middle}" stroke-width="2"/>'
    dots = [f'<circle class="{kind}" cx="{scale.x(value)}" cy="{middle}" r="4"/>' for value in values]
    return [line, *dots, label]


def _label(words: str, begin: float, end: float, y: float) -> str:
    """Behind the mark, or before it where there is no room behind."""
    if end + 6 + LETTER * len(words) > WIDTH:
        return _text(begin - 8, y, words, "value", anchor="end")
    return _text(end + 6, y, words, "value")


def _grid(scale: _Scale, bottom: float, unit: str) -> list[str]:
    parts: list[str] = []
    for power in range(scale.low, scale.high + 1):
        x = scale.x(10.0**power)
        parts.append(f'<line class="grid" x1="{x}" x2="{x}" y1="{TOP - 4}" y2="{bottom}"/>')
        parts.append(_text(x, bottom + 16, shown(10.0**power), "value", anchor="middle"))
    return [*parts, _text(WIDTH, bottom + 16, unit, "value", anchor="end")]


def _legend(note: str) -> list[str]:
    return [
        '<rect class="theirs" x="0" y="28" width="12" height="12" rx="2"/>',
        _text(18, 38, "the peer"),
        '<rect class="ours" x="90" y="28" width="12" height="12" rx="2"/>',
        _text(108, 38, "redisjobs, right beside it"),
        _text(WIDTH, 38, note, "value", anchor="end"),
    ]


def _text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    name = f' class="{kind}"' if kind else ""
    return f'<text{name} x="{x}" y="{y}" text-anchor="{anchor}">{escape(words)}</text>'
