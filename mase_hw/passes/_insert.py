"""Insertion of operators that carry a stream from one node to another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node

from mase_hw.graph.calls import spec_of
from mase_hw.graph.encoding import decode_target
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.metadata import CommonMetadata, MaseMetadata, metadata
from mase_hw.graph.rebuild import set_tensor
from mase_hw.ops import TensorSpec, operator_for_role


def insert_after(
    mg: MaseGraph,
    producer: Node,
    role: str,
    given: TensorSpec,
    result: TensorSpec,
    arguments: Sequence[Any] = (),
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
    free = free_name(mg, f"{stem or producer.name}_{operator.name}")
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


def read_constant(
    mg: MaseGraph, before: Node, target: str, values: Tensor, known: MaseMetadata
) -> Node:
    """Store a constant and read it before a node, as a node of that metadata."""
    set_tensor(mg.model, target, values)
    with mg.fx_graph.inserting_before(before):
        read = mg.fx_graph.create_node("get_attr", target, name=target)
    read.meta["mase"] = known
    return read


def constant_metadata(
    node: Node, spec: TensorSpec | None = None, *, pruned: bool = False
) -> MaseMetadata:
    """Metadata of a constant that is a part of a node, `spec` where shapes are noted."""
    tensors = CommonMetadata(None, {}, {"data_out_0": spec}) if spec else None
    known = metadata(node)
    return MaseMetadata(known.module_path, known.source, tensors, pruned=pruned)


def free_name(mg: MaseGraph, stem: str) -> str:
    """Return `stem`, numbered where a node of the graph has that name."""
    return unique_name(stem, [node.name for node in mg.nodes])


def result_dtype(role: str, spec: TensorSpec, arguments: Sequence[object]) -> str:
    """Data type that the operator of a role gives: steps of truths are real numbers."""
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
