"""Drawing of a graph as one self-contained SVG file.

Every box says which operator a node is, its name, and shape, format and parallelism of its result;
a band below lists its constant operands in the same way. The layout is deterministic.

Layered layout of a directed acyclic graph of boxes.

Sugiyama, Tagawa and Toda, "Methods for Visual Understanding of Hierarchical System Structures"
(1981): layers by longest path, an edge that skips layers takes a lane of its own in each of them,
layers are ordered by barycenters. Positions along a layer are the weighted least-squares fit to
the neighbours' positions that keeps the boxes apart (isotonic regression, pool adjacent violators).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

from torch.fx import Node

from mase_hw._results import result_file
from mase_hw.graph.captured import CapturedGraph
from mase_hw.graph.nodes import metadata, tensor_arguments
from mase_hw.graph.table import operator_label, parallelism_label, result_specs, shape_label
from mase_hw.ops import TensorSpec, operator_for

_FONT_SIZE = 12
# Advance of the fonts named in the style sheet, at most, as a share of the size.
_CHARACTER_WIDTH = 0.62 * _FONT_SIZE
_LINE_HEIGHT = 17
_PADDING = 10
_MARGIN = 24
_MIN_WIDTH = 120
_MAX_CHARACTERS = 44

_STYLE = """
svg { background: #ffffff; }
text { font: 12px "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: #1d2733; }
.title { font-size: 16px; font-weight: 700; }
.name { font-weight: 700; }
.operator { fill: #475569; }
.box { fill: #eef4fb; stroke: #3b6ea5; stroke-width: 1.2; }
.input { fill: #e6f4ea; stroke: #2e7d4f; }
.output { fill: #fdf0e1; stroke: #b7651b; }
.uncovered { fill: #fdecec; stroke: #c0392b; stroke-dasharray: 5 3; }
.constants { fill: #f3edfa; stroke: #7a5aa6; stroke-width: 0.8; }
.edge { fill: none; stroke: #64748b; stroke-width: 1.4; }
.skip { stroke: #0f766e; }
.head { fill: #64748b; }
.skiphead { fill: #0f766e; }
"""


@dataclass
class _Box:
    """What is written in one box.

    Attributes:
        kind: style class.
        lines: (style class, text) of the upper part.
        constants: text of the lower part, one line per constant operand.
        hint: what a pointer that hovers shows.
    """

    kind: str
    lines: list[tuple[str, str]]
    constants: list[str] = field(default_factory=list)
    hint: str = ""

    @property
    def size(self) -> tuple[float, float]:
        """Width and height that hold the text."""
        texts = [text for _, text in self.lines] + self.constants
        width = max(len(text) for text in texts) * _CHARACTER_WIDTH + 2 * _PADDING
        return max(width, _MIN_WIDTH), self.upper + self.lower

    @property
    def upper(self) -> float:
        return len(self.lines) * _LINE_HEIGHT + _PADDING

    @property
    def lower(self) -> float:
        return len(self.constants) * _LINE_HEIGHT + _PADDING * 0.6 if self.constants else 0.0


def draw_graph(mg: CapturedGraph, path: str | Path) -> Path:
    """Draw `mg` into the SVG file `path`.

    Raises:
        OutputError: when the file cannot be written, or is somebody else's.
    """
    with result_file(Path(path)) as file:
        file.write_text(render_svg(mg), encoding="utf-8")
    return Path(path)


def render_svg(mg: CapturedGraph) -> str:
    """Return the text of the SVG file."""
    boxes = {node.name: _box(mg, node) for node in mg.nodes if _is_drawn(node)}
    edges = list(_edges(mg))
    inputs = frozenset(node.name for node in mg.inputs)
    layout = lay_out({name: box.size for name, box in boxes.items()}, edges, inputs)
    legend = list(_legend(mg))
    legend_width = max(len(text) * _CHARACTER_WIDTH + 30 for _, text in legend)
    left = _MARGIN + max(0.0, (legend_width - layout.width) / 2)
    top = _MARGIN * 2 + _LINE_HEIGHT * (len(legend) + 1)
    width = max(layout.width, legend_width) + 2 * _MARGIN
    height = top + layout.height + _MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}">',
        f"<style>{_STYLE}</style>",
        "<defs>" + _arrow("arrow", "head") + _arrow("skiparrow", "skiphead") + "</defs>",
        *_legend_lines(mg, legend),
        f'<g transform="translate({left:.1f} {top:.1f})">',
        *(line for edge in layout.routes for line in _edge_lines(layout, edge)),
        *(line for name, box in boxes.items() for line in _box_lines(layout, name, box)),
        "</g>",
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _is_drawn(node: Node) -> bool:
    """Constants are lines of their users' boxes, save those that the model returns."""
    return node.op != "get_attr" or any(user.op == "output" for user in node.users)


def _edges(mg: CapturedGraph) -> Iterator[tuple[str, str]]:
    for node in mg.nodes:
        for producer in node.all_input_nodes:
            if producer.op != "get_attr" or node.op == "output":
                yield producer.name, node.name


def _box(mg: CapturedGraph, node: Node) -> _Box:
    uncovered = node.op == "call_function" and operator_for(node.target) is None
    kind = {"placeholder": "input", "output": "output", "get_attr": "constants"}.get(node.op, "")
    lines = [("name", _short(node.name)), ("operator", _short(operator_label(node)))]
    lines += [("", _short(_spec_text(spec))) for spec in result_specs(node).values()]
    known = metadata(node)
    hint = f"{node.name}: {node.target}\nmodule {known.module_path or '-'}\n{known.source}"
    return _Box("uncovered" if uncovered else kind, lines, _constant_lines(mg, node), hint)


def _constant_lines(mg: CapturedGraph, node: Node) -> list[str]:
    if node.op != "call_function":
        return []
    known = metadata(node).common
    lines = []
    for name, value in tensor_arguments(node):
        if isinstance(value, Node) and value.op != "get_attr":
            continue
        if known is not None and known.operator is not None and name not in known.operands:
            continue
        if known is not None and name in known.operands:
            text = f"{name} {_spec_text(known.operands[name], parallelism=False)}"
            hardware = metadata(node).hardware
            if hardware is not None and hardware.interface.get(name) == "AXI":
                text += " | external"
        elif isinstance(value, Node):
            text = f"{name} {' x '.join(map(str, mg.constant(value).shape)) or 'scalar'}"
        else:
            text = f"{name} {value}"
        lines.append(_short(text))
    return lines


def _spec_text(spec: TensorSpec, parallelism: bool = True) -> str:
    parts = [shape_label(spec), str(spec.format) if spec.format else spec.dtype]
    return " | ".join([*parts, parallelism_label(spec)] if parallelism else parts)


def _short(text: str) -> str:
    return text if len(text) <= _MAX_CHARACTERS else text[: _MAX_CHARACTERS - 1] + "\u2026"


def _legend(mg: CapturedGraph) -> Iterator[tuple[str, str]]:
    nodes = [node for node in mg.nodes if _is_drawn(node)]
    kinds = {_box(mg, node).kind for node in nodes}
    yield "", "name, operator, then of every result: shape | format | parallelism (DIM_1 x DIM_0)"
    for kind, text in (
        ("input", "input of the model"),
        ("box", "operator"),
        ("uncovered", "(ATen target) that no operator covers"),
        ("output", "output of the model"),
    ):
        if kind in kinds or (kind == "box" and "" in kinds):
            yield kind, text
    if any(_constant_lines(mg, node) for node in nodes) or "constants" in kinds:
        yield "constants", "constant operands: name, shape | format"


def _legend_lines(mg: CapturedGraph, legend: list[tuple[str, str]]) -> Iterator[str]:
    batch = "any batch, shapes of one inference" if mg.batched else "one inference, fixed shapes"
    y = _MARGIN + _LINE_HEIGHT / 2
    yield f'<text class="title" x="{_MARGIN}" y="{y:.1f}">{escape(mg.name)}</text>'
    indent = _MARGIN + (len(mg.name) + 2) * 0.62 * 16
    yield f'<text class="operator" x="{indent:.1f}" y="{y:.1f}">{batch}</text>'
    for kind, text in legend:
        y += _LINE_HEIGHT
        indent = _MARGIN
        if kind:
            yield (
                f'<rect class="box {kind}" x="{_MARGIN}" y="{y - 10:.1f}" width="20" '
                'height="12" rx="2"/>'
            )
            indent += 30
        yield f'<text x="{indent}" y="{y:.1f}">{escape(text)}</text>'


def _arrow(name: str, style: str) -> str:
    return (
        f'<marker id="{name}" viewBox="0 0 8 8" refX="7.5" refY="4" markerWidth="8" '
        'markerHeight="8" markerUnits="userSpaceOnUse" orient="auto">'
        f'<path class="{style}" d="M0 0.5 L8 4 L0 7.5 z"/></marker>'
    )


def _edge_lines(layout: Layout, edge: tuple[str, str]) -> Iterator[str]:
    """Yield a curve that runs between layers only; within a layer it keeps to its lane."""
    source, target = edge
    route = layout.routes[edge]
    start, end = layout.items[source], layout.items[target]
    points = [(start.x, start.top + start.height)]
    for key in route[1:-1]:
        top, bottom = layout.bands[layout.layer[key]]
        points += [(layout.items[key].x, top), (layout.items[key].x, bottom)]
    points.append((_port(layout, edge), end.top))
    path = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
    for (x0, y0), (x1, y1) in itertools.pairwise(points):
        middle = (y0 + y1) / 2
        straight = abs(x0 - x1) < 0.5
        curve = f"C{x0:.1f} {middle:.1f} {x1:.1f} {middle:.1f} {x1:.1f} {y1:.1f}"
        path += f"L{x1:.1f} {y1:.1f}" if straight else curve
    long = len(route) > 2
    style, arrow = ("edge skip", "skiparrow") if long else ("edge", "arrow")
    hint = escape(f"{source} to {target}")
    yield f'<path class="{style}" d="{path}" marker-end="url(#{arrow})">'
    yield f"<title>{hint}</title></path>"


def _port(layout: Layout, edge: tuple[str, str]) -> float:
    target = layout.items[edge[1]]
    entering = [route for (_, end), route in layout.routes.items() if end == edge[1]]
    entering.sort(key=lambda route: layout.items[route[-2]].x)
    index = entering.index(layout.routes[edge])
    spread = min(target.width * 0.6, 28.0 * (len(entering) - 1))
    if len(entering) == 1:
        return target.x
    return target.x - spread / 2 + spread * index / (len(entering) - 1)


def _box_lines(layout: Layout, name: str, box: _Box) -> Iterator[str]:
    item = layout.items[name]
    left = item.x - item.width / 2
    yield f"<g id={quoteattr(name)}><title>{escape(box.hint)}</title>"
    yield (
        f'<rect class="box {box.kind}" x="{left:.1f}" y="{item.top:.1f}" '
        f'width="{item.width:.1f}" height="{item.height:.1f}" rx="5"/>'
    )
    y = item.top + _LINE_HEIGHT
    for style, text in box.lines:
        yield f'<text class="{style}" x="{left + _PADDING:.1f}" y="{y:.1f}">{escape(text)}</text>'
        y += _LINE_HEIGHT
    if box.constants:
        top = item.top + box.upper
        yield (
            f'<rect class="constants" x="{left + 4:.1f}" y="{top:.1f}" '
            f'width="{item.width - 8:.1f}" height="{box.lower - 4:.1f}" rx="3"/>'
        )
        y = top + _LINE_HEIGHT - 4
        for text in box.constants:
            yield f'<text x="{left + _PADDING:.1f}" y="{y:.1f}">{escape(text)}</text>'
            y += _LINE_HEIGHT
    yield "</g>"


Key = str
_SWEEPS = 12
_BOX_GAP = 28.0
_LANE_GAP = 16.0
_LAYER_GAP = 46.0


@dataclass
class Item:
    """A box, or the lane of an edge where it passes a layer (width and height 0).

    Attributes:
        key: unique key.
        width: extent along the layer.
        height: extent across the layers.
        x: center along the layer, an output.
        top: upper end, an output.
    """

    key: Key
    width: float = 0.0
    height: float = 0.0
    x: float = 0.0
    top: float = 0.0


@dataclass
class Layout:
    """Positions of all boxes and the points every edge passes.

    Attributes:
        items: boxes and lanes by key.
        routes: for every edge, the keys of its source, its lanes and its target.
        bands: (top, bottom) of every layer.
        layer: layer of every item.
        width: extent of the drawing.
        height: extent of the drawing.
    """

    items: dict[Key, Item]
    routes: dict[tuple[Key, Key], list[Key]]
    bands: list[tuple[float, float]]
    layer: dict[Key, int]
    width: float = 0.0
    height: float = 0.0


@dataclass
class _Links:
    up: dict[Key, list[tuple[Key, float]]] = field(default_factory=dict)
    down: dict[Key, list[tuple[Key, float]]] = field(default_factory=dict)

    def add(self, source: Key, target: Key, weight: float) -> None:
        self.down.setdefault(source, []).append((target, weight))
        self.up.setdefault(target, []).append((source, weight))


def lay_out(
    sizes: Mapping[Key, tuple[float, float]],
    edges: Sequence[tuple[Key, Key]],
    pinned: frozenset[Key] = frozenset(),
) -> Layout:
    """Place boxes in layers from top to bottom.

    Args:
        sizes: (width, height) of every box by key, in topological order.
        edges: pairs (source, target); equal pairs are drawn once.
        pinned: boxes without predecessors that stay in the first layer; others move down to the
            layer before their first user.
    """
    layer = _layers(list(sizes), edges, pinned)
    items = {key: Item(key, width, height) for key, (width, height) in sizes.items()}
    routes: dict[tuple[Key, Key], list[Key]] = {}
    links = _Links()
    for number, (source, target) in enumerate(dict.fromkeys(edges)):
        lanes = []
        for depth in range(layer[source] + 1, layer[target]):
            lane = f"{source} -> {target} #{number} @{depth}"
            items[lane], layer[lane] = Item(lane), depth
            lanes.append(lane)
        route = [source, *lanes, target]
        routes[source, target] = route
        for first, second in itertools.pairwise(route):
            real = (first in sizes) + (second in sizes)
            links.add(first, second, {2: 1.0, 1: 2.0, 0: 8.0}[real])
    rows: list[list[Item]] = [[] for _ in range(max(layer.values(), default=0) + 1)]
    for key, item in items.items():
        rows[layer[key]].append(item)
    _order(rows, links)
    _position(rows, items, links)
    _straighten(rows, items, links)
    layout = Layout(items, routes, _stack(rows), layer)
    left = min((item.x - item.width / 2 for item in items.values()), default=0.0)
    for item in items.values():
        item.x -= left
    layout.width = max((item.x + item.width / 2 for item in items.values()), default=0.0)
    layout.height = layout.bands[-1][1]
    return layout


def _layers(
    keys: Sequence[Key], edges: Sequence[tuple[Key, Key]], pinned: frozenset[Key]
) -> dict[Key, int]:
    layer = dict.fromkeys(keys, 0)
    sources: dict[Key, list[Key]] = {}
    targets: dict[Key, list[Key]] = {}
    for source, target in edges:
        sources.setdefault(target, []).append(source)
        targets.setdefault(source, []).append(target)
    for key in keys:
        layer[key] = max((layer[source] + 1 for source in sources.get(key, [])), default=0)
    for key in reversed(keys):
        if key not in sources and key not in pinned and key in targets:
            layer[key] = max(min(layer[target] for target in targets[key]) - 1, 0)
    return layer


def _order(rows: list[list[Item]], links: _Links) -> None:
    """Order every layer by the mean rank of its neighbours, downwards and upwards in turn."""
    rank: dict[Key, float] = {}
    for row in rows:
        rank.update({item.key: float(index) for index, item in enumerate(row)})
    best, fewest = [list(row) for row in rows], _crossings(rows, links, rank)
    for sweep in range(_SWEEPS):
        downwards = sweep % 2 == 0
        neighbours = links.up if downwards else links.down
        for row in rows if downwards else reversed(rows):
            keys = {item.key: _mean(item.key, neighbours, rank) for item in row}
            row.sort(key=lambda item: keys[item.key])
            rank.update({item.key: float(index) for index, item in enumerate(row)})
        crossings = _crossings(rows, links, rank)
        if crossings < fewest:
            best, fewest = [list(row) for row in rows], crossings
    rows[:] = best


def _mean(
    key: Key, neighbours: Mapping[Key, list[tuple[Key, float]]], position: Mapping[Key, float]
) -> float:
    linked = neighbours.get(key, [])
    total = sum(weight for _, weight in linked)
    if not linked:
        return position[key]
    return sum(position[other] * weight for other, weight in linked) / total


def _crossings(rows: Sequence[Sequence[Item]], links: _Links, rank: Mapping[Key, float]) -> int:
    total = 0
    for row in rows:
        ends = [
            (rank[item.key], rank[target])
            for item in row
            for target, _ in links.down.get(item.key, [])
        ]
        ends.sort()
        for index, (start, end) in enumerate(ends):
            total += sum(1 for s, e in ends[:index] if s < start and e > end)
    return total


def _position(rows: list[list[Item]], items: Mapping[Key, Item], links: _Links) -> None:
    for row in rows:
        _fit(row, [0.0] * len(row))
    for sweep in range(2 * _SWEEPS):
        downwards = sweep % 2 == 0
        for row in rows if downwards else reversed(rows):
            wanted = []
            for item in row:
                linked = (links.up if downwards else links.down).get(item.key, [])
                if sweep >= _SWEEPS:
                    linked = [*links.up.get(item.key, []), *links.down.get(item.key, [])]
                total = sum(weight for _, weight in linked)
                mean = sum(items[other].x * weight for other, weight in linked)
                wanted.append(mean / total if linked else item.x)
            _fit(row, wanted)


def _straighten(rows: list[list[Item]], items: Mapping[Key, Item], links: _Links) -> None:
    """Move the items of a run without forks to one position, long runs before short ones."""
    runs = _runs(rows, items, links)
    weight = {key: float(len(run)) ** 3 for run in runs for key in run}
    for _ in range(2 * _SWEEPS):
        wanted = {}
        for run in runs:
            mean = sum(items[key].x for key in run) / len(run)
            wanted.update(dict.fromkeys(run, mean))
        for row in rows:
            _fit(row, [wanted[item.key] for item in row], [weight[item.key] for item in row])


def _runs(rows: list[list[Item]], items: Mapping[Key, Item], links: _Links) -> list[list[Key]]:
    """Return paths of boxes, or of lanes, along which each is the middle neighbour of the next."""

    def middle(key: Key, neighbours: Mapping[Key, list[tuple[Key, float]]]) -> Key | None:
        box = items[key].width > 0
        alike = [other for other, _ in neighbours.get(key, []) if (items[other].width > 0) == box]
        alike.sort(key=lambda other: items[other].x)
        return alike[(len(alike) - 1) // 2] if alike else None

    runs: list[list[Key]] = []
    seen: set[Key] = set()
    for row in rows:
        for item in row:
            run: list[Key] = []
            key: Key | None = item.key
            while key is not None and key not in seen:
                seen.add(key)
                run.append(key)
                following = middle(key, links.down)
                key = following if following and middle(following, links.up) == key else None
            if run:
                runs.append(run)
    return runs


def _fit(
    row: Sequence[Item], wanted: Sequence[float], weights: Sequence[float] | None = None
) -> None:
    offsets = [0.0]
    for left, right in itertools.pairwise(row):
        gap = _BOX_GAP if left.width and right.width else _LANE_GAP
        offsets.append(offsets[-1] + (left.width + right.width) / 2 + gap)
    blocks: list[tuple[float, float, int]] = []
    for index in range(len(row)):
        weight = weights[index] if weights else 1.0
        blocks.append((wanted[index] - offsets[index], weight, 1))
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (first, m, many), (second, n, more) = blocks[-2:]
            blocks[-2:] = [((first * m + second * n) / (m + n), m + n, many + more)]
    values = [value for value, _, count in blocks for _ in range(count)]
    for item, value, offset in zip(row, values, offsets, strict=False):
        item.x = value + offset


def _stack(rows: Sequence[Sequence[Item]]) -> list[tuple[float, float]]:
    """Place the layers one below the other, boxes centered in theirs; return their extents."""
    bands = []
    top = 0.0
    for row in rows:
        height = max((item.height for item in row), default=0.0)
        for item in row:
            item.top = top + (height - item.height) / 2
        bands.append((top, top + height))
        top += height + _LAYER_GAP
    return bands
