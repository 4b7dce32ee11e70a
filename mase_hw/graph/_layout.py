"""Layered layout of a directed acyclic graph of boxes.

Sugiyama, Tagawa and Toda, "Methods for Visual Understanding of Hierarchical System Structures"
(1981): layers by longest path, an edge that skips layers takes a lane of its own in each of them,
layers are ordered by barycenters. Positions along a layer are the weighted least-squares fit to
the neighbours' positions that keeps the boxes apart (isotonic regression, pool adjacent violators).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

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
