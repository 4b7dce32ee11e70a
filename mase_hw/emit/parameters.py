"""Parameters of the top that restate what a design was made for: formats, shapes, parallelism."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from mase_hw.emit.design import Design
from mase_hw.geometry.tensor import TensorSpec
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.reference import output_nodes, spec


def tensor_parameters(mg: MaseGraph, design: Design) -> dict[str, int]:
    """Parameters of every port, operand and result of a graph in hardware, and their values.

    A port's have its name, `DATA_IN_0_PRECISION_0`; those of a node begin with its own,
    `fc1_WEIGHT_TENSOR_SIZE_DIM_0`.

    Args:
        mg: a graph that went through the hardware metadata pass.
        design: its design, whose memories say how constants stream.

    Returns:
        For each tensor `PRECISION_0` (width in bits) and `PRECISION_1` (fraction bits) where its
        format has them, `TENSOR_SIZE_DIM_k` and `PARALLELISM_DIM_k` in elements; `DIM_0` is the
        last dimension.
    """
    values = dict[str, int]()
    for word, nodes in (("DATA_IN", mg.inputs), ("DATA_OUT", output_nodes(mg))):
        for place, node in enumerate(nodes):
            values |= _of_tensor(f"{word}_{place}", spec(node))
    constants = {(item.node, item.operand): item.source.spec for item in design.constants}
    for node in mg.nodes:
        if node.op != "call_function":
            continue
        call = mg.call(node)
        for operand, tensor in {**call.operands, **call.results}.items():
            streamed = constants.get((node.name, operand)) or tensor
            tensor = replace(tensor, parallelism=streamed.parallelism)
            values |= _of_tensor(f"{node.name}_{operand.upper()}", tensor)
    return values


def _of_tensor(name: str, tensor: TensorSpec) -> Mapping[str, int]:
    fields = tensor.quantized.to_dict()
    widths = {"PRECISION_0": fields.get("width"), "PRECISION_1": fields.get("frac_width")}
    sizes = {f"TENSOR_SIZE_DIM_{k}": size for k, size in enumerate(reversed(tensor.shape))}
    lanes = {f"PARALLELISM_DIM_{k}": size for k, size in enumerate(reversed(tensor.parallelism))}
    values = {**widths, **sizes, **lanes}
    return {f"{name}_{key}": value for key, value in values.items() if isinstance(value, int)}
