"""What a trial measures: accuracy of the integer reference, storage, and predicted hardware."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mase_hw.emit.flow import canonicalize, to_hardware
from mase_hw.errors import DataError, UnsupportedError
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.quantized import QuantizedModel
from mase_hw.graph.reference import IntegerReference, spec
from mase_hw.hardware.timing import predict
from mase_hw.passes.calibrate import calibrate_analysis_pass, observe
from mase_hw.passes.quantize import quantize_transform_pass
from mase_hw.passes.report_quantization import storage
from mase_hw.passes.software_metadata import add_software_metadata_analysis_pass
from mase_hw.training import accuracy, check_samples

# What can be asked for, and whether more of it is better.
METRICS: Mapping[str, str] = {
    "accuracy": "maximize",
    "average_bits": "minimize",
    "memory_bits": "minimize",
    "interval_cycles": "minimize",
    "latency_cycles": "minimize",
    "multipliers": "minimize",
}
HARDWARE = ("interval_cycles", "latency_cycles", "multipliers")


@dataclass(frozen=True)
class Measurement:
    """What a trial found.

    Attributes:
        values: metrics by name.
        config: number formats with every field given, as `emit-verilog` takes them.
        predictions: class of every sample; None without samples.
    """

    values: Mapping[str, float]
    config: Mapping[str, Any]
    predictions: Tensor | None

    @property
    def digest(self) -> str:
        """A hash of the predictions, which tells whether two runs agree on every sample."""
        classes = [] if self.predictions is None else self.predictions.tolist()
        return hashlib.sha256(repr(classes).encode()).hexdigest()[:16]


class Evaluator:
    """Measures configurations of one model; what does not depend on the trial is done once.

    Args:
        mg: a captured graph.
        inputs: samples on which accuracy is measured.
        labels: their classes.
        observed: samples on which ranges are observed.
        metrics: the names that `measure` returns.
        observer: see `calibrate_analysis_pass`.

    Raises:
        DataError: when accuracy is asked for and there are no samples, or a label is no class.
    """

    def __init__(
        self,
        mg: MaseGraph,
        metrics: tuple[str, ...],
        inputs: Tensor | None = None,
        labels: Tensor | None = None,
        observed: Tensor | None = None,
        observer: str = "minmax",
    ) -> None:
        self.mg = canonicalize(mg)
        self.mg, _ = add_software_metadata_analysis_pass(self.mg, {})
        self._metrics, self._observer = metrics, observer
        data = self.mg.example_inputs if observed is None else (observed,)
        self._observations = observe(self.mg, [data])
        self._inputs, self._labels = inputs, labels
        if "accuracy" in metrics:
            if inputs is None or labels is None:
                raise DataError(
                    f"accuracy needs labelled samples, and {mg.name} comes with none; give data, "
                    "or objectives without accuracy"
                )
            check_samples(self.mg.model, inputs, labels)

    def measure(self, config: Mapping[str, Any], parallelism: Mapping[str, Any]) -> Measurement:
        """Return what one configuration gives."""
        arguments = {
            "config": config,
            "observations": self._observations,
            "observer": self._observer,
        }
        _, info = calibrate_analysis_pass(self.mg, arguments)
        resolved = info["config"]
        quantized, _ = quantize_transform_pass(self.mg, resolved)
        sums = storage(quantized)
        values = {
            "average_bits": sums["average_weight_bits"],
            "memory_bits": sums["memory_bits"],
        }
        predictions = None
        if self._inputs is not None and self._labels is not None:
            scores = score(quantized, self._inputs)
            predictions = scores.reshape(len(scores), -1).argmax(dim=1)
            values["accuracy"] = accuracy(scores, self._labels)
        if any(name in self._metrics for name in HARDWARE):
            values |= hardware_metrics(quantized, parallelism)
        return Measurement({key: values[key] for key in self._metrics}, resolved, predictions)


def score(mg: MaseGraph, inputs: Tensor) -> Tensor:
    """Return the outputs of a quantised graph, as its hardware computes them.

    A graph without an integer reference is run in rounded floating point.
    """
    try:
        reference = IntegerReference(mg)
    except UnsupportedError:
        with torch.no_grad():
            rounded: Tensor = QuantizedModel(mg)(inputs)
        return rounded
    entry, output = spec(reference.inputs[0]), reference.outputs[0]
    codes = entry.quantized.encode(inputs).reshape(-1, *entry.shape)
    return spec(output).quantized.decode(reference([codes])[output.name])


def hardware_metrics(mg: MaseGraph, parallelism: Mapping[str, Any]) -> dict[str, float]:
    """Return predicted cycles and the multipliers of a quantised graph."""
    mg = to_hardware(mg, parallelism=dict(parallelism) or 1)
    prediction = predict(mg)
    calls = [mg.call(node) for node in mg.nodes if node.op == "call_function"]
    return {
        "interval_cycles": float(prediction.interval_cycles),
        "latency_cycles": float(prediction.latency_cycles),
        "multipliers": float(sum(call.operator.multipliers(call) for call in calls)),
    }
