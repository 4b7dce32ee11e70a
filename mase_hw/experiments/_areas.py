"""A layer whose one unit is a dot product of 8 lanes, in every format that has hardware for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import nn

from mase_hw.api import emit_verilog, simulate
from mase_hw.errors import SimulationError

if TYPE_CHECKING:
    from mase_hw.emit.project import Project

STALL = 0.3
SEED = 0
LANES = 8
SIZE, RESULTS = 64, 16
WIDTHS = (4, 6, 8)
BLOCKS = {"data_in_block_size": LANES, "weight_block_size": LANES}
EXPONENTS = {"data_in_exponent_width": 2, "weight_exponent_width": 2}
FOUR = {"data_in_width": 4, "weight_width": 4}
# Formats with a width of data and weights, and what else they are given.
WIDE: Mapping[str, Mapping[str, object]] = {
    "fixed": {},
    "scaled_integer": {},
    "minifloat_denorm": EXPONENTS,
    "mxint": BLOCKS,
    "block_fp": BLOCKS,
    "block_minifloat": {**BLOCKS, **EXPONENTS},
}
# Formats of one width.
ONE: Mapping[str, Mapping[str, object]] = {
    "fp4_e2m1": {},
    "fp6_e2m3": {},
    "fp6_e3m2": {},
    "fp8_e4m3": {},
    "mxfp4": BLOCKS,
    "mxfp6": BLOCKS,
    "mxfp8": BLOCKS,
    "log": FOUR,
    "block_log": {**FOUR, **BLOCKS},
    "ternary": {"data_in_scale": 1.0, "weight_scale": 0.25},
    "binary": {"data_in_bipolar": False, "weight_bipolar": True},
}


def designs() -> Iterator[tuple[str, Mapping[str, object]]]:
    """Yield names of formats, a width behind those that have several, and their entries."""
    for name, entry in WIDE.items():
        for width in WIDTHS:
            widths = {"data_in_width": width, "weight_width": width}
            yield f"{name} {width}", {"name": name, **widths, **entry}
    for name, entry in ONE.items():
        yield name, {"name": name, **entry}


def dot_product(entry: Mapping[str, object], folder: Path) -> Project:
    """Emit a layer without bias, and check its bits.

    Raises:
        SimulationError: when they are wrong.
    """
    layer = nn.Linear(SIZE, RESULTS, bias=False)
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(SEED)
        # Weights of a size that formats without a scale hold.
        layer.weight.normal_()
        values = torch.randn(1, SIZE)
    project = emit_verilog(
        layer,
        (values,),
        output=folder,
        config={"by": "type", "default": {"config": dict(entry)}},
        parallelism={"default": 1, "linear": {"data_in_0_dim_0": LANES, "data_out_0_dim_0": 1}},
    )
    report = simulate(project, samples=20, stall=STALL)
    if not report.bit_exact:
        raise SimulationError(f"no area without a bit-exact design: {report.first_mismatch}")
    return project
