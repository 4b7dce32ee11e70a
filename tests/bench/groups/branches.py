"""The registered networks: bit-exact over their test sets, at the bound, with busy multipliers."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from tests.bench.base import PYTHON, Benchmark, Row, median_seconds, python_environment, timed
from tests.bench.identical_layers import identical_layers

if TYPE_CHECKING:
    from mase_hw.emit.project import Project
    from mase_hw.models import RegisteredModel, Trained
    from mase_hw.sim.simulate import SimulationReport

# The budget of multipliers of each network.
NETWORKS: Mapping[str, int] = {
    "letter-mlp": 64,
    "magic-mlp": 64,
    "mnist-lenet": 128,
    "mnist-cnn": 128,
    "fashion-resnet8": 128,
    "har-cnn1d": 128,
}
STALL = 0.3
STALLED_SAMPLES: Mapping[str, int] = {"native": 40, "cocotb": 3}

COLD_BUILD = """
import sys
from pathlib import Path
from mase_hw.sim.simulate import simulate
assert simulate(Path(sys.argv[1]), samples=1).bit_exact
"""


@dataclass(frozen=True)
class Network:
    """A trained network with its project.

    Attributes:
        name: the word a command uses.
        multipliers: the budget.
        model: its recipe.
        trained: its module and data.
        project: its hardware.
    """

    name: str
    multipliers: int
    model: RegisteredModel
    trained: Trained
    project: Project


class Branches(Benchmark):
    """Accuracy on the RTL, cycles, multipliers, speed of the tools, and resources."""

    name: ClassVar[str] = "branches"
    title: ClassVar[str] = "registered networks, 8-bit fixed point, auto parallelism"

    def rows(self, *, quick: bool = False) -> Iterator[Row]:
        """Yield the figures; `quick` takes 100 test samples and synthesizes nothing."""
        import torch

        torch.set_num_threads(1)
        with tempfile.TemporaryDirectory(prefix="mase-hw-bench-") as folder:
            for name in NETWORKS:
                network = prepare(name, Path(folder))
                yield from exactness(network)
                yield from accuracy_and_cycles(network, 100 if quick else None)
                if name == "fashion-resnet8":
                    yield from tools(network, Path(folder))
                if not quick:
                    yield resources(network)
        yield from identical_layers()


def prepare(name: str, folder: Path) -> Network:
    """Return a network, trained if it never was, with its project in `folder`."""
    from mase_hw.models import models

    model = models()[name]
    trained = model.load()
    project = emit(model, trained, NETWORKS[name], folder / name)
    return Network(name, NETWORKS[name], model, trained, project)


def emit(model: RegisteredModel, trained: Trained, multipliers: int, folder: Path) -> Project:
    """Capture a network and write its project."""
    from mase_hw.api import emit_verilog
    from mase_hw.graph import trace

    graph = trace(trained.module, trained.example_inputs, name=re.sub(r"\W", "_", model.name))
    return emit_verilog(
        graph, output=folder, config=model.config, parallelism="auto", multipliers=multipliers
    )


def exactness(network: Network) -> Iterator[Row]:
    """Compare test samples under random stalls in both engines."""
    from mase_hw.sim.simulate import simulate

    for engine, count in STALLED_SAMPLES.items():
        report = simulate(
            network.project.folder,
            network.trained.split.test_inputs[:count],
            engine=engine,
            stall=STALL,
            seed=1,
        )
        yield Row(
            f"{network.name}: elements that differ, {count} samples, stalls, {engine}",
            f"{report.mismatches} of {report.elements:,}",
            "0",
            report.bit_exact,
        )


def accuracy_and_cycles(network: Network, samples: int | None) -> Iterator[Row]:
    """Run the test set on the RTL, without stalls."""
    from mase_hw.sim.simulate import simulate

    folder, inputs = network.project.folder, network.trained.split.test_inputs[:samples]
    simulate(folder, inputs[:1])  # Builds.
    with timed() as elapsed:
        report = simulate(folder, inputs)
    yield accuracy(network, report)
    bound = network.project.design.interval_cycles
    interval = report.interval_cycles or 0
    yield Row(
        f"{network.name}: interval simulated / bound",
        f"{interval:,g} / {bound:,}",
        "<= 1.05",
        report.bit_exact and 0 < interval <= 1.05 * bound,
    )
    latency, predicted = report.latency_cycles or 0, report.predicted_latency_cycles
    yield Row(
        f"{network.name}: latency simulated (predicted)",
        f"{latency:,} ({predicted:,})",
        "within 2",
        report.bit_exact and abs(latency - predicted) <= 2,
    )
    yield busy_multipliers(network, interval)
    seconds, is_lenet = elapsed.wall, network.name == "mnist-lenet"
    yield Row(
        f"{network.name}: {len(inputs):,} samples, native engine, after the build",
        f"{seconds:.1f} s ({report.cycles_per_second:,.0f} cycles/s)",
        "<= 60 s" if is_lenet else "",
        report.bit_exact and seconds <= 60 if is_lenet else None,
    )


def accuracy(network: Network, report: SimulationReport) -> Row:
    """Classify with the float model, the integer reference and the RTL."""
    import torch

    from mase_hw.emit.project import load_reference
    from mase_hw.sim.inputs import encode_inputs

    design, split = network.project.design, network.trained.split
    inputs, labels = (part[: report.inferences] for part in (split.test_inputs, split.test_labels))
    with torch.no_grad():
        scores = torch.cat([network.trained.module(part) for part in torch.split(inputs, 500)])
    (output,) = design.outputs
    reference = load_reference(network.project.folder)(encode_inputs(design.inputs, inputs))
    results = {
        "float": scores,
        "quantized": reference[output.node],
        "RTL": report.outputs[output.name],
    }
    classes = {name: value.reshape(len(labels), -1).argmax(1) for name, value in results.items()}
    shares = [float((found == labels).double().mean()) for found in classes.values()]
    differing = int((classes["quantized"] != classes["RTL"]).sum())
    return Row(
        f"{network.name}: accuracy {' / '.join(classes)}, {len(labels):,} test samples",
        " / ".join(f"{share:.4f}" for share in shares) + f", {differing} predictions differ",
        "RTL = quantized, sample for sample",
        report.bit_exact and differing == 0,
    )


def busy_multipliers(network: Network, interval: float) -> Row:
    """Return the share of multiplier-cycles of the slowest layers that compute a product.

    Products are those of the layer's definition, zeros around an image included; what pads a tile
    is none.
    """
    graph = network.project.mg
    nodes = [node for node in graph.nodes if node.op == "call_function"]
    layers = {node: graph.netlist(node) for node in nodes if "weight" in graph.call(node).constants}
    slowest = max(netlist.busy_cycles for netlist in layers.values())
    bottleneck = [node for node, netlist in layers.items() if netlist.busy_cycles == slowest]
    calls = [graph.call(node) for node in bottleneck]
    products = sum(call.operator.operations(call) // 2 for call in calls)
    multipliers = sum(layers[node].multipliers for node in bottleneck)
    total = sum(node.multipliers for node in network.project.design.nodes)
    share = products / (multipliers * interval) if interval else 0.0
    names = ", ".join(node.name for node in bottleneck)
    return Row(
        f"{network.name}: multipliers busy, {multipliers} of {total} in the bottleneck ({names})",
        f"{share:.1%}",
        ">= 95 %",
        share >= 0.95,
    )


def tools(network: Network, folder: Path) -> Iterator[Row]:
    """Time capture to emission, and a build without any cache."""
    seconds, cpu = tool_times(network, folder)
    yield Row(
        f"{network.name}: trace, passes and emission, after import",
        f"{seconds:.1f} s",
        "<= 5 s",
        seconds <= 5,
    )
    yield Row(f"{network.name}: cold Verilator build", f"{cpu:.1f} CPU s", "<= 60 CPU s", cpu <= 60)


def tool_times(network: Network, folder: Path) -> tuple[float, float]:
    """Return seconds of capture to emission, and processor seconds of a build without a cache."""
    seconds = median_seconds(
        lambda: emit(network.model, network.trained, network.multipliers, folder / "timed"),
        repeats=3,
    )
    imports = "import mase_hw.sim.simulate, mase_hw.emit.project"
    with tempfile.TemporaryDirectory(prefix="mase-hw-cache-") as cache:
        cpu = _cpu_of(COLD_BUILD, str(network.project.folder), cache=cache)
        cpu -= _cpu_of(imports, cache=cache)
    return seconds, cpu


def _cpu_of(program: str, *arguments: str, cache: str) -> float:
    with timed() as elapsed:
        subprocess.run(
            [PYTHON, "-c", program, *arguments],
            check=True,
            capture_output=True,
            env=python_environment(MASE_HW_CACHE=cache),
        )
    return elapsed.cpu


def resources(network: Network) -> Row:
    """Synthesize with DSPs allowed."""
    from mase_hw.hardware.synth import synthesize

    total = synthesize(network.project.folder, "xcup").total
    return Row(
        f"{network.name}: LUT / DSP / BRAM (FF), Yosys xcup",
        f"{total.lut:,} / {total.dsp:,} / {total.bram:g} ({total.ff:,})",
    )
