"""Netlists of several cells that a design has many times become modules of their own."""

from dataclasses import replace

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.cells import Composite
from mase_hw.cells.stream_fifo import StreamFifo
from mase_hw.emit.flow import to_hardware
from mase_hw.emit.modules import module_texts
from mase_hw.errors import EmissionError
from tests.engines import each, exact
from tests.rtl_bench import lint_top

FIXED = {
    "name": "fixed", "data_in_width": 8, "data_in_frac_width": 5, "weight_width": 8,
    "weight_frac_width": 7, "bias_width": 8, "bias_frac_width": 7,
}  # fmt: skip


class Blocks(nn.Module):
    """Layers of three shapes, four of the one."""

    def __init__(self):
        super().__init__()
        self.narrow = nn.ModuleList(nn.Conv2d(2, 2, 3, padding=1) for _ in range(4))
        self.wide = nn.ModuleList([nn.Conv2d(2, 4, 1), nn.Conv2d(4, 2, 1)])

    def forward(self, x):
        for layer in self.narrow:
            x = layer(x) + x
        return self.wide[1](torch.relu(self.wide[0](x)))


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("hierarchy") / "blocks"
    return mase_hw.emit_verilog(
        Blocks().eval(),
        torch.randn(4, 2, 4, 4),
        config={"by": "type", "default": {"config": FIXED}},
        output=folder,
        parallelism=2,
    )


def test_what_is_there_four_times_is_a_module(project):
    own = [path.name for path in (project.folder / "rtl").glob("*.sv") if "mase_" not in path.name]
    assert own == ["conv2d_0.sv"]
    text = (project.folder / "rtl" / own[0]).read_text()
    assert text.count("inst (") == 2
    assert max(map(len, text.splitlines())) <= 100
    top = (project.folder / "top.sv").read_text()
    assert top.count("\n  conv2d_0 ") == 4
    assert "mase_sliding_window" in top, "layers that are there once or twice stay as they are"


@pytest.mark.full
@each
def test_it_is_as_fast_and_exact_as_the_cells_themselves(project, engine):
    report = exact(project, samples=6, engine=engine)
    assert report.latency_cycles == report.predicted_latency_cycles
    assert report.interval_cycles <= report.predicted_interval_cycles
    exact(project, samples=6, engine=engine, stall=0.3)


def test_the_top_and_its_modules_lint_clean(project):
    lint_top(project.folder)


@pytest.mark.full
def test_resources_are_counted_under_the_users_layers(project):
    nodes = mase_hw.synthesize(project).nodes
    layers = [nodes[name] for name in nodes if name.startswith("narrow")]
    assert len(layers) == 4
    assert min(layer.lut for layer in layers) > 50


def test_memories_inside_are_parameters_of_the_module():
    graph = mase_hw.quantize(mase_hw.trace(nn.Conv2d(2, 2, 3), torch.randn(2, 2, 4, 4)))
    graph = to_hardware(graph)
    netlist = graph.netlist(graph.node("conv2d"))
    cell = Composite.of("layer", netlist)
    assert list(cell.images) == ["WINDOW_ROW_FILE", "WINDOW_COLUMN_FILE"]
    text = module_texts([cell])["layer"]
    assert ".ROW_FILE(WINDOW_ROW_FILE)" in text
    around = cell.within(netlist)
    assert (around.busy_cycles, around.multipliers) == (netlist.busy_cycles, netlist.multipliers)
    assert list(around.flat.cells.values()) == [
        *(netlist.cells[name] for name in netlist.constants.values()),
        *(cell for name, cell in netlist.cells.items() if name not in netlist.constants.values()),
    ]


def test_two_modules_of_a_name_are_refused():
    pair, _ = Composite.samples()
    first = pair.netlist.cells["first_inst"]
    longer = replace(first, depth=first.depth + 1)
    cells = {**pair.netlist.cells, "first_inst": longer}
    other = replace(pair, netlist=replace(pair.netlist, cells=cells))
    assert isinstance(first, StreamFifo)
    with pytest.raises(EmissionError, match="two modules are called two_queues; rename one"):
        module_texts([pair, other])
    with pytest.raises(EmissionError, match="two modules are called mase_reorder; rename one"):
        module_texts([replace(pair, name="mase_reorder")])
