"""Cleaning of a captured graph: assertions, written state and shape arithmetic."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import torch
from torch.fx import GraphModule, Node

from mase_hw._aten import aten
from mase_hw._kinds import Argument
from mase_hw.errors import CaptureError
from mase_hw.graph._batch import free_batch
from mase_hw.graph._leading import keep_batch_first
from mase_hw.graph._placed import place_elements
from mase_hw.graph._rewriter import Rewriter, is_dynamic, known_shape, operands_of, shape_of
from mase_hw.graph._writes import WRITES
from mase_hw.graph._written_state import raise_written_state
from mase_hw.graph.source import location_of_trace

_ASSERTIONS = (
    "aten._assert_",
    "aten.sym_constrain_range",
    "aten._functional_assert",
    "aten._functional_sym_constrain",
)
_RESHAPES = (aten.view.default, aten.reshape.default, aten._unsafe_view.default)


class SymbolicShapeError(CaptureError):
    """A graph computes with its batch size in a way that cannot be removed."""


def canonicalize(module: GraphModule) -> None:
    """Remove from a captured graph, in place, everything that is not tensor arithmetic.

    Raises:
        SymbolicShapeError: when the batch size is more than carried along.
        CaptureError: for state that is written otherwise than hardware keeps it.
    """
    _remove_assertions(module)
    _forget_written_inputs(module)
    raise_written_state(module)
    Rewriter(module).run(WRITES)
    module.graph.eliminate_dead_code(is_impure_node=_keeps)
    keep_batch_first(module)
    free_batch(module)
    _remove_shape_arithmetic(module)
    place_elements(module)
    module.graph.eliminate_dead_code(is_impure_node=_keeps)
    _refuse_leftovers(module)


def relax_views(module: GraphModule) -> None:
    """Make reshapes of views, which ask for strides that passes need not keep.

    A pass that removes a copy, or computes it in another memory layout, leaves the values alone.
    """
    for node in module.graph.nodes:
        if node.target in _RESHAPES:
            node.target = aten.reshape.default


def _where(node: Node) -> str:
    return f"node {node.name} ({node.target}) at {location_of_trace(node.stack_trace)}"


def _remove_assertions(module: GraphModule) -> None:
    for node in reversed(list(module.graph.nodes)):
        guard = node.op == "call_module" and str(node.target).startswith("_guards_fn")
        assertion = node.op == "call_function" and str(node.target).startswith(_ASSERTIONS)
        if (guard or assertion) and not node.users:
            module.graph.erase_node(node)


def _forget_written_inputs(module: GraphModule) -> None:
    """Leave out what is written back to the caller's inputs; results are read before."""
    for node in reversed(list(module.graph.nodes)):
        if node.target is aten.copy_.default and node.args[0].op == "placeholder":
            node.replace_all_uses_with(node.args[1])
            module.graph.erase_node(node)


def _value(node: object) -> Argument:
    return node.meta.get("val") if isinstance(node, Node) else node


def _remove_shape_arithmetic(module: GraphModule) -> None:
    for node in module.graph.nodes:
        counts = [isinstance(_value(item), torch.SymInt) for item in node.all_input_nodes]
        if node.op != "call_function" or not any(counts):
            continue
        source, sizes = (*operands_of(node), None)[:2]
        if node.target in _RESHAPES:
            node.update_arg(1, _inferred_sizes(sizes, shape_of(node)))
        elif node.target is aten.expand.default:
            # Those that it has already stay.
            padded = [*[None] * (len(sizes) - len(shape_of(source))), *known_shape(source)]
            pairs = zip(sizes, padded, strict=True)
            node.update_arg(1, [-1 if _is_same(size, old) else size for size, old in pairs])
        elif node.target is aten.slice.Tensor:
            end = (*operands_of(node), None, None)[3]
            if _is_same(end, known_shape(source)[sizes]):
                node.update_arg(3, sys.maxsize)
    module.graph.eliminate_dead_code(is_impure_node=_keeps)


def _is_same(size: Argument, expected: object) -> bool:
    return isinstance(_value(size), torch.SymInt) and bool(_value(size).node.expr == expected)


def _inferred_sizes(sizes: Sequence[object], result: Sequence[Argument]) -> list[object]:
    """Write the only size of a reshape that depends on the batch as -1."""
    constants = [None if is_dynamic(size) else int(size) for size in result]
    # A size cannot be inferred where others are zero.
    if constants.count(None) > 1 or 0 in constants:
        return list(sizes)
    return [-1 if size is None else size for size in constants]


def _keeps(node: Node) -> bool:
    """True if a node that nobody uses does something: to draw at random is nothing."""
    return node.op in {"placeholder", "output"} or (
        not isinstance(_value(node), torch.SymInt | torch.SymBool)
        and node.is_impure(impure_random=False)
    )


def _refuse_leftovers(module: GraphModule) -> None:
    for node in module.graph.nodes:
        if isinstance(_value(node), torch.SymInt | torch.SymFloat | torch.SymBool):
            user = next(iter(node.users), node)
            if _is_data_dependent(_value(node)):
                raise CaptureError(
                    f"a Python number is read from a tensor and used in {_where(user)}; "
                    "allowed are tensors and constants"
                )
            raise SymbolicShapeError(
                f"a tensor's shape depends on the batch size in {_where(user)}; "
                "allowed are views and expansions that carry the batch along"
            )
        if node.op == "call_function" and not _is_known(node.target):
            raise CaptureError(
                f"{_where(node)} is no tensor operation; allowed are ATen operators and "
                "operators registered with torch.library"
            )


def _is_data_dependent(size: Argument) -> bool:
    """True if a symbol stands for a value read from a tensor, which torch calls unbacked."""
    return any(str(symbol).startswith(("u", "zuf")) for symbol in size.node.expr.free_symbols)


def _is_known(target: object) -> bool:
    return (
        isinstance(target, torch._ops.OpOverload)
        or getattr(target, "__module__", "") == "_operator"
    )
