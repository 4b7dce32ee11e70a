"""`report_quantization_analysis_pass`: what a configuration costs and loses, layer by layer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass

import torch
from torch.fx import Node

from mase_hw.graph.agreement import Agreement, tensor_db
from mase_hw.graph.fills import float_run
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.nodes import casts, common, metadata, operator_of
from mase_hw.graph.quantized import GraphRun
from mase_hw.passes._pass import Result, graph_pass
from mase_hw.passes.canonical.software_metadata import batch_inputs
from mase_hw.passes.formats.agreement import measure_agreement_analysis_pass
from mase_hw.passes.formats.expected_agreement import model_agreement

FLOAT_BITS = 32.0


@dataclass(frozen=True)
class LayerReport:
    """One node with formats.

    Attributes:
        name: the node.
        operator: its operator.
        formats: format by operand and result, as text.
        weight_bits: bits of its constants per element; None without constants.
        weight_elements: elements of its constants.
        activation_bits: bits of an element of its first operand.
        sqnr_db: signal to quantisation noise of its whole result with every layer quantised,
            decibels.
        saturated: share of elements that a format clips, by operand and result, where it is not 0.
        sensitivity_db: the same of the model's first output with this layer alone quantised.
    """

    name: str
    operator: str
    formats: Mapping[str, str]
    weight_bits: float | None
    weight_elements: int
    activation_bits: float | None
    sqnr_db: float
    saturated: Mapping[str, float]
    sensitivity_db: float


@graph_pass
def report_quantization_analysis_pass(
    mg: MaseGraph, *, data: object = None, sensitivity: bool = True
) -> Result:
    """Compare a quantised graph with itself in floating point, on at most 512 examples.

    Args:
        mg: a graph with formats.
        data: one batch of inputs, the example inputs when not given.
        sensitivity: run the model once more for every layer, with that alone quantised.

    Returns:
        The graph, and `layers` (dicts of `LayerReport`), `outputs` (the ratio, or the share of
        equal elements, by name), `examples`, `average_weight_bits` and
        `average_activation_bits` over elements, `memory_bits` of all constants, and
        `memory_density`, the bits of the constants at 32 bits each over `memory_bits`.
    """
    batch = mg.example_inputs if data is None else data
    inputs = batch_inputs(mg, batch)
    mg, measured = measure_agreement_analysis_pass(mg, {"data": [batch]})
    output = mg.outputs[0].name
    with torch.no_grad():
        exact = float_run(mg).values(inputs)[output]
    layers = []
    for node in quantized_nodes(mg):
        loss = math.nan
        if sensitivity:
            with torch.no_grad():
                alone = GraphRun(mg, only={node.name}).values(inputs)[output]
            loss = tensor_db(exact, alone)
        layers.append(_layer(mg, node, loss))
    whole = model_agreement(mg)
    outputs = {name: item.to_dict() for name, item in whole.outputs.items()} if whole else {}
    report = {"layers": [asdict(layer) for layer in layers], "outputs": outputs, **measured}
    return mg, {**report, **storage(mg)}


def quantized_nodes(mg: MaseGraph) -> list[Node]:
    """Nodes of the model that compute in a format, without inserted casts."""
    return [node for node in _computing(mg) if common(node).results["data_out_0"].format]


def _computing(mg: MaseGraph) -> list[Node]:
    return [node for node in mg.nodes if casts(node) and operator_of(node).role is None]


def storage(mg: MaseGraph) -> dict[str, float]:
    """Return the sums over a quantised graph that `report_quantization_analysis_pass` gives.

    What could have a format and has none counts as binary32.
    """
    weights, bits, values, value_bits = 0, 0.0, 0, 0.0
    for node in _computing(mg):
        constants = mg.call(node).constants
        for name, spec in common(node).operands.items():
            each = spec.format.bits_per_element if spec.format else FLOAT_BITS
            if name in constants:
                weights += spec.elements
                bits += spec.elements * each
            else:
                values += spec.elements
                value_bits += spec.elements * each
    return {
        "average_weight_bits": bits / weights if weights else 0.0,
        "average_activation_bits": value_bits / values if values else 0.0,
        "memory_bits": bits,
        "memory_density": weights * FLOAT_BITS / bits if bits else 1.0,
    }


def _layer(mg: MaseGraph, node: Node, sensitivity: float) -> LayerReport:
    tensors = common(node)
    constants = mg.call(node).constants
    weights = {name: tensors.operands[name] for name in constants}
    streams = [spec for name, spec in tensors.operands.items() if name not in constants]
    elements = sum(spec.elements for spec in weights.values())
    bits = sum(
        spec.elements * (spec.format.bits_per_element if spec.format else FLOAT_BITS)
        for spec in weights.values()
    )
    first = streams[0].format if streams else None
    agreement = metadata(node).agreement or Agreement({})
    sqnr = agreement.tensor_db
    return LayerReport(
        node.name,
        str(tensors.operator),
        {name: str(spec.format) for name, spec in {**tensors.operands, **tensors.results}.items()},
        bits / elements if elements else None,
        elements,
        first.bits_per_element if first else None,
        math.nan if sqnr is None else sqnr,
        dict(agreement.saturated),
        sensitivity,
    )
