"""Parallelism per node and dimension, and under a budget of multipliers."""

import json
import re
import tomllib
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.cells import Netlist
from mase_hw.emit.flow import to_hardware
from mase_hw.graph import MaseGraph, common, metadata
from mase_hw.ops import Call, Operator, operators
from mase_hw.passes.hardware.parallelism import assign_parallelism_transform_pass
from mase_hw.timing.prediction import predict
from tests.flow.perceptrons import assert_bit_exact, by_type, command, quantized

TABLE = """
[parallelism]
default = 2

[parallelism.linear_0]
data_in_0_dim_0 = 4
data_out_0_dim_0 = 3

[parallelism.linear_2]
data_in_0_dim_0 = 4
"""
FACTORY = """
from tests.flow.perceptrons import seeded


def factory():
    model, inputs = seeded(8, 12, 5)
    return model, (inputs,)
"""


def multipliers(mg: MaseGraph) -> int:
    found = [metadata(node).hardware for node in mg.nodes]
    return sum(item.multipliers for item in found if item is not None)


def lanes(mg: MaseGraph, node: str) -> tuple[int, int]:
    known = common(mg.node(node))
    given, result = known.operands["data_in_0"], known.results["data_out_0"]
    return given.parallelism[1], result.parallelism[1]


def test_a_table_with_both_ends_of_an_edge_inserts_a_retile(tmp_path):
    asked = tomllib.loads(TABLE)["parallelism"]
    project = mase_hw.emit_verilog(quantized(8, 12, 5), output=tmp_path / "out", parallelism=asked)
    assert lanes(project.mg, "linear_0") == (4, 3)
    assert lanes(project.mg, "linear_2") == (4, 2)
    retiles = [node.name for node in project.mg.nodes if "retile" in node.name]
    assert len(retiles) == 1
    assert lanes(project.mg, retiles[0]) == (3, 4)
    report = mase_hw.simulate(project, samples=50, stall=0.3, seed=1)
    assert_bit_exact(report, 50 * 5)
    free = mase_hw.simulate(project, samples=20)
    assert free.interval_cycles == free.predicted_interval_cycles


def test_the_command_reads_the_same_table(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(FACTORY)
    (tmp_path / "p.toml").write_text(TABLE)
    designs = []
    for name in ("--parallelism", "--config"):
        arguments = ["emit-verilog", "net.py:factory", "-o", f"out{name}", name, "p.toml"]
        assert command(monkeypatch, capsys, *arguments)[0] == 0
        designs.append((tmp_path / f"out{name}" / "design.json").read_text())
    assert designs[0] == designs[1]
    result = next(
        item for item in json.loads(designs[0])["streams"] if item["name"] == "linear_0_data_out_0"
    )
    assert result["parallelism"] == [1, 3]


def test_a_number_beyond_a_dimension_is_bounded_by_it():
    mg = to_hardware(quantized(8, 12, 5), parallelism=10)
    assert (lanes(mg, "linear_0"), lanes(mg, "linear_2")) == ((8, 10), (10, 5))


def test_auto_keeps_what_the_user_fixed():
    asked: dict[str, Any] = {"default": "auto", "linear_2": {"data_out_0_dim_0": 1}}
    mg = to_hardware(quantized(8, 12, 5), parallelism=asked, multipliers=40)
    assert lanes(mg, "linear_2")[1] == 1
    assert multipliers(mg) <= 40


def test_auto_measures_equal_nodes_once(monkeypatch):
    fields = ("data_in_frac_width", "weight_frac_width", "bias_frac_width")
    config = by_type(**dict.fromkeys(fields, 5))
    linear = operators()["linear"]
    measured, hardware = [], type(linear).hardware

    def record(self: Operator, call: Call) -> Netlist:
        measured.append((tuple(call.operands.items()), tuple(call.results.items())))
        return hardware(self, call)

    monkeypatch.setattr(type(linear), "hardware", record)
    assign_parallelism_transform_pass(
        quantized(8, 8, 8, 8, 8, config=config), {"parallelism": "auto", "multipliers": 60}
    )
    assert len(measured) > 20
    assert len(set(measured)) == len(measured)


@pytest.mark.parametrize(("sizes", "budget"), [((50, 70, 30, 9), 100), ((37, 53, 29, 7), 64)])
def test_auto_is_as_fast_as_the_best_of_all_lanes(
    sizes: tuple[int, ...], budget: int, tmp_path: Path
) -> None:
    fewest = []
    for inputs, outputs in pairwise(sizes):
        pairs = product(range(1, inputs + 1), range(1, outputs + 1))
        works = [(-(-inputs // a) * -(-outputs // b), a * b) for a, b in pairs]
        fewest.append(lambda cycles, works=works: min(m for work, m in works if work <= cycles))
    most = max(inputs * outputs for inputs, outputs in pairwise(sizes))
    best = next(t for t in range(1, most + 1) if sum(item(t) for item in fewest) <= budget)
    project = mase_hw.emit_verilog(
        quantized(*sizes), output=tmp_path / "out", parallelism="auto", multipliers=budget
    )
    report = mase_hw.simulate(project, samples=20)
    assert_bit_exact(report, 20 * sizes[-1])
    assert (report.interval_cycles, report.latency_cycles) == (
        best,
        report.predicted_latency_cycles,
    )


def test_a_norm_before_a_wide_product_stays_narrow() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.RMSNorm(96), nn.Linear(96, 96, bias=False)).eval()
    graph = mase_hw.quantize(mase_hw.trace(model, torch.randn(6, 96)))
    mg = to_hardware(graph, parallelism="auto", multipliers=64)
    assert lanes(mg, "rmsnorm_0") == (1, 1)
    assert predict(mg).interval_cycles <= 168


def test_a_layer_whose_multipliers_wait_is_told_with_better_lanes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    torch.manual_seed(0)
    model, inputs = nn.Conv2d(8, 16, 3, padding=1, groups=8), torch.randn(32, 8, 8, 8)
    graph = mase_hw.quantize(mase_hw.trace(model, inputs))
    mase_hw.emit_verilog(graph, output=tmp_path / "waits", parallelism=2)
    (told,) = (text for text in caplog.messages if "multipliers work at a time" in text)
    asked = re.search(r"\[parallelism\.conv2d\] (.*) takes ([\d,]+) cycles with (\d+)", told)
    assert asked is not None
    table = tomllib.loads(asked[1].replace(", ", "\n"))
    caplog.clear()
    project = mase_hw.emit_verilog(graph, output=tmp_path / "works", parallelism={"conv2d": table})
    assert multipliers(project.mg) == int(asked[3])
    assert predict(project.mg).interval_cycles == int(asked[2].replace(",", ""))
    assert not any("multipliers work at a time" in text for text in caplog.messages)
