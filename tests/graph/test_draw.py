"""Drawings and tables: every node is there, text stays inside its box, boxes and edges apart."""

import itertools
import xml.etree.ElementTree as ElementTree

import pytest
import torch
from torch import nn

from mase_hw.formats import make_format
from mase_hw.graph import common, trace, update
from mase_hw.graph.draw import _CHARACTER_WIDTH, lay_out, render_svg
from mase_hw.passes.canonical.common_metadata import add_common_metadata_analysis_pass

SVG = "{http://www.w3.org/2000/svg}"


class Residual(nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(depth))

    def forward(self, x, y):
        for layer in self.layers:
            x = x + torch.relu(layer(x)) * y
        return x, x & x if x.dtype == torch.bool else torch.digamma(x)


def graph(depth):
    mg = trace(Residual(depth), (torch.randn(2, 8), torch.randn(2, 8)), name="a<b")
    add_common_metadata_analysis_pass(mg)
    return mg


@pytest.mark.parametrize("depth", [1, 5, 40])
def test_drawings_show_every_node_with_text_inside_its_box(depth, tmp_path):
    mg = graph(depth)
    root = ElementTree.parse(mg.draw(tmp_path / "graph.svg")).getroot()
    groups = {group.get("id"): group for group in root.iter(f"{SVG}g") if group.get("id")}
    assert set(groups) == {node.name for node in mg.nodes if node.op != "get_attr"}
    for group in groups.values():
        box = group.find(f"{SVG}rect")
        left, top, width, height = (float(box.get(key)) for key in ("x", "y", "width", "height"))
        for text in group.iter(f"{SVG}text"):
            x, y = float(text.get("x")), float(text.get("y"))
            assert left < x and x + len(text.text) * _CHARACTER_WIDTH < left + width
            assert top < y < top + height


def test_drawings_name_operator_shape_format_parallelism_and_constants():
    mg = graph(1)
    node = mg.node("layers_0")
    known = common(node)
    spec = known.results["data_out_0"].with_parallelism(1, 4)
    spec = spec.with_format(make_format({"name": "fixed", "width": 7, "frac_width": 3}))
    update(node, common=type(known)(known.operator, known.operands, {"data_out_0": spec}))
    root = ElementTree.fromstring(render_svg(mg))
    group = next(group for group in root.iter(f"{SVG}g") if group.get("id") == "layers_0")
    texts = [text.text for text in group.iter(f"{SVG}text")]
    assert texts[:3] == ["layers_0", "linear", f"1 x 8 | {spec.format} | 1 x 4"]
    assert texts[3:] == ["weight 8 x 8 | float32", "bias 8 | float32"]
    legend = "".join(root.itertext())
    assert "constant operands" in legend
    assert "that no operator covers" in legend
    assert render_svg(mg) == render_svg(mg.copy())


def test_boxes_and_the_lanes_of_skipping_edges_do_not_overlap():
    sizes = {f"n{i}": (60.0 + 7 * (i % 5), 30.0) for i in range(40)}
    edges = [(f"n{i}", f"n{j}") for i in range(40) for j in (i + 1, i + 2, 2 * i + 3) if j < 40]
    layout = lay_out(sizes, edges)
    rows = itertools.groupby(
        sorted(layout.items.values(), key=lambda item: (layout.layer[item.key], item.x)),
        key=lambda item: layout.layer[item.key],
    )
    for _, row in rows:
        for left, right in itertools.pairwise(row):
            assert left.x + left.width / 2 + 10 < right.x - right.width / 2
    for (source, target), route in layout.routes.items():
        depths = [layout.layer[key] for key in route]
        assert depths == list(range(layout.layer[source], layout.layer[target] + 1))


def test_a_chain_beside_a_skip_is_straight():
    names = [f"n{i}" for i in range(8)]
    edges = [*itertools.pairwise(names), ("n1", "n6")]
    layout = lay_out(dict.fromkeys(names, (80.0, 30.0)), edges)
    assert (
        max(layout.items[name].x for name in names) - min(layout.items[name].x for name in names)
        < 1.0
    )


def test_tables_name_every_node():
    mg = graph(2)
    text = str(mg)
    for node in mg.nodes:
        assert (node.name in text) == (node.op != "get_attr")
    assert "linear" in text
    assert "1 x 8" in text
    assert [column.header for column in mg.table().columns] == [
        "node", "operator", "shape", "format", "parallelism", "source",
    ]  # fmt: skip
