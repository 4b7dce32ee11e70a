"""Small charts as SVG: bars, ranges, timelines, queues and waveforms.

Colours are classes of the page's style sheet, so that they follow its light and dark themes. Every
mark has a title, which a pointer and a screen reader show.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

LABEL_WIDTH, WIDTH, ROW = 190, 900, 20
MAX_LABEL = 26
# Advance of the font in which beats are written.
DIGIT = 5.6


@dataclass(frozen=True)
class Bar:
    """One row of a chart of bars.

    Attributes:
        label: what it is.
        value: its length; None for nothing.
        text: what stands behind it.
        style: a class of the style sheet.
    """

    label: str
    value: float | None
    text: str
    style: str = "bar"


@dataclass(frozen=True)
class Span:
    """Something that a row of a timeline does.

    Attributes:
        start: first cycle.
        end: the cycle behind the last one.
        share: of its cycles in which it is busy, 0 to 1.
        number: of the inference.
        text: what is said of it.
    """

    start: int
    end: int
    share: float
    number: int
    text: str


@dataclass(frozen=True)
class Range:
    """What a tensor holds beside what its format can represent, as powers of two.

    Attributes:
        label: the node.
        step: magnitude of the smallest number of the format.
        top: of the largest.
        largest: largest magnitude that was seen; 0 for none.
        text: what is said of it.
    """

    label: str
    step: float
    top: float
    largest: float
    text: str


@dataclass(frozen=True)
class Beat:
    """A beat of a waveform: the cycle in which it moved, and its bits in hexadecimal."""

    cycle: int
    digits: str


def bars(rows: Sequence[Bar]) -> str:
    """Return horizontal bars from zero to the largest value."""
    most = max((row.value for row in rows if row.value), default=1.0)
    room = WIDTH - LABEL_WIDTH - 110
    lines = []
    for place, row in enumerate(rows):
        y = place * ROW
        lines.append(_label(row.label, y))
        if row.value is not None:
            width = max(1.0, room * row.value / most)
            lines.append(
                f'<rect class="{row.style}" x="{LABEL_WIDTH}" y="{y + 3}" width="{width:.1f}" '
                f'height="{ROW - 6}" rx="2">{_title(f"{row.label}: {row.text}")}</rect>'
            )
        x = LABEL_WIDTH + (room * (row.value or 0.0) / most) + 6
        lines.append(f'<text x="{x:.1f}" y="{y + 14}">{escape(row.text)}</text>')
    return _svg(len(rows) * ROW, lines, "bars")


def ranges(rows: Sequence[Range]) -> str:
    """Return for each tensor what its format covers, and the largest magnitude that was seen."""
    ends = [math.log2(end) for row in rows for end in (row.step, row.top, row.largest) if end > 0]
    if not ends:
        return ""
    low, high = math.floor(min(ends)) - 1, math.ceil(max(ends)) + 1
    room = WIDTH - LABEL_WIDTH - 10

    def place(value: float) -> float:
        return LABEL_WIDTH + room * (math.log2(value) - low) / (high - low)

    lines = list(_axis(low, high, room, len(rows) * ROW))
    for number, row in enumerate(rows):
        y = number * ROW
        left, right = place(row.step), place(row.top)
        lines.append(_label(row.label, y))
        lines.append(
            f'<rect class="cover" x="{left:.1f}" y="{y + 5}" width="{right - left:.1f}" '
            f'height="{ROW - 10}" rx="2">{_title(row.text)}</rect>'
        )
        if row.largest > 0:
            style = "clip" if row.largest > row.top else "seen"
            lines.append(
                f'<rect class="{style}" x="{place(row.largest) - 1.5:.1f}" y="{y + 2}" width="3" '
                f'height="{ROW - 4}">{_title(row.text)}</rect>'
            )
    return _svg(len(rows) * ROW + 22, lines, "ranges")


def _axis(low: int, high: int, room: float, height: float) -> Iterator[str]:
    step = max(1, math.ceil((high - low) / 12))
    for power in range(low, high + 1, step):
        x = LABEL_WIDTH + room * (power - low) / (high - low)
        yield f'<path class="grid" d="M{x:.1f} 0V{height}"/>'
        yield _tick(x, height, f"2^{power}")


def timeline(rows: Sequence[tuple[str, Sequence[Span]]], cycles: int) -> str:
    """Return when each row is busy; the lighter a span, the more it waits."""
    room = WIDTH - LABEL_WIDTH - 10
    height = len(rows) * ROW
    lines = []
    for place in range(6):
        cycle = round(cycles * place / 5)
        x = LABEL_WIDTH + room * place / 5
        lines.append(f'<path class="grid" d="M{x:.1f} 0V{height}"/>')
        lines.append(_tick(x, height, f"{cycle:,}"))
    for place, (label, spans) in enumerate(rows):
        y = place * ROW
        lines.append(_label(label, y))
        for span in spans:
            left = LABEL_WIDTH + room * span.start / cycles
            width = max(1.0, room * (span.end - span.start) / cycles)
            lines.append(
                f'<rect class="turn{span.number % 3}" x="{left:.1f}" y="{y + 3}" '
                f'width="{width:.1f}" height="{ROW - 6}" opacity="{0.2 + 0.8 * span.share:.2f}">'
                f"{_title(span.text)}</rect>"
            )
    return _svg(height + 22, lines, "timeline")


def line(values: Sequence[int], most: int, text: str) -> str:
    """Return a curve of a count over time, below a line at `most`."""
    width, height = 300, 28
    top = max(most, max(values, default=0), 1)
    step, scale = width / max(1, len(values) - 1), (height - 6) / top
    points = " ".join(
        f"{step * place:.1f},{height - 2 - scale * value:.1f}" for place, value in enumerate(values)
    )
    limit = height - 2 - scale * most
    return (
        f'<svg class="chart small" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img" aria-label="{escape(text)}">{_title(text)}'
        f'<path class="limit" d="M0 {limit:.1f}H{width}"/>'
        f'<polyline class="level" points="{points}"/></svg>'
    )


def waveform(rows: Sequence[tuple[str, Sequence[Beat]]], start: int, cycles: int) -> str:
    """Return the beats of ports from a cycle on, one box a cycle in which one moved."""
    room = WIDTH - LABEL_WIDTH - 10
    step = room / cycles
    height = len(rows) * (ROW + 8)
    lines = []
    for cycle in range(0, cycles + 1, max(1, cycles // 8)):
        x = LABEL_WIDTH + step * cycle
        lines.append(f'<path class="grid" d="M{x:.1f} 0V{height}"/>')
        lines.append(_tick(x, height, f"{start + cycle:,}"))
    for place, (label, beats) in enumerate(rows):
        y = place * (ROW + 8)
        lines.append(_label(label, y + 2))
        lines.append(f'<path class="idle" d="M{LABEL_WIDTH} {y + 22}H{LABEL_WIDTH + room:.1f}"/>')
        for beat in beats:
            x = LABEL_WIDTH + step * (beat.cycle - start)
            title = _title(f"{label}, cycle {beat.cycle}: {beat.digits}")
            lines.append(
                f'<rect class="beat" x="{x:.1f}" y="{y + 4}" width="{max(1.0, step - 1):.1f}" '
                f'height="{ROW - 2}">{title}</rect>'
            )
            most = int(step / DIGIT) - 1
            cut = len(beat.digits) > most
            digits = beat.digits[: most - 1] + "\u2026" if cut else beat.digits
            lines.append(
                f'<text class="digits" x="{x + step / 2:.1f}" y="{y + 16}">{digits}</text>'
            )
    return _svg(height + 22, lines, "waveform")


def _label(text: str, y: float) -> str:
    shown = text if len(text) <= MAX_LABEL else text[: MAX_LABEL - 1] + "\u2026"
    title = _title(text)
    x = LABEL_WIDTH - 8
    return f'<text class="label" x="{x}" y="{y + 14}">{escape(shown)}{title}</text>'


def _tick(x: float, height: float, text: str) -> str:
    """Text under an axis; the last one ends where the chart does."""
    style = "tick last" if x > WIDTH - 30 else "tick"
    return f'<text class="{style}" x="{x:.1f}" y="{height + 15}">{text}</text>'


def _title(text: str) -> str:
    return f"<title>{escape(text)}</title>"


def _svg(height: float, lines: Iterable[str], kind: str) -> str:
    return (
        f'<svg class="chart" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{kind}">'
        f"{''.join(lines)}</svg>"
    )
