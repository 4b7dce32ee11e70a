"""Estimated resources: the rules, and how far they are from synthesis."""

import pytest
import torch

from mase_hw.api import emit_verilog, synthesize
from mase_hw.emit.flow import quantize, to_hardware
from mase_hw.graph import trace
from mase_hw.hardware.estimate import Estimate, estimate, memory
from mase_hw.models import perceptron
from mase_hw.search.objective import hardware_metrics


def graph(width, sizes=(16, 32, 5)):
    torch.manual_seed(0)
    entry = {"name": "fixed", "data_in_width": width, "weight_width": width, "bias_width": 8}
    mg = trace(perceptron(*sizes).eval(), torch.randn(32, sizes[0]), name="net")
    return quantize(mg, {"by": "type", "default": {"config": entry}})


@pytest.mark.parametrize("parallelism", [1, 2, 4])
def test_products_take_dsp_blocks_from_nine_bits(parallelism):
    eight = to_hardware(graph(8), parallelism=parallelism)
    four = to_hardware(graph(4), parallelism=parallelism)
    multipliers = hardware_metrics(graph(8), {"default": parallelism})["multipliers"]
    assert estimate(eight).dsp == multipliers
    assert estimate(four).dsp == 0
    assert estimate(four).energy_pj < estimate(eight).energy_pj


@pytest.mark.parametrize(
    ("depth", "width", "blocks"),
    [(4096, 8, 1.0), (2048, 8, 0.5), (256, 128, 0.0), (320, 8, 0.0), (16384, 1, 0.5)],
)
def test_memories_go_where_the_mapper_puts_them(depth, width, blocks):
    assert memory(depth, width).bram == blocks
    assert (memory(depth, width).lut == 0) == (blocks > 0)


def test_energy_does_not_depend_on_parallelism_where_it_divides():
    energies = {
        estimate(to_hardware(graph(8, (16, 32, 8)), parallelism=p)).energy_pj for p in (1, 2, 4, 8)
    }
    assert len({round(value, 6) for value in energies}) == 1
    assert Estimate(1, 2, 3, 4) + Estimate(1, 1, 1, 1) == Estimate(2, 3, 4, 5)


@pytest.mark.slow
@pytest.mark.parametrize(("width", "parallelism"), [(8, 1), (8, 4), (4, 2)])
def test_the_estimate_is_near_synthesis(tmp_path, width, parallelism):
    mg = graph(width)
    project = emit_verilog(mg, output=tmp_path / "net", parallelism=parallelism)
    found = synthesize(project).total
    guess = estimate(project.mg)
    assert guess.dsp == found.dsp
    assert guess.bram == found.bram
    assert guess.lut == pytest.approx(found.lut, rel=0.35)
