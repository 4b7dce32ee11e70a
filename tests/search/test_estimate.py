"""Estimated resources: the rules, and how far they are from synthesis."""

import inspect
import json
from dataclasses import dataclass

import pytest
import torch
from typer.testing import CliRunner

from mase_hw.api import emit_verilog, synthesize
from mase_hw.cells import Cell, _components, cells, fact
from mase_hw.cells._components import (
    NOTHING,
    Adder,
    Component,
    Components,
    Memory,
    Product,
    Register,
    Table,
)
from mase_hw.cli import build_app
from mase_hw.emit.flow import quantize, to_hardware
from mase_hw.graph import trace
from mase_hw.hardware import _component_rules as rules
from mase_hw.hardware.estimate import (
    Estimate,
    coefficients,
    estimate,
    estimate_nodes,
    of_cell,
    of_components,
)
from mase_hw.models import perceptron
from mase_hw.search.objective import hardware_metrics
from tests.bench.least_squares import Observation, fitted
from tests.flow.perceptrons import layer_file


def graph(width, sizes=(16, 32, 5)):
    torch.manual_seed(0)
    entry = {"name": "fixed", "data_in_width": width, "weight_width": width, "bias_width": 8}
    mg = trace(perceptron(*sizes).eval(), torch.randn(32, sizes[0]), name="net")
    return quantize(mg, {"by": "type", "default": {"config": entry}})


SAMPLES = {
    f"{cls.__name__} {number}": cell for cls in cells() for number, cell in enumerate(cls.samples())
}


@pytest.mark.parametrize("parallelism", [1, 2, 4])
def test_products_take_dsp_blocks_from_nine_bits(parallelism):
    eight = to_hardware(graph(8), parallelism=parallelism)
    four = to_hardware(graph(4), parallelism=parallelism)
    multipliers = hardware_metrics(graph(8), {"default": parallelism})["multipliers"]
    assert estimate(eight).dsp == multipliers
    assert estimate(four).dsp == 0
    assert estimate(four).energy_pj < estimate(eight).energy_pj


@pytest.mark.parametrize(
    ("left", "right", "blocks"),
    [
        (8, 8, 1),
        (4, 4, 0),
        (4, 5, 1),
        (27, 18, 1),
        (28, 18, 2),
        (18, 27, 1),
        (32, 24, 4),
        (40, 30, 4),
    ],
)
def test_products_take_blocks_of_their_shape(left, right, blocks):
    assert of_components(Components.of(Product(left, right))).dsp == blocks


@pytest.mark.parametrize(
    ("depth", "width", "blocks"),
    [(4096, 8, 1.0), (2048, 8, 0.5), (256, 128, 0.0), (320, 8, 0.0), (16384, 1, 0.5)],
)
def test_memories_go_where_the_mapper_puts_them(depth, width, blocks):
    found = of_components(Components.of(Table(depth, width)))
    assert found.bram == blocks
    assert (found.lut == 0) == (blocks > 0)
    assert found.memory_bits == depth * width


def test_a_memory_that_is_written_lies_in_tables_or_in_a_block_whose_port_has_a_register():
    assert of_components(Components.of(Memory(32, 14))) == Estimate(8.0, memory_bits=32 * 14)
    assert of_components(Components.of(Memory(64, 14))).lut == 16
    assert of_components(Components.of(Memory(1024, 16, stages=1))).bram == 0.5
    assert of_components(Components.of(Memory(1024, 16))).bram == 0


def test_rows_of_registers_become_shift_registers():
    assert of_components(Components.of(Register(5, 2))) == Estimate(ff=10)
    assert of_components(Components.of(Register(5, 3))) == Estimate(5.0)
    assert of_components(Components.of(Register(5, 33))) == Estimate(10.0)


@pytest.mark.parametrize("name", SAMPLES)
def test_every_cell_says_its_parts(name):
    cell = SAMPLES[name]
    found = of_cell(cell)
    assert all(number > 0 for number in cell.components.counts.values())
    assert all(
        component in known
        for known in [rules.RULES]
        for component in map(type, cell.components.counts)
    )
    assert found.lut > 0 or cell.components == NOTHING


def test_a_cell_without_parts_cannot_be_made():
    @dataclass(frozen=True)
    class Silent(Cell):
        beats: int = fact(1)
        inputs = outputs = motion = None

    with pytest.raises(TypeError, match="components"):
        Silent()


