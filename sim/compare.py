"""Every layer three times: the float model, the integer reference, and the simulated hardware."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn
from torch.fx import Node
from torch.utils._pytree import tree_leaves

from mase_hw._kinds import Record
from mase_hw._results import result_file
from mase_hw.emit.design import DesignSummary, Stream
from mase_hw.emit.project import load_graph
from mase_hw.errors import SimulationError
from mase_hw.graph.agreement import decibels, tensor_db
from mase_hw.graph.fills import float_run
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.nodes import location
from mase_hw.graph.reference import IntegerReference
from mase_hw.passes.formats.expected_agreement import unseen
from mase_hw.passes.formats.merge_thresholds import is_merged
from mase_hw.sim.agreement import float_values, graph_inputs
from mase_hw.sim.checker import Mismatch, StreamCheck, check_stream
from mase_hw.sim.engine import RunRequest, RunResult
from mase_hw.sim.inputs import encode_values, read_inputs
from mase_hw.sim.native_engine import run_native
from mase_hw.sim.simulate import choose_probes, make_request, reference_codes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from rich.table import Table

# Inferences of the example inputs that are compared.
DEFAULT_SAMPLES = 8


@dataclass(frozen=True)
class LayerValues:
    """One layer, with what it computes in three models.

    Attributes:
        node: the graph node.
        stream: the name in `top.sv` of the stream that carries its result: of several, the first
            one on which something differs.
        source: the user's line.
        format: its number format, as text.
        exact: what the float model computes, `[inferences, *shape]`, reals as float64. None
            where the float model has no such tensor, as of a loop over layers that share hardware,
            or where thresholds took its place.
        quantized: the reals of the integer reference.
        hardware: the reals of the simulation; 0 where no beat came.
        is_seen: whether an output shows what it loses, as none does of a mask before a softmax.
        mismatches: elements of the simulation that differ from the integer reference.
        first: the first of them.
    """

    node: str
    stream: str
    source: str
    format: str
    exact: Tensor | None
    quantized: Tensor
    hardware: Tensor
    is_seen: bool
    mismatches: int
    first: Mismatch | None

    @property
    def tensor_db(self) -> float | None:
        """Raw signal over error of the hardware's whole tensor, decibels; of reals alone."""
        if self.exact is None or not self.exact.is_floating_point():
            return None
        return tensor_db(self.exact, self.hardware)

    @property
    def largest_error(self) -> float | None:
        """The largest absolute error of the hardware against the float model."""
        if self.exact is None:
            return None
        return float((self.exact - self.hardware).abs().max())


@dataclass(frozen=True)
class Comparison:
    """What `compare` found.

    Attributes:
        layers: by node, in topological order.
        inferences: how many were run.
        model_error: the largest error of the captured graph, in real numbers, against the module
            that was given, relative to its largest output; None where none was given, or where
            thresholds took the place of the float model.
        request: the run: its beats and options.
        result: the beats of every stream and the cycle of each.
    """

    layers: Mapping[str, LayerValues]
    inferences: int
    model_error: float | None
    request: RunRequest
    result: RunResult

    @property
    def is_exact(self) -> bool:
        """Whether every layer computes what the integer reference computes, by the rules."""
        wrong = any(layer.mismatches for layer in self.layers.values())
        return not wrong and not self.result.violations

    @property
    def first_wrong(self) -> LayerValues | None:
        """The first layer whose hardware differs from the integer reference; None for none."""
        return next((layer for layer in self.layers.values() if layer.mismatches), None)

    @property
    def worst(self) -> LayerValues | None:
        """The layer that is farthest from the float model, of those whose loss an output shows.

        None where nothing is lost.
        """
        seen = [layer for layer in self.layers.values() if layer.is_seen]
        real = [layer for layer in seen if layer.tensor_db is not None]
        worst = min(real, key=lambda layer: layer.tensor_db or 0.0, default=None)
        return worst if worst is not None and worst.tensor_db != math.inf else None

    def table(self) -> Table:
        """Return a table with a row per layer, for rich."""
        from rich.table import Table

        table = Table(title=f"{self.request.summary.name}: {self.inferences} inferences")
        table.add_column("layer")
        table.add_column("format")
        for name in ("signal over error of the tensor", "largest error", "RTL differs"):
            table.add_column(name, justify="right")
        for layer in self.layers.values():
            table.add_row(
                layer.node,
                layer.format,
                decibels(layer.tensor_db),
                "-" if layer.largest_error is None else f"{layer.largest_error:.3g}",
                str(layer.mismatches),
            )
        return table

    def save(self, path: str | Path) -> None:
        """Write arrays `NODE.float`, `NODE.quantized` and `NODE.rtl` into an `.npz` file.

        Raises:
            OutputError: when the file cannot be written, or is somebody else's.
        """
        arrays: Record = {}
        for name, layer in self.layers.items():
            if layer.exact is not None:
                arrays[f"{name}.float"] = layer.exact.numpy()
            arrays[f"{name}.quantized"] = layer.quantized.numpy()
            arrays[f"{name}.rtl"] = layer.hardware.numpy()
        with result_file(Path(path)) as target, target.open("wb") as file:
            np.savez(file, **arrays)

    def figure(self, path: str | Path) -> list[Path]:
        """Draw signal over error of every layer as `path.png` and `path.svg`."""
        from mase_hw._drawing import save_figure

        rows = [(layer.node, layer.tensor_db) for layer in self.layers.values()]
        real = [(name, ratio) for name, ratio in rows if ratio is not None]

        def draw(axes: Axes) -> None:
            finite = [ratio for _, ratio in real if math.isfinite(ratio)]
            most = max(finite, default=0.0)
            axes.barh(
                [f"{place}  {name}" for place, (name, _) in enumerate(real)],
                [min(ratio, most) for _, ratio in real],
            )
            axes.invert_yaxis()
            axes.set_xlabel("whole tensor's signal over error against the float model, dB")

        return save_figure(Path(path), draw, height=1.2 + 0.25 * len(real))


