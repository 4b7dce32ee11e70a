"""Emitted designs in other formats than fixed point, simulated bit by bit."""

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.emit.flow import quantize
from mase_hw.graph import trace


def simulate(model, shape, config, parallelism, folder, samples=12, spread=1.0):
    """Emit a model, check bits and predicted cycles, and return the report under pressure."""
    generator = torch.Generator().manual_seed(5)
    example = torch.randn(1, *shape, generator=generator)
    mg = quantize(trace(model.eval(), (example,)), config)
    project = mase_hw.emit_verilog(mg, output=folder, parallelism=parallelism)
    values = torch.randn(samples, *shape, generator=generator) * spread
    for inputs in (values, None):
        options = {"samples": samples} if inputs is None else {}
        free = mase_hw.simulate(project, inputs, **options)
        assert free.bit_exact, free.first_mismatch or free.violations
        assert free.interval_cycles == free.predicted_interval_cycles
        assert free.latency_cycles == free.predicted_latency_cycles
        pressed = mase_hw.simulate(project, inputs, stall=0.3, seed=3, **options)
        assert pressed.bit_exact, pressed.first_mismatch or pressed.violations
    return free


def by_type(**entries):
    return {"by": "type", **{name: {"config": entry} for name, entry in entries.items()}}


MXINT = {"name": "mxint", "data_in_width": 8, "data_in_block_size": 8}
MXINT4 = {"name": "mxint", "data_in_width": 4, "data_in_block_size": 4, "data_in_exponent_width": 4}
FIXED_OUT = {"data_out_name": "fixed", "data_out_width": 10, "data_out_frac_width": 6}


@pytest.mark.parametrize(
    ("config", "parallelism"),
    [
        (MXINT, 4),
        ({**MXINT4, **FIXED_OUT}, 2),
        ({"name": "block_fp", "data_in_width": 6, "data_in_block_size": 4}, 4),
    ],
    ids=["mxint8", "mxint4 to fixed", "block_fp6"],
)
def test_two_layers_of_blocks(config, parallelism, tmp_path):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 13), nn.Linear(13, 6, bias=False))
    simulate(model, (20,), by_type(linear=config), parallelism, tmp_path / "d")


def test_rows_of_blocks_between_fixed_layers(tmp_path):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 12), nn.ReLU(), nn.Linear(12, 8), nn.Linear(8, 5))
    fixed = {"name": "fixed", "data_in_width": 8, "weight_width": 8, "bias_width": 8}
    config = {
        "by": "name",
        "default": {"config": {**fixed, **FIXED_OUT}},
        "_2": {"config": {**MXINT, "data_in_block_size": 4, **FIXED_OUT}},
    }
    graph = trace(model.eval(), (torch.randn(1, 3, 8),))
    linears = [node.name for node in graph.nodes if "linear" in str(node.target)]
    config[linears[1]] = config.pop("_2")
    table = {"default": 2, linears[0]: {"data_in_0_dim_1": 3}}
    simulate(model, (3, 8), config, table, tmp_path / "d")


SCALARS = {
    "e4m3": {"name": "fp8_e4m3"},
    "log5 by fixed": {
        "name": "fixed", "data_in_width": 6, "weight_name": "log", "weight_width": 5,
        "bias_width": 8, "data_out_name": "log", "data_out_width": 4,
    },
    "minifloat": {"name": "minifloat_ieee", "data_in_width": 6, "data_in_exponent_width": 3},
    "binary": {"name": "binary", "bias_name": "fixed", "bias_width": 6},
    "residual by ternary": {
        "name": "binary_residual", "data_in_levels": 2, "data_in_scale": 1.0,
        "weight_name": "ternary", "weight_scale": 0.5, "weight_threshold": 0.1,
        "bias_name": "fixed", "bias_width": 8, "data_out_name": "ternary", "data_out_scale": 1.0,
    },
}  # fmt: skip


class SideBySide(nn.Module):
    """Two layers for each configuration, each with an input of its own: one build for all."""

    def __init__(self, count):
        super().__init__()
        self.first = nn.ModuleList(nn.Linear(11, 7) for _ in range(count))
        self.second = nn.ModuleList(nn.Linear(7, 5, bias=False) for _ in range(count))

    def forward(self, *inputs):
        pairs = zip(self.first, self.second, inputs, strict=True)
        return tuple(second(first(value)) for first, second, value in pairs)


@pytest.mark.parametrize("parallelism", [3])
def test_layers_of_scalar_formats(parallelism, tmp_path):
    torch.manual_seed(0)
    model = SideBySide(len(SCALARS))
    example = tuple(torch.randn(1, 11) for _ in SCALARS)
    graph = trace(model.eval(), example)
    linears = [node.name for node in graph.nodes if "linear" in str(node.target)]
    config = {"by": "name"}
    for position, entry in enumerate(SCALARS.values()):
        for name in linears[2 * position : 2 * position + 2]:
            config[name] = {"config": entry}
    mg = quantize(graph, config)
    project = mase_hw.emit_verilog(mg, output=tmp_path / "d", parallelism=parallelism)
    for stall in (0.0, 0.3):
        report = mase_hw.simulate(project, samples=50, stall=stall, seed=3)
        assert report.bit_exact, report.first_mismatch or report.violations
        if not stall:
            assert report.interval_cycles == report.predicted_interval_cycles
            assert report.latency_cycles == report.predicted_latency_cycles
    values = tuple(torch.randn(50, 11) * 2 for _ in SCALARS)
    report = mase_hw.simulate(project, values, stall=0.3)
    assert report.bit_exact, report.first_mismatch or report.violations