def test_every_kind_of_part_has_a_rule_and_every_term_a_coefficient():
    kinds = {
        item
        for _, item in inspect.getmembers(_components, inspect.isclass)
        if issubclass(item, Component) and item is not Component
    }
    assert set(rules.RULES) == kinds
    terms = {
        term
        for cell in SAMPLES.values()
        for component in cell.components.counts
        for term in rules.taken(component).terms
    }
    assert terms - {rules.EXACT} <= set(coefficients())
    assert all(value >= 0 for value in coefficients().values())


def test_parts_add_up():
    lane = Components.of(Register(8), (Adder(4), 2))
    both = lane * 3 + Components.of(Adder(4))
    assert both.counts == {Register(8): 3, Adder(4): 7}
    assert of_components(both).ff == 24
    assert lane * 0 == NOTHING


def test_a_fit_finds_what_made_the_counts_and_nothing_negative():
    amounts = [{"a": 4.0, "b": 1.0}, {"a": 1.0, "b": 9.0}, {"a": 5.0, rules.EXACT: 7.0}]
    seen = [
        Observation(item, 30 * item.get("a", 0) + 2 * item.get("b", 0) + item.get(rules.EXACT, 0))
        for item in amounts
    ]
    found = fitted(seen)
    assert found["a"] == pytest.approx(30, rel=0.05)
    falling = [Observation({"a": 10.0, "b": 10.0}, 100), Observation({"a": 10.0, "b": 20.0}, 50)]
    assert min(fitted(falling).values()) == 0


def test_energy_does_not_depend_on_parallelism_where_it_divides():
    energies = {
        estimate(to_hardware(graph(8, (16, 32, 8)), parallelism=p)).energy_pj for p in (1, 2, 4, 8)
    }
    assert len({round(value, 6) for value in energies}) == 1
    added = Estimate(1, 2, 3, 4) + Estimate(1, 1, 1, 1)
    assert added == Estimate(2, 3, 4, 5)


def test_estimates_by_node_add_up_and_count_splitters():
    class Twice(torch.nn.Module):
        def forward(self, x):
            y = torch.relu(x)
            return y + torch.neg(y)

    mg = trace(Twice().eval(), torch.randn(8, 6), name="twice")
    mg = to_hardware(quantize(mg), parallelism=2)
    report = estimate_nodes(mg)
    assert report.total == estimate(mg)
    alone = sum(of_cell(cell).ff for cell in mg.netlist(mg.node("relu")).cells.values())
    assert report.nodes["relu"].ff == alone + 2
    assert report.to_dict()["nodes"]["relu"]["ff"] == alone + 2


def test_external_weights_are_estimated_where_they_lie():
    inside = estimate_nodes(to_hardware(graph(8), parallelism=2))
    outside = estimate_nodes(to_hardware(graph(8), parallelism=2, memory="external"))
    assert "external_memory" in outside.nodes
    # In place of 6 kbit of weights, a buffer of 64-bit beats, which is two blocks of 18 kbit wide.
    assert (inside.nodes["linear_0"].bram, outside.nodes["linear_0"].bram) == (0.5, 1.0)


@pytest.fixture
def factory(tmp_path):
    return layer_file(tmp_path)


def test_the_command_prints_a_table_and_an_object(factory):
    app, runner = build_app(), CliRunner()
    done = runner.invoke(app, ["estimate", factory, "--json", "--parallelism", "2"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["dsp"] == 4
    assert found["interval_cycles"] == 12
    assert sum(node["ff"] for node in found["nodes"].values()) == found["ff"]
    table = runner.invoke(app, ["estimate", factory])
    assert "linear" in table.output


@pytest.mark.full
@pytest.mark.parametrize(("width", "parallelism"), [(8, 1), (8, 4), (4, 2)])
def test_the_estimate_is_near_synthesis(tmp_path, width, parallelism):
    mg = graph(width)
    project = emit_verilog(mg, output=tmp_path / "net", parallelism=parallelism)
    found = synthesize(project).total
    guess = estimate(project.mg)
    assert guess.dsp == found.dsp
    assert guess.bram == found.bram
    assert guess.lut == pytest.approx(found.lut, rel=0.1)
    assert guess.ff == pytest.approx(found.ff, rel=0.03)
