"""The figures of the pages that follow from the sources: `python -m tests.figures` draws them anew.

`flow.svg` shows the first page's model as a graph, an instance of its `top.sv`, beats on a port of
the simulated design, and the verdict; `architecture.svg` shows the floors of
`tests/_architecture.py`, and what goes from one to another.
"""

import re
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

import torch

import mase_hw
from mase_hw.sim import SimulationReport
from tests._architecture import LAYERS
from tests._readme import ROOT, block

FOLDER = ROOT / "mase_hw" / "figures"
LINE, CHARACTER = 18, 7.3
STYLE = (
    "text{font:12px monospace;fill:#222}.b{font-weight:bold}.c{font-size:10.5px;white-space:pre}"
    ".s{fill:#4472a8}.m{text-anchor:middle}rect{fill:#eef3fa;stroke:#4472a8}"
    "polyline{fill:none;stroke:#4472a8;stroke-width:1.5}"
)
ARROW = (
    '<marker id="a" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" '
    'orient="auto"><path d="M0 0L8 4L0 8z" fill="#4472a8"/></marker>'
)
# The instance of `top.sv` and the first cycle of the waveform that the first figure shows.
SHOWN, FIRST_CYCLE, CYCLES, CYCLE = "relu_1", 4, 13, 36
# What goes from a floor to another one: objects, by the packages that make and take them.
FLOWS = (
    ("formats", "cells", "Format"),
    ("cells", "ops", "Netlist of cells"),
    ("ops", "graph", "Operator, Call"),
    ("importers", "graph", "torch.nn.Module"),
    ("graph", "passes", "MaseGraph"),
    ("timing", "passes", "queue depths, latency"),
    ("passes", "emit", "MaseGraph with formats"),
    ("hardware", "emit", "parallelism, resources"),
    ("emit", "sim", "Project: top.sv, memories"),
    ("sim", "api", "SimulationReport"),
)


def main() -> None:
    """Write every figure."""
    FOLDER.mkdir(exist_ok=True)
    for name, draw in FIGURES.items():
        (FOLDER / name).write_text(draw())


def flow() -> str:
    """Draw the first page's model: its graph, an instance, beats of its input, the verdict."""
    space: dict[str, object] = {}
    exec(block(".", "python", "# net.py"), space)
    model, inputs = space["factory"]()  # type: ignore[operator]
    with tempfile.TemporaryDirectory() as folder:
        project = mase_hw.emit_verilog(model, *inputs, output=Path(folder) / "net")
        report = mase_hw.simulate(project, torch.randn(100, 16), stall=0.25, waves=True)
        assert report.waveform is not None
        wave = report.waveform.read_text()
        top = (Path(folder) / "net" / "top.sv").read_text()
    (port,) = project.design.inputs
    nodes = [node.node for node in project.design.nodes if node.module]
    formats = [project.mg.call(project.mg.node(name)).result.format for name in nodes]
    parts, left, width = ['<text class="b" x="8" y="18">graph, formats</text>'], 8.0, 120.0
    steps = [(port.name, port.spec.format), *zip(nodes, formats, strict=True)]
    for place, (name, number) in enumerate(steps):
        y = 30 + 74 * place
        parts += [box(left, y, width, 26, name), arrow(left + 60, y + 26, left + 60, y + 74)]
        parts.append(
            f'<text class="s c" x="{left + 68:g}" y="{y + 54:g}">{escape(str(number))}</text>'
        )
    bottom = 30 + 74 * len(steps)
    parts.append(box(left, bottom, width, 26, project.design.outputs[0].name))
    code = instance(top, SHOWN)
    rows = "".join(
        f'<text class="c" xml:space="preserve" x="190" y="{40 + 15 * row}">{escape(line)}</text>'
        for row, line in enumerate(code)
    )
    shown = 30 + 74 * ([name for name, _ in steps].index(SHOWN)) + 13
    parts.append('<text class="b" x="182" y="18">top.sv</text>')
    parts.append(f'<rect x="182" y="26" width="650" height="{15 * len(code) + 8}" rx="4"/>{rows}')
    parts.append(arrow(left + width + 2, shown, 180, 40 + 15 * len(code) / 2))
    y = 26 + 15 * len(code) + 42
    parts += waveform(wave, port.name, 190, y)
    parts += [
        f'<text class="b" x="182" y="{y + 122}">verdict, with random pauses</text>',
        f'<text x="182" y="{y + 142}">{escape(verdict(report))}</text>',
    ]
    return picture(840, max(bottom + 30, y + 154), parts)


def instance(top: str, name: str) -> list[str]:
    """Return the lines of an instance of `top.sv`, from its module's name to its last port."""
    lines = top.splitlines()
    end = next(place for place, line in enumerate(lines) if line.endswith(f") {name}_inst ("))
    start = max(place for place in range(end) if lines[place].endswith("#("))
    close = next(place for place in range(end, len(lines)) if lines[place] == "  );")
    return [line[2:] for line in lines[start : close + 1]]


