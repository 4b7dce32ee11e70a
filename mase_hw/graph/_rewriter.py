"""One rewriter of captured graphs, before they are graphs of operators.

A rule is a function of the rewriter and a node. It writes calls and constants before the node and
returns the one that takes the node's place; None leaves the node. What a rule writes knows its
value's shape and dtype, and the layer and line that the node comes from, without more ado.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext

import torch
from torch import Tensor, nn
from torch._guards import detect_fake_mode
from torch.fx import GraphModule, Node
from torch.fx.node import map_aggregate, map_arg

from mase_hw._aten import aten, overload
from mase_hw._kinds import Argument
from mase_hw.graph.rebuild import get_tensor, set_tensor

_ORIGIN = ("nn_module_stack", "stack_trace")
Size = int | torch.SymInt


class Rewriter:
    """Replaces calls of a captured graph, in place.

    Args:
        module: the graph, with the values that torch.export notes.
    """

    def __init__(self, module: GraphModule) -> None:
        self.module, self.graph = module, module.graph
        self._mode = detect_fake_mode([node.meta.get("val") for node in self.graph.nodes])
        self._origin: dict[str, Argument] = {}

    def run(self, rules: Mapping[object, Rule], otherwise: Rule | None = None) -> bool:
        """Apply the rule of each call's target, or another one; return whether any replaced one."""
        replaced = False
        for node in list(self.graph.nodes):
            rule = rules.get(node.target, otherwise) if node.op == "call_function" else None
            if rule is not None and node.users:
                with self.before(node):
                    result = rule(self, node)
                if result is not None:
                    self.replace(node, result)
                    replaced = True
        return replaced

    @contextmanager
    def before(self, node: Node) -> Iterator[None]:
        """Write what follows before a node, as a part of it."""
        outer, self._origin = self._origin, {k: node.meta[k] for k in _ORIGIN if k in node.meta}
        with self.graph.inserting_before(node):
            yield
        self._origin = outer

    def call(self, target: Argument, *args: Argument, **kwargs: Argument) -> Node:
        """Write a call of a torch operator."""
        node = self.graph.call_function(target, args, kwargs)
        node.meta = {**self._origin, "val": self.value_of(target, args, kwargs)}
        return node

    def value_of(self, target: Argument, args: Argument, kwargs: Argument) -> Argument:
        """Return the value, without elements, of a call of nodes."""
        values: Argument = map_arg((args, kwargs), lambda item: self._fake(item.meta["val"]))
        with self._mode or nullcontext():
            return target(*values[0], **values[1])

    def constant(self, name: str, value: Tensor) -> Node:
        """Write a buffer or parameter, under a name that begins so."""
        number, stem = 0, name
        while hasattr(self.module, name):
            number += 1
            name = f"{stem}_{number}"
        set_tensor(
            self.module, name, value if isinstance(value, nn.Parameter) else value.contiguous()
        )
        node = self.graph.get_attr(name)
        node.meta = {**self._origin, "val": self._fake(value)}
        return node

    def replace(self, node: Node, result: Node) -> None:
        """Read a result in the place of a node, which is erased."""
        node.replace_all_uses_with(result)
        self.graph.erase_node(node)

    def sizes(self, node: Node) -> list[Argument]:
        """Return a result's sizes as arguments of calls, dynamic ones as nodes."""
        return [
            self.call(aten.sym_size.int, node, dim) if is_dynamic(size) else int(size)
            for dim, size in enumerate(shape_of(node))
        ]

    def _fake(self, value: Argument) -> Argument:
        plain = isinstance(value, Tensor) and not hasattr(value, "fake_mode")
        return self._mode.from_tensor(value, static_shapes=True) if self._mode and plain else value


Rule = Callable[[Rewriter, Node], Node | None]


def operands_of(node: Argument) -> tuple[Argument, ...]:
    """Return the arguments of a call by place, of any kind."""
    return tuple(node.args)


def is_dynamic(size: object) -> bool:
    """True if a captured size, or the node of one, may be any."""
    size = size.meta.get("val") if isinstance(size, Node) else size
    return isinstance(size, torch.SymInt) and not size.node.expr.is_number


def shape_of(node: object) -> tuple[Size, ...]:
    """Return the captured shape of a result; empty for what is no tensor."""
    value = node.meta.get("val") if isinstance(node, Node) else None
    return tuple(value.shape) if isinstance(value, Tensor) else ()


