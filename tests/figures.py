"""The figures of the pages that follow from the sources: `python -m tests.figures` draws them anew.

`flow.svg` follows the model of the first page to the modules of its design; `architecture.svg`
shows the floors of `tests/_architecture.py`.
"""

import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import escape

import mase_hw
from tests._architecture import LAYERS
from tests._readme import ROOT, block

FOLDER = ROOT / "mase_hw" / "figures"
LINE, CHARACTER, GAP = 18, 7.3, 44
STYLE = "text{font:12px monospace;fill:#222}.b{font-weight:bold}rect{fill:#eef3fa;stroke:#4472a8}"
ARROW = (
    '<marker id="a" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" '
    'orient="auto"><path d="M0 0L8 4L0 8z" fill="#4472a8"/></marker>'
)


def main() -> None:
    """Write every figure."""
    FOLDER.mkdir(exist_ok=True)
    for name, draw in FIGURES.items():
        (FOLDER / name).write_text(draw())


def flow() -> str:
    """Draw model, graph, top and verdict of the first page's model, side by side."""
    space: dict[str, object] = {}
    exec(block(".", "python", "# net.py"), space)
    model, inputs = space["factory"]()  # type: ignore[operator]
    with tempfile.TemporaryDirectory() as folder:
        project = mase_hw.emit_verilog(model, *inputs, output=Path(folder) / "net")
    nodes = [node for node in project.design.nodes if node.module]
    results = {node.node: project.mg.call(project.mg.node(node.node)).result for node in nodes}
    steps = [
        ("PyTorch model", [f"nn.{type(layer).__name__}" for layer in model]),
        ("graph with number formats", [f"{name}: {spec.format}" for name, spec in results.items()]),
        ("top.sv", [f"{node.module} {node.node}_inst" for node in nodes]),
        ("exact", ["Verilator = integer", "reference, every bit", "cycles = predicted"]),
    ]
    height = LINE * (len(nodes) + 2)
    left, parts = 1.0, []
    for title, lines in steps:
        width = 16 + CHARACTER * max(map(len, [title, *lines]))
        if parts:
            parts.append(arrow(left - GAP, left, height / 2))
        parts.append(box(left, 1, width, height, title, lines))
        left += width + GAP
    return picture(left - GAP + 1, height + 2, parts)


def architecture() -> str:
    """Draw the floors, the ground at the bottom; each imports from itself and those below."""
    page = (ROOT / "mase_hw" / "README.md").read_text().split("| floor | packages |")[1]
    names = re.findall(r"^\| (\w[^|]*) \|", page.split("\n\n")[0], re.MULTILINE)
    floors = [
        ", ".join(sorted(name for name in layer if not name.startswith("_"))) for layer in LAYERS
    ]
    column = 24 + CHARACTER * max(map(len, names))
    width, height = column + 16 + CHARACTER * max(map(len, floors)), LINE + 6
    parts = []
    for rank, (name, floor) in enumerate(zip(names, floors, strict=True)):
        top = 1 + (height + 4) * (len(floors) - 1 - rank)
        parts.append(box(1, top, width, height, name, [""]))
        parts.append(f'<text x="{column:g}" y="{top + LINE - 2:g}">{escape(floor)}</text>')
    return picture(width + 2, (height + 4) * len(floors), parts)


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


def arrow(start: float, end: float, height: float) -> str:
    return (
        f'<line x1="{start + 4:g}" y1="{height:g}" x2="{end - 4:g}" y2="{height:g}" '
        'stroke="#4472a8" stroke-width="2" marker-end="url(#a)"/>'
    )


def picture(width: float, height: float, parts: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}">'
    return "\n".join([head, f"<style>{STYLE}</style><defs>{ARROW}</defs>", *parts, "</svg>\n"])


FIGURES = {"flow.svg": flow, "architecture.svg": architecture}

if __name__ == "__main__":
    main()
