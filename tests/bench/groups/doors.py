"""Models that somebody else has quantised: the codes of files and modules against ours."""

from __future__ import annotations

import importlib
import math
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import onnx
import torch
from torch import Tensor

import mase_hw
from mase_hw.emit.flow import lowered, quantize
from mase_hw.emit.project import Project
from mase_hw.errors import ConfigError, MaseError
from mase_hw.exporters.comparison import compare
from mase_hw.graph import MaseGraph
from mase_hw.graph.nodes import metadata
from mase_hw.graph.reference import IntegerReference, spec
from mase_hw.hardware.estimate import estimate
from mase_hw.registry import nearest
from tests.bench.base import PYTHON, Benchmark, Row, python_environment

# Beside the checkout where there is one; figures of networks that are missing are left out.
_PLACES = [folder / "shared" / "models" for folder in Path(__file__).resolve().parents]
MODELS = next((place for place in _PLACES if place.is_dir()), _PLACES[-1])
# File, spread of the random inputs, multipliers, bar of the interval.
NETWORKS = {
    "autoencoder": ("mlperf_deep_autoencoder.onnx", 100.0, 64, None),
    "DS-CNN": ("mlperf_kws_ref_model.onnx", 50.0, 188, 14_420),
    "ResNet-8": ("mlperf_resnet.onnx", 60.0, 211, 60_400),
    "MobileNet": ("mlperf_vww.onnx", 1.0, 564, 13_550),
}
SAMPLES, QUICK_SAMPLES = 200, 8
RUNTIME_SAMPLES, AT_A_TIME = 1000, 50
INFERENCES = 1000
SEED = 0
# What a process does that opens a file.
OPENING = """
import sys, time, torch
print(time.process_time())
import mase_hw
file, folder, multipliers = sys.argv[1:]
mase_hw.emit_verilog(file, output=folder, parallelism="auto", multipliers=int(multipliers))
print(time.process_time())
"""


