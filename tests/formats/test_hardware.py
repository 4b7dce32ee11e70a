"""Emitted designs in other formats than fixed point, simulated bit by bit."""

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.emit.flow import quantize, to_hardware
from mase_hw.emit.preflight import preflight
from mase_hw.errors import ParallelismError
from mase_hw.graph import common, trace
from tests.engines import as_predicted, exact


def simulate(model, shape, config, parallelism, folder, samples=12, spread=1.0):
    """Emit a model, check bits and predicted cycles, and return the report under pressure."""
    generator = torch.Generator().manual_seed(5)
    example = torch.randn(1, *shape, generator=generator)
    mg = quantize(trace(model.eval(), (example,)), config)
    project = mase_hw.emit_verilog(mg, output=folder, parallelism=parallelism)
    values = torch.randn(samples, *shape, generator=generator) * spread
    for inputs in (values, None):
        options = {"samples": samples} if inputs is None else {}
        free = as_predicted(project, inputs, **options)
        exact(project, inputs, stall=0.3, seed=3, **options)
    return free


def by_type(**entries):
    return {"by": "type", **{name: {"config": entry} for name, entry in entries.items()}}


MXINT = {"name": "mxint", "data_in_width": 8, "data_in_block_size": 8}
MXINT4 = {"name": "mxint", "data_in_width": 4, "data_in_block_size": 4, "data_in_exponent_width": 4}
FIXED_OUT = {"data_out_name": "fixed", "data_out_width": 10, "data_out_frac_width": 6}


@pytest.mark.first(1)
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


def images(*layers):
    torch.manual_seed(0)
    return nn.Sequential(*layers)


BLOCKS = {
    "name": "mxint",
    **{f"{name}_width": 8 for name in ("data_in", "weight", "bias")},
    **{f"{name}_block_size": 4 for name in ("data_in", "weight", "bias")},
}
IMAGES = {
    "relu": ([nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Conv2d(4, 5, 3)], 4),
    "sigmoid": ([nn.Conv2d(2, 6, 3), nn.Sigmoid(), nn.Conv2d(6, 3, 3)], 2),
    "flatten": ([nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3)], 4),
}


@pytest.mark.first(1)
@pytest.mark.parametrize("name", IMAGES)
def test_images_in_blocks_by_default(name, tmp_path):
    layers, parallelism = IMAGES[name]
    config = {"default": {"config": BLOCKS}}
    simulate(images(*layers), (2, 6, 6), config, parallelism, tmp_path / "d", samples=4)


def pooled(pool):
    layers = [
        nn.Conv2d(2, 4, 3),
        nn.ReLU(),
        pool,
        nn.Conv2d(4, 4, 2),
        nn.Flatten(),
        nn.Linear(4, 3),
    ]
    return images(*layers)


@pytest.mark.full
def test_the_fix_for_sums_of_pixels_between_blocks_works(tmp_path):
    pool, config = nn.AvgPool2d(2), {"default": {"config": BLOCKS}}
    mg = trace(pooled(pool), torch.randn(2, 2, 6, 6))
    (problem,) = preflight(quantize(mg, config))
    assert "has hardware for fixed: configure it so, and casts are inserted" in problem.reason
    operator = problem.reason.partition(";")[2].split()[0]
    config[operator] = {"config": {"name": "fixed", "data_in_width": 12}}
    simulate(pooled(pool), (2, 6, 6), config, 2, tmp_path / "d", samples=4)


@pytest.mark.full
def test_maxima_of_pixels_between_blocks_have_hardware(tmp_path):
    config = {"default": {"config": BLOCKS}}
    simulate(pooled(nn.MaxPool2d(2)), (2, 6, 6), config, 2, tmp_path / "d", samples=4)


@pytest.mark.parametrize("block_size", [2, 4, 6])
@pytest.mark.parametrize("parallelism", [1, 2, 3, 4, 5, "auto"])
def test_every_parallelism_is_cut_to_what_divides_the_blocks(block_size, parallelism):
    blocks = {key: block_size if "block" in key else value for key, value in BLOCKS.items()}
    mg = trace(images(nn.Conv2d(3, 5, 3), nn.ReLU(), nn.Conv2d(5, 6, 3)), torch.randn(2, 3, 6, 6))
    mg = quantize(mg, {"default": {"config": blocks}})
    mg = to_hardware(mg, parallelism=parallelism)
    for node in mg.nodes:
        if node.op == "call_function":
            lanes = common(node).results["data_out_0"].parallelism[1]
            assert block_size % lanes == 0
            assert parallelism == "auto" or lanes <= parallelism


def test_two_parallelisms_of_one_stream_of_blocks_are_refused():
    mg = trace(images(nn.Conv2d(3, 4, 3), nn.ReLU()), torch.randn(2, 3, 6, 6))
    mg = quantize(mg, {"default": {"config": BLOCKS}})
    asked = {"conv2d_0": {"data_out_0_dim_0": 2}, "relu_1": {"data_in_0_dim_0": 4}}
    with pytest.raises(ParallelismError, match="ask for the same on both sides"):
        to_hardware(mg, parallelism=asked)
    asked["relu_1"]["data_in_0_dim_0"] = 2
    to_hardware(mg, parallelism=asked)


def test_blocks_of_a_result_with_fewer_dimensions_are_emulated():
    mg = trace(images(*IMAGES["flatten"][0]), torch.randn(2, 2, 6, 6))
    mg = quantize(mg, {"default": {"config": BLOCKS}})
    assert mg(torch.randn(3, 2, 6, 6)).shape == (3, 3)


def test_dropout_is_a_wire_in_every_format():
    """What stands before it gives the format of what stands behind it, without a cast."""
    config = {
        "by": "name",
        "_0": {"config": {"name": "fixed", "data_in_width": 8}},
        "_2": {"config": {**MXINT4, "weight_width": 8, "weight_block_size": 4}},
    }
    model = nn.Sequential(nn.Linear(8, 6), nn.Dropout(0.5), nn.Linear(6, 3, bias=False))
    graph = trace(model.eval(), torch.randn(2, 8))
    first, last = (node.name for node in graph.nodes if "linear" in str(node.target))
    config |= {first: config.pop("_0"), last: config.pop("_2")}
    mg = quantize(graph, config)
    assert str(common(mg.node(first)).results["data_out_0"].format) == "mxint<4,4>"
    assert not [node for node in mg.nodes if "cast" in node.name]