def waveform(text: str, port: str, left: float, top: float) -> Iterator[str]:
    """Draw clock, handshake and codes of a port, from `FIRST_CYCLE` on, as a VCD file has them."""
    names = ("clk", f"{port}_valid", f"{port}_ready", port)
    cycles = list(samples(text, names))[FIRST_CYCLE : FIRST_CYCLE + CYCLES]
    yield f'<text class="b" x="{left - 8:g}" y="{top - 14:g}">simulation: one beat a cycle</text>'
    begin = left + 150
    for row, name in enumerate(names):
        y = top + 26 * row
        yield f'<text class="c" x="{left:g}" y="{y + 13:g}">{name}</text>'
        if name == port:
            break
        points = list[str]()
        for place, values in enumerate(cycles):
            x, bit = begin + CYCLE * place, values[name] == "1"
            ends = [(0.0, bit), (1.0, bit)]
            if name == "clk":
                ends = [(0.0, True), (0.5, True), (0.5, False), (1.0, False)]
            points += [f"{x + CYCLE * part:g},{y + (2 if high else 16)}" for part, high in ends]
        yield f'<polyline points="{" ".join(points)}"/>'
    for place, values in enumerate(cycles):
        if values[names[1]] == values[names[2]] == "1":
            x, digits = begin + CYCLE * place, f"{int(values[port], 2):02x}"
            yield f'<rect x="{x + 1:g}" y="{y:g}" width="{CYCLE - 2}" height="18" rx="3"/>'
            yield f'<text class="c m" x="{x + CYCLE / 2:g}" y="{y + 13:g}">{digits}</text>'


def samples(text: str, names: Sequence[str]) -> Iterator[dict[str, str]]:
    """Yield the values of signals at every rising edge of the first, the clock."""
    symbols = dict[str, str]()
    for symbol, name in re.findall(r"\$var \w+ +\d+ (\S+) (\w+)", text):
        if name in names and name not in symbols.values():
            symbols[symbol] = name
    values = dict.fromkeys(names, "0")
    for step in re.split(r"^#\d+\n", text, flags=re.MULTILINE)[1:]:
        changes = dict[str, str]()
        for value, symbol in re.findall(r"^b?([01]+) ?(\S+)$", step, re.MULTILINE):
            if symbol in symbols:
                changes[symbols[symbol]] = value
        if changes.get(names[0]) == "1":
            yield dict(values)
        values |= changes


def verdict(report: SimulationReport) -> str:
    assert report.bit_exact
    return (
        f"bit-exact: {report.elements:,} elements compared with the integer reference, "
        f"{report.mismatches} differ"
    )


def architecture() -> str:
    """Draw the floors, the ground at the bottom, and what goes from one to another."""
    page = (ROOT / "mase_hw" / "README.md").read_text().split("| floor | packages |")[1]
    names = re.findall(r"^\| (\w[^|]*) \|", page.split("\n\n")[0], re.MULTILINE)
    floors = [
        ", ".join(sorted(name for name in layer if not name.startswith("_"))) for layer in LAYERS
    ]
    column = 16 + CHARACTER * max(map(len, names))
    width, height = column + 8 + 6.4 * max(map(len, floors)), LINE + 6
    middles, parts = [], list[str]()
    for rank, (name, floor) in enumerate(zip(names, floors, strict=True)):
        top = 1 + (height + 8) * (len(floors) - 1 - rank)
        middles.append(top + height / 2)
        parts.append(box(1, top, width, height, name, [""]))
        parts.append(
            f'<text class="c" x="{column:g}" y="{top + LINE - 2:g}">{escape(floor)}</text>'
        )
    ranks = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}
    for source, target, label in FLOWS:
        low, high = ranks[source], ranks[target]
        x = width + (14 if high == low + 1 else 30)
        start, end = middles[low] - 5, middles[high] + 5
        parts.append(
            f'<polyline points="{width + 2:g},{start:g} {x:g},{start:g} {x:g},{end:g} '
            f'{width + 3:g},{end:g}" marker-end="url(#a)"/>'
        )
        parts.append(
            f'<text class="s c" x="{width + 38:g}" y="{(start + end) / 2 + 4:g}">'
            f"{escape(label)}</text>"
        )
    return picture(width + 210, (height + 8) * len(floors), parts)


def box(
    left: float, top: float, width: float, height: float, title: str, lines: Sequence[str] = ()
) -> str:
    texts = [
        f'<text x="{left + 8:g}" y="{top + LINE * (row + 1) - 2:g}"{mark}>{escape(text)}</text>'
        for row, (text, mark) in enumerate(
            [(title, ' class="b"' if lines else ""), *((line, "") for line in lines)]
        )
    ]
    frame = f'<rect x="{left:g}" y="{top:g}" width="{width:g}" height="{height:g}" rx="4"/>'
    return frame + "".join(texts)


def arrow(start_x: float, start_y: float, end_x: float, end_y: float) -> str:
    return (
        f'<line x1="{start_x:g}" y1="{start_y:g}" x2="{end_x:g}" y2="{end_y:g}" '
        'stroke="#4472a8" stroke-width="1.5" marker-end="url(#a)"/>'
    )


def picture(width: float, height: float, parts: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}">'
    paper = '<path fill="#fff" d="M0 0H9999V9999H0z"/>'
    return "\n".join(
        [head, f"<style>{STYLE}</style><defs>{ARROW}</defs>{paper}", *parts, "</svg>\n"]
    )


FIGURES = {"flow.svg": flow, "architecture.svg": architecture}

if __name__ == "__main__":
    main()
