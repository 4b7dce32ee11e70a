"""Networks as logic: look-up tables of given weights beside those of public generators."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

import mase_hw
from mase_hw.emit.project import Project
from mase_hw.hardware.estimate import estimate
from tests.bench.base import Benchmark, Row

WEIGHTS = Path(__file__).resolve().parents[1] / "unrolled.npz"
# Look-up tables of da4ml 0.6.0 on the same weights, by Yosys 0.70.
OTHERS = {"w6_dense": 49_751, "w6_sp50": 29_266, "w8f3": 30_989, "w8f3_sp50": 18_532}
LAYER, OTHER_LAYER, MOST_STAGES = "w6_sp50", 1_045, 4
VECTORS, QUICK_VECTORS, REPEATS = 20_000, 500, 5
MOST_SECONDS, LEAST_RATE, MOST_ERROR = 10.0, 300_000, 0.08
Layer = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]


class Unrolled(Benchmark):
    """Four sets of weights of one perceptron, 16-64-32-32-5, and its last layer alone."""

    name: ClassVar[str] = "unrolled"
    title: ClassVar[str] = "Networks as logic, an inference a cycle"
    default: ClassVar[bool] = False

    def __init__(self, names: Sequence[str] = (*OTHERS, "layer")) -> None:
        self._names = names

    def only(self, names: Sequence[str]) -> Unrolled:
        return Unrolled([name for name in self.parts() if name in names])

    def parts(self) -> Sequence[str]:
        return (*OTHERS, "layer")

    def rows(self, *, quick: bool = False) -> Iterator[Row]:
        """Yield the figures of each set, after its results were compared with plain integers."""
        vectors = QUICK_VECTORS if quick else VECTORS
        for name in self._names:
            whole = name != "layer"
            layers, shifts = _weights(name if whole else LAYER)
            if not whole:
                layers, shifts = layers[-1:], []
            with TemporaryDirectory(prefix="mase_hw_unrolled_") as folder:
                yield from _measured(name, layers, shifts, Path(folder) / "project", vectors)


def _weights(name: str) -> tuple[list[Layer], list[int]]:
    data = np.load(WEIGHTS)
    layers = [
        (data[f"{name}_w{place}"].astype(np.int64), data[f"{name}_b{place}"].astype(np.int64))
        for place in range(4)
    ]
    return layers, [int(shift) for shift in data[f"{name}_shifts"]]


def _network(
    layers: Sequence[Layer], shifts: Sequence[int]
) -> tuple[nn.Module, Mapping[str, object]]:
    """Return a perceptron and the formats in which it computes the integers of `_expected`."""
    modules: list[nn.Module] = []
    config: dict[str, object] = {"by": "name"}
    fraction = 0
    for place, (weight, bias) in enumerate(layers):
        layer = nn.Linear(*weight.shape)
        layer.weight.data = torch.tensor(weight.T, dtype=torch.float32)
        layer.bias.data = torch.tensor(bias, dtype=torch.float32) * 2.0**-fraction
        first = place == 0 and bool(shifts)
        entry: dict[str, object] = {
            "name": "fixed",
            **{"data_in_width": 8 if first else 7, "data_in_signed": first},
            "data_in_frac_width": fraction,
            **{"weight_width": 8, "weight_frac_width": 0},
            **{"bias_width": 16, "bias_frac_width": fraction},
            **{"data_out_width": 17, "data_out_frac_width": fraction},
        }
        modules.append(layer)
        config[f"linear_{2 * place}"] = {"config": entry}
        if place < len(shifts):
            fraction -= shifts[place]
            out = {"data_out_width": 8, "data_out_frac_width": fraction}
            entry |= {**out, "data_out_rounding": "floor"}
            data = {"data_in_width": 8, "data_in_frac_width": fraction}
            bound = {"name": "fixed", **data, **out, "data_out_width": 7, "data_out_signed": False}
            modules.append(nn.ReLU())
            config[f"relu_{2 * place + 1}"] = {"config": bound}
    return nn.Sequential(*modules), config


def _expected(
    layers: Sequence[Layer], shifts: Sequence[int], data: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Return the results in plain integers."""
    for place, (weight, bias) in enumerate(layers):
        data = data @ weight + bias
        if place < len(shifts):
            data = np.minimum(np.maximum(data, 0) >> shifts[place], 127)
    return data


def _measured(
    name: str, layers: Sequence[Layer], shifts: Sequence[int], folder: Path, vectors: int
) -> Iterator[Row]:
    model, config = _network(layers, shifts)
    random = np.random.default_rng(0)
    low, high = (-128, 128) if shifts else (0, 128)
    codes = random.integers(low, high, (vectors, layers[0][0].shape[0]))
    examples = torch.tensor(codes, dtype=torch.float32)
    mg = mase_hw.quantize(mase_hw.trace(model, examples[:64]), config)
    began = time.process_time()
    project = mase_hw.emit_verilog(mg, output=folder, mode="unrolled")
    seconds = time.process_time() - began
    report = mase_hw.simulate(project, examples, repeats=REPEATS)
    (results,) = report.outputs.values()
    wrong = int((results.numpy().reshape(vectors, -1) != _expected(layers, shifts, codes)).sum())
    yield Row(
        f"{name}: elements that differ from plain integers, {vectors:,} vectors",
        str(wrong),
        "0",
        wrong == 0 and report.is_right,
    )
    if wrong:
        return
    yield from _resources(name, project, seconds)
    rate = report.cycles_per_second / project.design.interval_cycles
    yield Row(
        f"{name}: native simulation, inferences a second",
        f"{rate:,.0f}",
        f">= {LEAST_RATE:,}",
        rate >= LEAST_RATE,
    )


def _resources(name: str, project: Project, seconds: float) -> Iterator[Row]:
    total = mase_hw.synthesize(project).total
    lut, ff = round(total.lut), total.ff
    bar = OTHERS.get(name, OTHER_LAYER)
    yield Row(f"{name}: LUT (FF {ff:,})", f"{lut:,}", f"<= {bar:,}", lut <= bar)
    error = estimate(project.mg).lut / lut - 1
    yield Row(
        f"{name}: estimated LUT", f"{error:+.1%}", f"{MOST_ERROR:.0%}", abs(error) <= MOST_ERROR
    )
    stages = project.design.latency_cycles - 2
    bound = "" if name in OTHERS else f"<= {MOST_STAGES}"
    yield Row(f"{name}: stages", str(stages), bound, not bound or stages <= MOST_STAGES)
    yield Row(
        f"{name}: emission, CPU seconds",
        f"{seconds:.1f}",
        f"<= {MOST_SECONDS:.0f}",
        seconds <= MOST_SECONDS,
    )
