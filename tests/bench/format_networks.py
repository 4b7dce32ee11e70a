"""Registered networks from port to port in block, float and scaled formats."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from mase_hw._kinds import Record
from tests.bench.base import Row

if TYPE_CHECKING:
    from torch import Tensor

    from mase_hw.emit.project import Project
    from mase_hw.models import Trained

NETWORKS = ("mnist-lenet", "fashion-resnet8")
# What figures are compared with.
REFERENCE: Mapping[str, object] = {
    "name": "fixed",
    "data_in_width": 8,
    "weight_width": 8,
    "bias_width": 8,
}
BAR_POINTS = 1.0
MULTIPLIERS = 64
# Test samples that the integer reference classifies, fewer in a quick run, and those of the
# simulation, which is stalled at random.
SAMPLES, QUICK_SAMPLES, SIMULATED, STALL = 1000, 200, 4, 0.3


def _blocks(name: str, **fields: object) -> Record:
    """Return the configuration of a block format; blocks lie along channels or features."""
    given = {"block_size": 16, **fields}
    return {
        "name": name,
        **{
            f"{operand}_{key}": value
            for operand in ("data_in", "weight")
            for key, value in given.items()
        },
    }


# By the name of the row: the configuration, and whether its accuracy has a bar. Sums over pixels
# are exact, for which scales have five bits, and those of minifloats four.
FORMATS: Mapping[str, tuple[dict[str, object], bool]] = {
    "MXINT8": (_blocks("mxint", width=8, exponent_width=5), True),
    "MXINT4": (_blocks("mxint", width=4, exponent_width=5), False),
    "FP8 E4M3": ({"name": "fp8_e4m3"}, True),
    "block minifloat": (_blocks("block_minifloat", width=8, exponent_bias_width=4), True),
    "INT8": (
        {
            "name": "scaled_integer",
            "data_in_width": 8,
            "data_in_symmetric": False,
            "weight_width": 8,
            "bias_name": "fixed",
            "bias_width": 16,
        },
        True,
    ),
}


def format_networks(quick: bool) -> Iterator[Row]:
    """Yield differing elements and accuracy of each network in each format."""
    from mase_hw.models import models

    for name in NETWORKS:
        trained = models()[name].load()
        with tempfile.TemporaryDirectory() as folder:
            base = _accuracy(_emitted(trained, REFERENCE, Path(folder)), trained, quick)
        yield Row(f"{name}, 8-bit fixed point: accuracy", _share(base, quick), "", None)
        for label, (entry, bounded) in FORMATS.items():
            with tempfile.TemporaryDirectory() as folder:
                project = _emitted(trained, entry, Path(folder))
                yield from _rows(f"{name}, {label}", project, trained, base, bounded, quick)


def _rows(
    what: str, project: Project, trained: Trained, base: float, bounded: bool, quick: bool
) -> Iterator[Row]:
    from mase_hw.api import simulate

    inputs = trained.split.test_inputs[:SIMULATED]
    report = simulate(project, inputs, samples=SIMULATED, stall=STALL)
    found = f"{report.mismatches} of {report.elements} ({SIMULATED} test samples, stalls)"
    yield Row(f"{what}: differing elements", found, "0", report.bit_exact)
    if report.bit_exact:
        accuracy = _accuracy(project, trained, quick)
        near = abs(accuracy - base) * 100 <= BAR_POINTS or accuracy > base
        bar = f"within {BAR_POINTS:g} point" if bounded and not quick else ""
        yield Row(f"{what}: accuracy", _share(accuracy, quick), bar, near if bar else None)


def _emitted(trained: Trained, entry: Mapping[str, object], folder: Path) -> Project:
    """Return a network in a format; every tensor between its ports has it."""
    from mase_hw.api import emit_verilog
    from mase_hw.emit.flow import quantize
    from mase_hw.graph import trace

    graph = trace(trained.module, trained.example_inputs, name="network")
    quantized = quantize(graph, {"by": "type", "default": {"config": entry}})
    return emit_verilog(
        quantized, output=folder / "network", parallelism="auto", multipliers=MULTIPLIERS
    )


def _share(accuracy: float, quick: bool) -> str:
    return f"{accuracy:.2%} of {_samples(quick):,} test samples"


def _samples(quick: bool) -> int:
    return QUICK_SAMPLES if quick else SAMPLES


def _accuracy(project: Project, trained: Trained, quick: bool) -> float:
    """Return the share of test samples that the integer reference classifies right."""
    from mase_hw.emit.project import load_reference

    samples = _samples(quick)
    inputs, labels = trained.split.test_inputs[:samples], trained.split.test_labels[:samples]
    stream, result = project.design.inputs[0], project.design.outputs[0]
    codes = stream.spec.quantized.encode(inputs).reshape(-1, *stream.spec.shape)
    scores: Tensor = load_reference(project.folder)([codes])[result.node]
    values = result.spec.quantized.decode(scores.reshape(samples, -1))
    return float((values.argmax(1) == labels).double().mean())