def known_shape(node: object) -> list[Argument]:
    """Return a shape that can be compared: dynamic sizes as expressions."""
    return [size.node.expr if isinstance(size, torch.SymInt) else size for size in shape_of(node)]


class Constants:
    """The nodes of a captured graph that depend on no input but for the size of the batch."""

    def __init__(self, module: GraphModule) -> None:
        self._module = module
        self._is_constant: dict[Node, bool] = {}
        self._values: dict[tuple[Node, int], Argument] = {}

    def __contains__(self, node: object) -> bool:
        if not isinstance(node, Node):
            return False
        if node not in self._is_constant:
            waiting = [node]
            # Those that are known already are not looked behind.
            self._is_constant[node] = all(
                self._is_constant.get(item, self._may_be(item))
                for item in _behind(waiting, self._is_constant)
            )
        return self._is_constant[node]

    def _may_be(self, node: Node) -> bool:
        if node.op != "call_function":
            return node.op == "get_attr"
        if _is_size(node):
            return not any(str(item).startswith("u") for item in _symbols(node.meta["val"]))
        return torch.Tag.nondeterministic_seeded not in getattr(node.target, "tags", ())

    def value(self, node: object, rows: int = 1) -> Tensor | None:
        """Return a constant of as many inferences; None for what is computed, or does not run."""
        if node not in self:
            return None
        try:
            with torch.no_grad():
                value = self._evaluated(node, rows)
        except (RuntimeError, TypeError, IndexError, ValueError):
            return None
        return value if isinstance(value, Tensor) else None

    def _evaluated(self, node: Argument, rows: int) -> Argument:
        if (node, rows) in self._values:
            return self._values[node, rows]
        value: Argument
        if node.op == "get_attr":
            value = get_tensor(self._module, node.target)
        elif _is_size(node):
            value = size_of(node.meta["val"], rows)
        else:
            like = shaped_like(node)

            def operand(item: Argument) -> Argument:
                if isinstance(item, torch.SymInt):
                    return size_of(item, rows)
                if not isinstance(item, Node):
                    return item
                if item is not like:
                    return self._evaluated(item, rows)
                sizes = [size_of(size, rows) for size in shape_of(item)]
                return torch.zeros(sizes, dtype=item.meta["val"].dtype)

            args, kwargs = map_aggregate((node.args, node.kwargs), operand)
            value = overload(node.target)(*args, **kwargs)
        self._values[node, rows] = value
        return value


def _is_size(node: Node) -> bool:
    return isinstance(node.meta.get("val"), torch.SymInt | int)


def _behind(waiting: list[Node], decided: Mapping[Node, bool]) -> Iterator[Node]:
    """Yield nodes and what decides their values, the nearest first, but for what is known."""
    seen = set(waiting)
    for node in waiting:
        yield node
        if node not in decided and not _is_size(node):
            like = shaped_like(node)
            fresh = {item for item in node.all_input_nodes if item is not like} - seen
            seen |= fresh
            waiting += fresh


def shaped_like(node: Node) -> Node | None:
    """Return the operand of which a call reads the shape and the dtype alone."""
    name = getattr(getattr(node.target, "_schema", None), "name", "")
    if name in ("mase::rows_like", "aten::expand_as"):
        return node.args[1]  # type: ignore[return-value]
    reads = name.startswith("aten::new_") or (name.startswith("aten::") and name.endswith("_like"))
    return node.args[0] if reads else None  # type: ignore[return-value]


def all_alike(value: Tensor, other: Tensor) -> bool:
    """True if two tensors are equal, real numbers up to the order of sums."""
    if value.shape != other.shape or not value.is_floating_point():
        return torch.equal(value, other)
    return torch.allclose(value, other, 1e-5, 1e-6, equal_nan=True)


def _symbols(size: Argument) -> set[Argument]:
    return set(size.node.expr.free_symbols) if isinstance(size, torch.SymInt) else set()


def size_of(size: Argument, rows: int) -> int:
    """Return a captured size, where the batch has as many rows."""
    if not isinstance(size, torch.SymInt):
        return int(size)
    return int(size.node.expr.subs(dict.fromkeys(_symbols(size), rows)))
