"""Models that somebody else has quantised: the codes of files and modules against ours."""

from __future__ import annotations

import importlib
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import onnx
import torch
from torch import Tensor

import mase_hw
from mase_hw.emit.flow import lowered, quantize
from mase_hw.errors import MaseError
from mase_hw.graph import MaseGraph
from mase_hw.graph.reference import IntegerReference, spec
from mase_hw.hardware.estimate import estimate
from tests.bench.base import Benchmark, Row

# Beside the checkout where there is one; figures of networks that are missing are left out.
MODELS = Path(__file__).resolve().parents[5] / "shared" / "models"
# File, spread of the random inputs, multipliers, bar of the interval.
NETWORKS = {
    "autoencoder": ("mlperf_deep_autoencoder.onnx", 100.0, 64, None),
    "DS-CNN": ("mlperf_kws_ref_model.onnx", 50.0, 188, 14_420),
    "ResNet-8": ("mlperf_resnet.onnx", 60.0, 211, 60_400),
    "MobileNet": ("mlperf_vww.onnx", 1.0, 564, 13_550),
}
BREVITAS = ("perceptron", "residual", "signs")
SAMPLES, QUICK_SAMPLES = 200, 8
RUNTIME_SAMPLES = 1000
SEED = 0


class Doors(Benchmark):
    """Networks from ONNX files, QONNX files and Brevitas."""

    name: ClassVar[str] = "doors"
    title: ClassVar[str] = "models that somebody else has quantised"
    default: ClassVar[bool] = False

    def __init__(self, samples: int | None = None) -> None:
        self.samples = samples

    def sampled(self, samples: int) -> Doors:
        """Return the benchmark with so many inputs of each network."""
        return Doors(samples)

    def rows(self, *, quick: bool = False) -> Iterator[Row]:
        """Yield the figures of every network that is there."""
        torch.set_num_threads(1)
        count = self.samples or (QUICK_SAMPLES if quick else SAMPLES)
        for name, (file, spread, multipliers, bar) in NETWORKS.items():
            path = MODELS / file
            if path.is_file():
                yield from network(name, path, spread, multipliers, bar, count)
        yield qonnx_files()
        yield from modules()


def without_softmax(path: Path, folder: Path) -> Path:
    """Write a file without the softmax at its end, so that its results are codes."""
    model = onnx.load(str(path))
    last = model.graph.node[-1]
    if last.op_type == "Softmax":
        model.graph.node.pop()
        del model.graph.output[:]
        made = onnx.helper.make_tensor_value_info(last.input[0], 1, [1, None])
        model.graph.output.append(made)
    made_path = folder / path.name
    onnx.save(model, str(made_path))
    return made_path


def network(
    name: str, path: Path, spread: float, multipliers: int, bar: int | None, count: int
) -> Iterator[Row]:
    """Yield the figures of one file: exact rationals, ONNX Runtime, RTL, cycles."""
    rational: Any = importlib.import_module("tests.doors.rational")
    torch.manual_seed(SEED)
    with tempfile.TemporaryDirectory() as folder:
        file = without_softmax(path, Path(folder))
        start = time.process_time()
        graph = quantize(mase_hw.trace(file))
        arguments = {"parallelism": "auto", "multipliers": multipliers}
        project = mase_hw.emit_verilog(graph, output=Path(folder) / "d", **arguments)  # type: ignore[arg-type]
        opened = time.process_time() - start
        shape = graph.example_inputs[0].shape[1:]
        x = torch.randn(count, *shape) * spread
        wanted = list(rational.RationalModel(file).codes(x.numpy()).values())[-1]
        found = codes_of(lowered(graph), x)
        off = int((found.reshape(wanted.shape).numpy() != wanted).sum())
        yield Row(
            f"{name}: codes unlike exact rationals, {count} inputs",
            f"{off} of {wanted.size}", "0", off == 0,
        )  # fmt: skip
        yield from runtime(name, file, graph, min(count * 5, RUNTIME_SAMPLES), spread)
        report = mase_hw.simulate(project, x, stall=0.2, seed=SEED)
        yield Row(
            f"{name}: elements of the RTL unlike the reference, stalls, {count} inputs",
            f"{report.mismatches} of {report.elements}", "0", report.bit_exact,
        )  # fmt: skip
        if not report.bit_exact:
            return
        free = mase_hw.simulate(project, x[:3])
        cycles, latency = int(free.interval_cycles or 0), int(free.latency_cycles or 0)
        area = estimate(project.mg)
        yield Row(
            f"{name}: interval (latency / interval), {multipliers} multipliers asked for",
            f"{cycles} ({latency / max(cycles, 1):.2f})",
            "" if bar is None else f"<= {bar}", bar is None or cycles <= bar,
        )  # fmt: skip
        yield Row(f"{name}: LUT, DSP, estimated", f"{area.lut:.0f}, {area.dsp}", "", True)
        yield Row(f"{name}: file to project, CPU s", f"{opened:.1f}", "<= 5", opened <= 5)


def runtime(name: str, file: Path, graph: MaseGraph, count: int, spread: float) -> Iterator[Row]:
    """Yield how many codes of all layers differ from ONNX Runtime's, and by how many steps."""
    x = torch.randn(count, *graph.example_inputs[0].shape[1:]) * spread
    layers = mase_hw.compare(file, graph, x).layers
    off, size = sum(item.differing for item in layers), sum(item.elements for item in layers)
    largest = max(item.largest for item in layers)
    last = 100 * layers[-1].differing / layers[-1].elements
    yield Row(
        f"{name}: codes of {len(layers)} layers unlike ONNX Runtime's, {count} inputs; largest",
        f"{100 * off / size:.4f} %, {largest:g}; last layer {last:.4f} %",
        "<= 0.01 %, 1", off <= 1e-4 * size and largest <= 1,
    )  # fmt: skip


def codes_of(low: MaseGraph, x: Tensor) -> Tensor:
    """Return the codes of the one result."""
    reference = IntegerReference(low)
    (entry,), (output,) = reference.inputs, reference.outputs
    return reference([spec(entry).quantized.encode(x)])[output.name]


def qonnx_files() -> Row:
    """Count the files of the package qonnx that have hardware; the others are named."""
    import qonnx

    paths = sorted(Path(qonnx.__file__).parent.glob("data/onnx/**/*.onnx"))
    named, exact = [], 0
    for path in paths:
        try:
            lowered(quantize(mase_hw.trace(path)))
            exact += 1
        except MaseError:
            named.append(path.parent.name)
    measured = f"{exact} of {len(paths)}; named: {', '.join(named) or 'none'}"
    return Row("files of the package qonnx that have hardware", measured, "count", True)


def modules() -> Iterator[Row]:
    """Yield how many codes of networks of Brevitas differ from the modules' own."""
    nets: Any = importlib.import_module("tests.doors.brevitas_models").MODELS
    for name in BREVITAS:
        model, x = nets[name]()
        with torch.no_grad():
            expected = model(x)
        low = lowered(quantize(mase_hw.trace(model, x[:2])))
        found = codes_of(low, x)
        wanted = spec(low.outputs[0]).quantized.encode(expected).reshape(found.shape)
        off = int(np.sum(found.numpy() != wanted.numpy()))
        yield Row(f"Brevitas, {name}: codes unlike the module's, {len(x)} inferences",
                  f"{off} of {found.numel()}", "0", off == 0)  # fmt: skip