class Doors(Benchmark):
    """Networks from ONNX files, QONNX files and Brevitas."""

    name: ClassVar[str] = "doors"
    title: ClassVar[str] = "models that somebody else has quantised"
    default: ClassVar[bool] = False

    def __init__(self, samples: int | None = None, names: Sequence[str] = ()) -> None:
        self.samples, self.names = samples, names

    def sampled(self, samples: int) -> Doors:
        """Return the benchmark with so many inputs of each network."""
        return Doors(samples, self.names)

    def only(self, names: Sequence[str]) -> Doors:
        """Return the benchmark with some figures alone; a network's name stands for all of its."""
        known = Doors().parts()
        for name in names:
            if name not in {*NETWORKS, *known}:
                raise ConfigError(
                    f"no figure is called {name!r}; {nearest(name, [*NETWORKS, *known])}"
                )
        chosen = [part for part in known if {part, part.split("/")[0]} & set(names)]
        return Doors(self.samples, chosen)

    def parts(self) -> list[str]:
        """Return the names of the figures, networks that are there alone."""
        if self.names:
            return list(self.names)
        there = [name for name, (file, *_) in NETWORKS.items() if (MODELS / file).is_file()]
        return [f"{name}/{part}" for name in there for part in PARTS] + [*FIGURES]

    def rows(self, *, quick: bool = False) -> Iterator[Row]:
        """Yield the figures of every network that is there."""
        torch.set_num_threads(1)
        count = self.samples or (QUICK_SAMPLES if quick else SAMPLES)
        for name in self.parts():
            if name in FIGURES:
                yield from FIGURES[name](count * INFERENCES // SAMPLES)
                continue
            with tempfile.TemporaryDirectory() as folder:
                network, _, part = name.partition("/")
                yield from PARTS[part](Network(network, Path(folder), count))


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


class Network:
    """One network of a file, with inputs.

    Args:
        name: of `NETWORKS`.
        folder: for what is written.
        count: inputs.
    """

    def __init__(self, name: str, folder: Path, count: int) -> None:
        file, self.spread, self.multipliers, self.bar = NETWORKS[name]
        self.name, self.folder, self.count = name, folder, count
        self.file = without_softmax(MODELS / file, folder)

    @cached_property
    def graph(self) -> MaseGraph:
        """The quantised graph."""
        return quantize(mase_hw.trace(self.file))

    @cached_property
    def project(self) -> Project:
        """The emitted design, within the multipliers of the bar."""
        arguments: Any = {"parallelism": "auto", "multipliers": self.multipliers}
        return mase_hw.emit_verilog(self.graph, output=self.folder / "d", **arguments)

    def inputs(self, count: int) -> Tensor:
        """Return random inputs, the same ones each time."""
        generator = torch.Generator().manual_seed(SEED)
        shape = self.graph.example_inputs[0].shape[1:]
        return torch.randn(count, *shape, generator=generator) * self.spread


def opened(network: Network) -> Iterator[Row]:
    """Yield what opening a file takes, the cycles and the area of its design."""
    project, name = network.project, network.name
    multipliers, bar = network.multipliers, network.bar
    # The first process leaves the compiled modules of Python for the others.
    times = [opening_seconds(network) for _ in range(4)][1:]
    whole, imports = min(times)
    yield Row(
        f"{name}: file to project, CPU s of the fastest of 3 processes; of those until torch is "
        "imported", f"{whole:.1f}; {imports:.1f}", "<= 5", whole <= 5,
    )  # fmt: skip
    free = mase_hw.simulate(project, network.inputs(3))
    cycles, latency = int(free.interval_cycles or 0), int(free.latency_cycles or 0)
    yield Row(
        f"{name}: interval, {multipliers} multipliers asked for", str(cycles),
        "" if bar is None else f"<= {bar}", bar is None or cycles <= bar,
    )  # fmt: skip
    if bar is not None:
        least = least_multipliers(lowered(network.graph), bar)
        yield Row(f"{name}: least multipliers of any design by pixels in {bar} cycles", str(least),
                  f"<= {multipliers}", least <= multipliers)  # fmt: skip
    ratio, bound = latency / max(cycles, 1), name == "ResNet-8"
    yield Row(f"{name}: latency / interval", f"{ratio:.2f}", "<= 1.3" if bound else "",
              not bound or ratio <= 1.3)  # fmt: skip
    area = estimate(project.mg)
    yield Row(f"{name}: LUT, DSP, estimated", f"{area.lut:.0f}, {area.dsp}",
              "<= 47000" if bound else "", not bound or area.lut <= 47_000)  # fmt: skip


def opening_seconds(network: Network) -> tuple[float, float]:
    """Return the CPU time of a process from its start to the project, and until torch is there."""
    cache = str(network.folder / "compiled")
    given = python_environment(PYTHONDONTWRITEBYTECODE="", PYTHONPYCACHEPREFIX=cache)
    arguments = [str(network.file), str(network.folder / "opened"), str(network.multipliers)]
    done = subprocess.run(
        [PYTHON, "-c", OPENING, *arguments], env=given, capture_output=True, text=True, check=True
    )
    imported, whole = map(float, done.stdout.split()[-2:])
    return whole, imported


def least_multipliers(low: MaseGraph, interval: int) -> int:
    """Return how many multipliers layers need at least that each work on one pixel at a time.

    A layer has whole multipliers, and takes whole cycles for a pixel of its result.
    """
    total = 0
    for node in low.nodes:
        call = low.call(node) if node.op == "call_function" else None
        if call is None or "weight" not in call.constants:
            continue
        shape = call.result.shape
        pixels = math.prod(shape[2:])
        products = call.operator.operations(call) // 2 // pixels
        total += -(-products // (interval // pixels))
    return total


def rationals(network: Network) -> Iterator[Row]:
    """Compare the codes of the result with exact rational numbers."""
    rational: Any = importlib.import_module("tests.doors.rational")
    low, x = lowered(network.graph), network.inputs(network.count)
    model, off, size = rational.RationalModel(network.file), 0, 0
    for part in _batches(x, AT_A_TIME):
        wanted = list(model.codes(part.numpy()).values())[-1]
        off += int((codes_of(low, part).reshape(wanted.shape).numpy() != wanted).sum())
        size += wanted.size
    what = f"{network.name}: codes unlike exact rationals, {len(x)} inputs"
    yield Row(what, f"{off} of {size}", "0", off == 0)


def rtl(network: Network) -> Iterator[Row]:
    """Compare the RTL with the integer reference."""
    yield simulated(network.name, network.project, network.inputs(network.count))


def simulated(name: str, project: Project, x: Tensor) -> Row:
    """Compare the RTL with the integer reference, with stalls."""
    off = size = 0
    for seed, part in enumerate(_batches(x, AT_A_TIME)):
        report = mase_hw.simulate(project, part, stall=0.2, seed=seed)
        off, size = off + report.mismatches, size + report.elements
        if not report.bit_exact:
            break
    what = f"{name}: elements of the RTL unlike the reference, stalls, {len(x)} inputs"
    return Row(what, f"{off} of {size}", "0", off == 0 and report.bit_exact)


def runtime(network: Network) -> Iterator[Row]:
    """Yield how many codes of all layers differ from ONNX Runtime's, and by how many steps."""
    name, count = network.name, min(network.count * 5, RUNTIME_SAMPLES)
    x = network.inputs(count)
    found = [compare(network.file, network.graph, part).layers for part in _batches(x, AT_A_TIME)]
    off, first, size = (
        sum(getattr(layer, field) for layers in found for layer in layers)
        for field in ("differing", "first", "elements")
    )
    largest = max(layer.largest for layers in found for layer in layers)
    yield Row(
        f"{name}: codes of {len(found[0])} layers unlike ONNX Runtime's, {count} inputs; largest",
        f"{100 * off / size:.4f} %, {largest:g}", "<= 0.01 %, 1",
        off <= 1e-4 * size and largest <= 1,
    )  # fmt: skip
    yield Row(f"{name}: those of them with no difference in a layer before",
              f"{100 * first / size:.4f} %", "<= 0.01 %", first <= 1e-4 * size)  # fmt: skip
    yield apart(network, x)


def apart(network: Network, x: Tensor) -> Row:
    """Compare every layer with exact rationals of the codes that ONNX Runtime gives it."""
    model: Any = importlib.import_module("tests.doors.rational").RationalModel(network.file)
    theirs: Any = importlib.import_module("tests.doors.runtime").Runtime(network.file)
    layers = [
        layer
        for part in _batches(x, AT_A_TIME)
        for layer in model.differing(part.numpy(), theirs.codes(part.numpy()))
    ]
    size, largest = sum(a.elements for a in layers), max(layer.largest for layer in layers)
    pairs = [pair for layer in layers for pair in zip(layer.distances, layer.bounds, strict=True)]
    far = sum(distance > bound for distance, bound in pairs)
    farthest = max((distance for distance, _ in pairs), default=0.0)
    return Row(
        f"{network.name}: of a layer's codes, given the same ones, differ; largest; are farther "
        "from a tie than single precision may be off; farthest, in steps",
        f"{len(pairs)} of {size} ({100 * len(pairs) / size:.5f} %); {largest}; {far}; "
        f"{farthest:.1e}",
        "<= 0.01 %; 1; 0", len(pairs) <= 1e-4 * size and largest <= 1 and not far,
    )  # fmt: skip


PARTS = {"cycles": opened, "rationals": rationals, "runtime": runtime, "rtl": rtl}


def codes_of(low: MaseGraph, x: Tensor, name: str | None = None) -> Tensor:
    """Return the codes of a node, the one result when not given."""
    reference = IntegerReference(low)
    (entry,), (output,) = reference.inputs, reference.outputs
    wanted = name or output.name
    return reference([spec(entry).quantized.encode(x)], [wanted])[wanted]


def qonnx_files(count: int) -> Iterator[Row]:
    """Yield how the files of the package qonnx that have hardware compare with its execution."""
    execution: Any = importlib.import_module("tests.doors.qonnx_execution")
    exact, named = 0, []
    for path in execution.files():
        label = execution.label(path)
        try:
            graph = mase_hw.trace(path)
            low = lowered(quantize(graph))
        except MaseError as error:
            named.append(f"{label} ({error})")
            continue
        inputs = execution.inputs_of(path, graph.example_inputs)
        tensors, (result,) = execution.executed(path, inputs)
        wanted = tensors[result]
        far = (graph(*inputs) - wanted).abs() > 1e-4 * wanted.abs().max()
        off = float(far.double().mean())
        yield Row(f"{label}: reals of the graph unlike those of qonnx", f"{100 * off:.4f} %",
                  "<= 0.01 %", off <= 1e-4)  # fmt: skip
        exact += off <= 1e-4
        if any(metadata(node).exact for node in low.nodes):
            held = execution.held_inputs(low, inputs)
            layers = compare(execution.layers(path, low), low, held).layers
            differing, size = sum(a.differing for a in layers), sum(a.elements for a in layers)
            largest = max(layer.largest for layer in layers)
            yield Row(f"{label}: codes of {len(layers)} layers unlike those of qonnx; largest",
                      f"{differing} of {size}, {largest:g}", "<= 0.01 %, 1",
                      differing <= 1e-4 * size and largest <= 1)  # fmt: skip
    measured = f"{exact} of {exact + len(named)}; named: {', '.join(named) or 'none'}"
    yield Row("files of the package qonnx that have hardware", measured, "count", True)


def modules(count: int) -> Iterator[Row]:
    """Yield how many codes of networks of Brevitas, pt2e and torchao differ from their own."""
    nets: Any = importlib.import_module("tests.doors.brevitas_models").MODELS
    made: Any = importlib.import_module("tests.doors.torch_models")
    for name, build in nets.items():
        model, x = build()
        x = x[:count]
        with torch.no_grad():
            expected = model(x)
        low = lowered(quantize(mase_hw.trace(model, x[:2])))
        found = codes_of(low, x)
        wanted = spec(low.outputs[0]).quantized.encode(expected).reshape(found.shape)
        yield from agreeing(f"Brevitas, {name}", model, x, found, wanted)
    model, example = made.exported_quantised()
    # Its program has a fixed batch.
    x = torch.randn(-(-count // len(example)) * len(example), *example.shape[1:]) * 1.2
    low = lowered(quantize(mase_hw.trace(model, example)))
    node = made.last_rounded(low).name
    found = torch.cat([codes_of(low, part, node) for part in _batches(x, len(example))])
    wanted = torch.cat([made.codes_of(model, part) for part in _batches(x, len(example))])
    yield from agreeing("pt2e", model, x, found, wanted.reshape(found.shape).long(), example)
    model, example = made.weights_only()
    x = torch.randn(count, *example.shape[1:]) * 1.2
    graph = quantize(mase_hw.trace(model, example))
    call = next(graph.call(item) for item in graph.nodes if item.name.endswith("linear_3"))
    yield from agreeing("torchao, weights", model, x, call.constant_codes("weight"),
                        model[3].weight.qdata.long(), example)  # fmt: skip


def agreeing(
    name: str, model: Any, x: Tensor, found: Tensor, wanted: Tensor, example: Tensor | None = None
) -> Iterator[Row]:
    """Yield how many codes differ from a module's own, and elements of the RTL from ours."""
    off = int((found != wanted).sum())
    yield Row(f"{name}: codes unlike its own, {len(x)} inferences", f"{off} of {found.numel()}",
              "0", off == 0)  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        inputs = x[:2] if example is None else example
        project = mase_hw.emit_verilog(model, inputs, output=Path(folder) / "d", parallelism=2)
        yield simulated(name, project, x)


def operators(count: int) -> Iterator[Row]:
    """Count the operators of ONNX whose cases, which the package onnx makes, agree."""
    cases: Any = importlib.import_module("tests.doors.test_onnx_operators")
    kinds, agreed, refused = cases.kinds(), 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for kind in kinds:
            good, bad = cases.agreed(kind, Path(folder))
            agreed, refused = agreed + good, refused + len(bad)
    yield Row(f"cases of {len(kinds)} ONNX operators that agree; that are refused by name",
              f"{agreed}; {refused}", "all claimed", True)  # fmt: skip


FIGURES = {"qonnx": qonnx_files, "modules": modules, "operators": operators}


def _batches(x: Tensor, size: int) -> list[Tensor]:
    return [x[start : start + size] for start in range(0, len(x), size)]
