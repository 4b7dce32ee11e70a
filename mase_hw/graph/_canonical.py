"""Cleaning of a captured graph: assertions, shape arithmetic and in-place operations."""

from __future__ import annotations

import operator
import sys
from collections.abc import Sequence

import torch
from torch.fx import GraphModule, Node

from mase_hw._aten import aten, overload
from mase_hw._kinds import Argument
from mase_hw.errors import CaptureError
from mase_hw.graph._batch import FACTORIES, REPETITIONS, free_batch, join_once
from mase_hw.graph._leading import keep_batch_first
from mase_hw.graph._placed import place_elements
from mase_hw.graph._written_state import raise_written_state
from mase_hw.graph.source import location_of_trace

_ASSERTIONS = (
    "aten._assert_",
    "aten.sym_constrain_range",
    "aten._functional_assert",
    "aten._functional_sym_constrain",
)
_RESHAPES = (aten.view.default, aten.reshape.default, aten._unsafe_view.default)
# Constants that take their type, but no value, from another tensor.
_LIKE = {
    aten.new_zeros.default: aten.zeros.default,
    aten.new_ones.default: aten.ones.default,
    aten.new_full.default: aten.full.default,
}
_EVAL_IDENTITIES = ("aten.dropout.default", "aten.feature_dropout.default")


class SymbolicShapeError(CaptureError):
    """A graph computes with its batch size in a way that cannot be removed."""


class AliasError(CaptureError):
    """A value is written in place that is read afterwards by another name."""


def canonicalize(module: GraphModule) -> None:
    """Remove from a captured graph, in place, everything that is not tensor arithmetic.

    Raises:
        SymbolicShapeError: when the batch size is more than carried along.
        CaptureError: for an in-place operation on a value that has other names.
    """
    _remove_assertions(module)
    raise_written_state(module)
    _free_constants(module)
    _take_unspread(module)
    keep_batch_first(module)
    free_batch(module)
    _remove_shape_arithmetic(module)
    _remove_mutation(module)
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


def _free_constants(module: GraphModule) -> None:
    """Make constants of one value, such as `x.new_zeros(3, 4)`, without the tensor beside."""
    for node in list(module.graph.nodes):
        value = node.meta.get("val")
        if node.target not in _LIKE or not isinstance(value, torch.Tensor):
            continue
        known = [_constant_size(size) for size in value.shape]
        sizes = node.args[1] if None in known else known
        target = _LIKE[node.target]
        arguments = (sizes, *node.args[2:3]) if target is aten.full.default else (sizes,)
        with module.graph.inserting_before(node):
            made = module.graph.call_function(target, arguments, {"dtype": value.dtype})
        made.meta = dict(node.meta)
        node.replace_all_uses_with(made)
        module.graph.erase_node(node)


def _take_unspread(module: GraphModule) -> None:
    """Take tensors as they are where broadcasting them together leaves their shapes."""
    for node in list(module.graph.nodes):
        source = node.args[0] if node.target is operator.getitem else None
        if not isinstance(source, Node) or source.target is not aten.broadcast_tensors.default:
            continue
        members: Argument = source.args[0]
        member = members[node.args[1]]
        if _sizes(_value(member)) == _sizes(_value(node)):
            node.replace_all_uses_with(member)
            module.graph.erase_node(node)


def _where(node: Node) -> str:
    return f"node {node.name} ({node.target}) at {location_of_trace(node.stack_trace)}"


def _remove_assertions(module: GraphModule) -> None:
    for node in reversed(list(module.graph.nodes)):
        guard = node.op == "call_module" and str(node.target).startswith("_guards_fn")
        assertion = node.op == "call_function" and str(node.target).startswith(_ASSERTIONS)
        if (guard or assertion) and not node.users:
            module.graph.erase_node(node)


def _value(node: object) -> Argument:
    return node.meta.get("val") if isinstance(node, Node) else node


def _is_symbolic(argument: object) -> bool:
    return isinstance(argument, Node) and isinstance(_value(argument), torch.SymInt)


def _constant_size(size: object) -> int | None:
    """Return a size as an integer, or None when it depends on the batch."""
    if isinstance(size, torch.SymInt):
        return int(size) if size.node.expr.is_number else None
    return int(size) if isinstance(size, int) else None


def _remove_shape_arithmetic(module: GraphModule) -> None:
    for node in module.graph.nodes:
        if node.op != "call_function" or isinstance(_value(node), torch.SymInt):
            continue
        if not any(_is_symbolic(operand) for operand in node.all_input_nodes):
            continue
        if _is_constant(node):
            _share(node)
        elif node.target in _RESHAPES:
            node.update_arg(1, _inferred_sizes(node.args[1], node.meta["val"].shape))
        elif node.target is aten.expand.default:
            node.update_arg(1, _kept_sizes(node.args[1], node.args[0].meta["val"].shape))
        elif node.target is aten.slice.Tensor and len(node.args) > 3:
            source, dim, _, end = node.args[:4]
            if _is_symbolic(end) and _same(_value(end), source.meta["val"].shape[dim]):
                node.update_arg(3, sys.maxsize)
    module.graph.eliminate_dead_code(is_impure_node=_keeps)


def _is_constant(node: Node) -> bool:
    """Return whether a tensor holds one constant for every inference of the batch."""
    sizes = node.args[node.target in REPETITIONS] if node.args else None
    source = node.args[0] if node.target in REPETITIONS else None
    first = source is None or (isinstance(source, Node) and source.op == "get_attr")
    known = node.target in REPETITIONS or node.target in FACTORIES
    return known and first and isinstance(sizes, list | tuple) and _is_symbolic(sizes[0])


