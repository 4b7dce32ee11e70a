"""Insertion of operators that carry a stream from one node to another."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.fx import Node

from mase_hw.graph.calls import spec_of
from mase_hw.graph.encoding import decode_target
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.metadata import CommonMetadata, MaseMetadata, metadata
from mase_hw.ops import TensorSpec, operator_for_role


def insert_after(
    mg: MaseGraph,
    producer: Node,
    role: str,
    given: TensorSpec,
    result: TensorSpec,
    arguments: tuple[float | list[int] | list[float] | Node, ...] = (),
    stem: str | None = None,
) -> Node:
    """Insert the operator of `role` behind `producer`, with metadata; no use is replaced.

    Args:
        mg: the graph, which is changed.
        producer: the node whose result is carried.
        role: what the operator is for, see `Operator.role`.
        given: its operand.
        result: its result.
        arguments: further arguments of its torch operator.
        stem: what its name begins with; the producer's name when not given.
    """
    operator = operator_for_role(role)
    target = decode_target("call_function", operator.targets[0])
    free = unique_name(f"{stem or producer.name}_{operator.name}", [node.name for node in mg.nodes])
    with mg.fx_graph.inserting_after(producer):
        node = mg.fx_graph.create_node(
            "call_function", target, (producer, *arguments), {}, name=free
        )
    known = metadata(producer)
    node.meta["mase"] = MaseMetadata(
        module_path=known.module_path,
        source=known.source,
        common=CommonMetadata(operator.name, {"data_in_0": given}, {"data_out_0": result}),
    )
    return node


def result_dtype(role: str, spec: TensorSpec, arguments: Sequence[object]) -> str:
    """dtype that the operator of a role gives for a tensor: steps of truths are real numbers."""
    target = decode_target("call_function", operator_for_role(role).targets[0])
    empty = torch.empty(spec.shape, dtype=getattr(torch, spec.dtype), device="meta")
    return spec_of(target(empty, *arguments)).dtype


def unique_name(stem: str, taken: Sequence[str]) -> str:
    """Return `stem`, numbered when it is taken."""
    name, number = stem, 0
    while name in taken:
        number += 1
        name = f"{stem}_{number}"
    return name