def compare(
    model: nn.Module | None,
    project: Path | str,
    inputs: object = None,
    *,
    samples: int | None = None,
    stall: float = 0.0,
    seed: int = 0,
) -> Comparison:
    """Run every layer as the float model, as the integer reference, and in the simulated hardware.

    Args:
        model: the module that was captured, which is run beside the graph; None to leave it out.
        project: an emitted folder.
        inputs: real values, as `mase_hw.sim.inputs.read_inputs` takes them; the first of the
            example inputs without them.
        samples: how many of them.
        stall: probability in [0, 1) that a port pauses in a cycle.
        seed: seeds pauses and the initial bits of registers.

    Raises:
        SimulationError: for wrong inputs, and when the simulation cannot be built.
        ToolError: when Verilator or a compiler is missing.
    """
    if not 0.0 <= stall < 1.0:
        raise SimulationError(f"stall is {stall}; allowed: a probability from 0 to below 1")
    folder = Path(project)
    mg, summary = load_graph(folder)
    values = chosen_inputs(mg, summary, inputs, samples)
    codes = encode_values(summary.inputs, values)
    streams = choose_probes(summary, [stream.node for stream in summary.streams])
    reported = (*streams, *summary.outputs)
    expected = reference_codes(IntegerReference(mg), codes, reported)
    request = make_request(folder, summary, codes, expected, seed, stall, streams)
    result = run_native(request)
    exact = {} if is_merged(mg) else float_values(mg, values, mg.nodes)
    hidden = unseen(mg)
    layers: dict[str, LayerValues] = {}
    for stream in reported:
        if stream.name not in expected:
            continue
        earlier = layers.get(stream.node)
        if earlier is not None and earlier.mismatches:
            continue
        wanted = expected[stream.name]
        check = check_stream(stream, wanted, result.streams[stream.name], seed=seed)
        if earlier is None or check.mismatches:
            layers[stream.node] = _layer(mg, stream, wanted, check, exact, hidden)
    error = None if model is None or is_merged(mg) else _model_error(mg, model, values)
    return Comparison(layers, len(values[0]), error, request, result)


def chosen_inputs(
    mg: MaseGraph, summary: DesignSummary, inputs: object = None, samples: int | None = None
) -> list[Tensor]:
    """Return real inputs, inferences first: those given, or the first of the example inputs.

    Raises:
        SimulationError: for wrong inputs, and for more samples than there are.
    """
    chosen = list(mg.example_inputs) if inputs is None else inputs
    values = read_inputs(summary.inputs, chosen)
    count = samples if samples is not None else (DEFAULT_SAMPLES if inputs is None else None)
    if samples is not None and not 1 <= samples <= len(values[0]):
        raise SimulationError(f"samples is {samples}; allowed: 1 to {len(values[0])}, the inputs")
    return [item[:count] for item in values]


def _layer(
    mg: MaseGraph,
    stream: Stream,
    expected: Tensor,
    check: StreamCheck,
    exact: Mapping[str, Tensor],
    hidden: Collection[Node],
) -> LayerValues:
    number = stream.spec.quantized
    quantized = number.decode(expected.reshape(check.codes.shape)).double()
    floats = exact.get(stream.node)
    if floats is not None:
        same = floats.numel() == quantized.numel()
        floats = floats.reshape(quantized.shape) if same else None
    return LayerValues(
        stream.node,
        stream.name,
        location(mg.node(stream.node)),
        str(stream.spec.format),
        floats,
        quantized,
        number.decode(check.codes).double(),
        mg.node(stream.node) not in hidden,
        check.mismatches,
        check.first,
    )


def _model_error(mg: MaseGraph, model: nn.Module, inputs: Sequence[Tensor]) -> float:
    """Return the largest error of the captured graph against a module, over its largest output.

    Raises:
        SimulationError: where the module is another one than was captured.
    """
    run, dims, training = float_run(mg), mg.batch_dims, model.training
    errors, scales = [0.0], [1e-30]
    model.eval()
    try:
        with torch.no_grad():
            for part in graph_inputs(mg, inputs):
                wanted = _tensors(model(*dims.outside(part)))
                captured = _tensors(dims.returned(run(part)))
                shapes = [[tuple(item.shape) for item in items] for items in (wanted, captured)]
                if shapes[0] != shapes[1]:
                    raise SimulationError(
                        f"the model returns {shapes[0]}, and the captured one {shapes[1]}: it is "
                        "another model"
                    )
                pairs = [*zip(wanted, captured, strict=True)]
                errors += [_largest_error(own, other) for own, other in pairs]
                scales += [
                    float(own.double().nan_to_num(0.0, 0.0, 0.0).abs().max()) for own in wanted
                ]
    except (RuntimeError, TypeError, ValueError) as error:
        raise SimulationError(f"the model does not run on the inputs: {error}") from error
    finally:
        model.train(training)
    return max(errors) / max(scales)


def _largest_error(wanted: Tensor, captured: Tensor) -> float:
    """Return the largest error; infinite where one of both is no number."""
    same = (wanted == captured) | (wanted.isnan() & captured.isnan())
    errors = (wanted.double() - captured.double()).abs().masked_fill(same, 0.0)
    return float(errors.nan_to_num(math.inf, math.inf).max())


def _tensors(outputs: object) -> list[Tensor]:
    return [item for item in tree_leaves(outputs) if isinstance(item, Tensor)]