def _share(node: Node) -> None:
    """Make a constant once for all inferences, and join it with each of them where it is joined."""
    position = int(node.target in REPETITIONS)
    sizes: Argument = node.args[position]
    node.update_arg(position, [1, *sizes[1:]])
    join_once(node)


def _keeps(node: Node) -> bool:
    """Return whether a node that nobody uses does something: to draw at random is nothing."""
    return node.op in {"placeholder", "output"} or (
        not isinstance(_value(node), torch.SymInt | torch.SymBool)
        and node.is_impure(impure_random=False)
    )


def _same(left: object, right: object) -> bool:
    sizes = [size.node.expr if isinstance(size, torch.SymInt) else size for size in (left, right)]
    return bool(sizes[0] == sizes[1])


def _inferred_sizes(sizes: Sequence[object], result: Sequence[object]) -> list[object]:
    """Return the sizes of a reshape with the only one that depends on the batch as -1."""
    constants = [_constant_size(size) for size in result]
    # A size cannot be inferred where others are zero.
    if constants.count(None) > 1 or 0 in constants:
        return list(sizes)
    return [-1 if size is None else size for size in constants]


def _kept_sizes(sizes: Sequence[object], source: Sequence[object]) -> list[object]:
    """Return the sizes of an expansion with -1 where the operand has that size already."""
    padded = [None] * (len(sizes) - len(source)) + list(source)
    return [
        -1 if _is_symbolic(size) and _same(_value(size), old) else size
        for size, old in zip(sizes, padded, strict=True)
    ]


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
    """Return whether a symbol stands for a value read from a tensor, which torch calls unbacked."""
    return any(str(symbol).startswith(("u", "zuf")) for symbol in size.node.expr.free_symbols)


def _is_known(target: object) -> bool:
    return (
        isinstance(target, torch._ops.OpOverload)
        or getattr(target, "__module__", "") == "_operator"
    )


def _remove_mutation(module: GraphModule) -> None:
    """Replace in-place operations by their functional twins."""
    nodes = list(module.graph.nodes)
    position = {node: number for number, node in enumerate(nodes)}
    aliases: dict[Node, set[Node]] = {}
    for node in nodes:
        if node.op != "call_function":
            continue
        schema = getattr(node.target, "_schema", None)
        if schema is None:
            _join(aliases, node, _shared_results(node))
        elif schema.is_mutable:
            _make_functional(node, aliases, position)
        else:
            _join(aliases, node, _aliased_operands(node))


def _join(aliases: dict[Node, set[Node]], node: Node, operands: list[Node]) -> None:
    group = {node}.union(*(aliases.get(operand, {operand}) for operand in operands))
    for member in group:
        aliases[member] = group


def _shared_results(node: Node) -> list[Node]:
    """Return what a Python operation, such as taking one of several results, shares memory with.

    The results of `split` are views of its operand and so of one memory, those of `topk` are not.
    """
    operands = [item for item in node.args if isinstance(item, Node)]
    producer = operands[0] if node.target is operator.getitem and operands else None
    returns = getattr(getattr(producer, "target", None), "_schema", None)
    if producer is None or returns is None or any(item.alias_info for item in returns.returns):
        return operands
    return []


def _aliased_operands(node: Node) -> list[Node]:
    """Return the operands whose memory the result may share."""
    arguments = overload(node.target)._schema.arguments
    named = {argument.name: argument for argument in arguments}
    given = dict(zip(named, node.args, strict=False)) | dict(node.kwargs)
    identity = str(node.target) in _EVAL_IDENTITIES
    found = []
    for name, value in given.items():
        shares = named[name].alias_info is not None or (identity and name in {"input", "self"})
        if isinstance(value, Node) and shares:
            found.append(value)
    return found


def _make_functional(node: Node, aliases: dict[Node, set[Node]], position: dict[Node, int]) -> None:
    target = overload(node.target)
    written = [a for a in target._schema.arguments if a.alias_info and a.alias_info.is_write]
    namespace, _, name = target._schema.name.partition("::")
    packet = getattr(getattr(torch.ops, namespace), name.removesuffix("_"), None)
    twin = getattr(packet, target._overloadname, None)
    base = node.args[0] if node.args else None
    if not name.endswith("_") or twin is None or len(written) != 1 or not isinstance(base, Node):
        raise CaptureError(
            f"{_where(node)} works in place and has no functional twin: write it out of place"
        )
    if base.op == "get_attr":
        raise CaptureError(
            f"{_where(node)} writes to {base.target}; allowed is state that does not change, and "
            "a cache: x.index_copy_(dim, position, entry), or x[:, :, position] = entry, of one "
            "place of a buffer"
        )
    late = [
        f"{other.name} by {user.name}"
        for other in aliases.get(base, {base}) - {base}
        for user in other.users
        if position[user] > position[node] and user is not node
    ]
    if late:
        raise AliasError(
            f"{_where(node)} works in place on a value that is read afterwards through another "
            f"name ({sorted(late)[0]}): write it out of place"
        )
    node.target = twin
    result = node if twin is not aten.copy.default else _copied(node)
    base.replace_all_uses_with(
        result, delete_user_cb=lambda user: user is not node and position[user] > position[node]
    )
    if result is not node:
        node.replace_all_uses_with(result)


def _copied(node: Node) -> Node:
    """Return what is copied where it takes the whole place of the other, else the copy itself."""
    base, source = node.args[:2]
    old, new = _value(base), _value(source)
    alike = isinstance(old, torch.Tensor) and isinstance(new, torch.Tensor)
    if alike and old.dtype == new.dtype and _sizes(old) == _sizes(new):
        assert isinstance(source, Node)
        return source
    return node


def _sizes(value: torch.Tensor) -> list[Argument]:
    return [size.node.expr if isinstance(size, torch.SymInt) else size for size in value.shape]
