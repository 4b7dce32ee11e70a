"""A graph whose complex numbers are written as pairs of real ones.

What is known to be zero, such as the imaginary part of a real tensor, is not computed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

from torch import Tensor, nn
from torch._guards import detect_fake_mode
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from mase_hw._aten import aten
from mase_hw._kinds import Argument
from mase_hw.graph._rewriter import Constants
from mase_hw.graph.rebuild import get_tensor, set_tensor

_ORIGIN = ("nn_module_stack", "stack_trace")
# A real tensor, or a number.
Part = Node | float


@dataclass(frozen=True)
class Pair:
    """A complex tensor, or number.

    Attributes:
        real: its real part.
        imaginary: its imaginary part, 0.0 where that is known.
    """

    real: Part
    imaginary: Part = 0.0


class UnknownError(Exception):
    """A complex number is computed with in a way that is not known here."""


def is_complex(node: Node) -> bool:
    """Return whether a node's result is complex."""
    value = node.meta.get("val")
    return isinstance(value, Tensor) and value.is_complex()


class Splitter:
    """Puts pairs in place of complex numbers.

    Args:
        module: the graph.
        rules: what to put in place of a node, by its target.
        always: targets that have a rule of real numbers, too.
    """

    def __init__(
        self, module: GraphModule, rules: Mapping[object, Rule], always: Collection[object]
    ) -> None:
        self._module, self._graph = module, module.graph
        self._rules, self._always = rules, always
        self._pairs: dict[Node, Pair] = {}
        self._count = 0
        self._origin: dict[str, Argument] = {}

    def split(self) -> None:
        """Put pairs in place of all complex nodes."""
        replaced: dict[Node, Node] = {}
        self._mode = detect_fake_mode([node.meta.get("val") for node in self._graph.nodes])
        for node in list(self._graph.nodes):
            self._origin = {key: node.meta[key] for key in _ORIGIN if key in node.meta}
            if not self.concerns(node) and not self._of_pairs(node):
                continue
            with self._graph.inserting_before(node):
                found = self._rewritten(node)
                if is_complex(node):
                    self._pairs[node] = found if isinstance(found, Pair) else Pair(found)
                else:
                    replaced[node] = self._tensor(found, node)
        for node, made in replaced.items():
            node.replace_all_uses_with(made)
        for node in reversed([*self._pairs, *replaced]):
            if not node.users and node.op == "call_function":
                self._graph.erase_node(node)

    def concerns(self, node: Node) -> bool:
        """Return whether a node is complex, or has a rule of real numbers."""
        return node.target in self._always or is_complex(node)

    def _of_pairs(self, node: Node) -> bool:
        return any(item in self._pairs for item in node.all_input_nodes)

    def _rewritten(self, node: Node) -> Pair | Part:
        if node.op == "get_attr":
            return self._constants(node)
        rule = self._rules.get(node.target) if node.op == "call_function" else None
        if rule is None:
            raise UnknownError
        return rule(self, node)

    def _constants(self, node: Node) -> Pair:
        value, name = get_tensor(self._module, str(node.target)), str(node.target)
        parts = {"real": value.detach().real, "imag": value.detach().imag}
        if isinstance(value, nn.Parameter):
            parts = {key: nn.Parameter(part.clone()) for key, part in parts.items()}
        name = name.replace(".", "_")
        return Pair(*(self.constant(f"{name}_{key}", part) for key, part in parts.items()))

    def _tensor(self, part: Pair | Part, node: Node) -> Node:
        """Return the real result of a node, a tensor also where it is known to be a number."""
        if isinstance(part, Pair):
            raise UnknownError
        return self.filled(self.pair(node.all_input_nodes[0]), part)

    def filled(self, value: Pair, part: Part) -> Node:
        """Return a part of a pair as a tensor, also where it is known to be a number."""
        if isinstance(part, Node):
            return part
        like = value.real if isinstance(value.real, Node) else value.imaginary
        return self.call(aten.full_like.default, like, part)

    def constant(self, name: str, value: Tensor) -> Node:
        """Return a node of a constant."""
        if hasattr(self._module, name):
            self._count += 1
            name = f"{name}_{self._count}"
        kept = value if isinstance(value, nn.Parameter) else value.contiguous()
        set_tensor(self._module, name, kept)
        made = self._graph.get_attr(name)
        made.meta = {**self._origin, "val": self._fake(value)}
        return made

    def known(self, node: Node) -> Tensor | None:
        """Return a constant; None of what is computed."""
        return Constants(self._module).value(node)

    def call(self, target: Argument, *args: Argument, **kwargs: Argument) -> Node:
        """Return a node that calls a target."""
        made = self._graph.call_function(target, args, kwargs)
        given: Argument = map_arg((args, kwargs), lambda item: self._fake(item.meta["val"]))
        made.meta = {**self._origin, "val": target(*given[0], **given[1])}
        return made

    def _fake(self, value: Argument) -> Argument:
        plain = isinstance(value, Tensor) and not hasattr(value, "fake_mode")
        return self._mode.from_tensor(value, static_shapes=True) if self._mode and plain else value

    def pair(self, value: Argument) -> Pair:
        """Return an argument as a pair."""
        if isinstance(value, complex):
            return Pair(value.real, value.imag)
        return self._pairs.get(value, Pair(value))

    def plus(self, left: Part, right: Part, sign: int = 1) -> Part:
        """Return a sum, or a difference."""
        if not isinstance(left, Node) and not isinstance(right, Node):
            return left + sign * right
        if right == 0.0:
            return left
        if left == 0.0:
            return right if sign > 0 else self.times(-1.0, right)
        if not isinstance(left, Node):
            return self.plus(self.times(sign, right), left)
        return self.call(aten.add.Tensor if sign > 0 else aten.sub.Tensor, left, right)

    def times(self, left: Part, right: Part) -> Part:
        """Return a product, of which factors of one and zero are left out."""
        if not isinstance(left, Node) and not isinstance(right, Node):
            return left * right
        if not isinstance(left, Node):
            left, right = right, left
        if right == 1.0 or right == 0.0:
            return left if right else 0.0
        return self.call(aten.mul.Tensor, left, right)

    def product(self, left: Pair, right: Pair, times: Callable[[Part, Part], Part]) -> Pair:
        """Return the product of pairs, given that of real parts."""
        return Pair(
            self.plus(times(left.real, right.real), times(left.imaginary, right.imaginary), -1),
            self.plus(times(left.real, right.imaginary), times(left.imaginary, right.real)),
        )

    def power(self, value: Pair) -> Part:
        """Return the square of the absolute value."""
        real, imaginary = value.real, value.imaginary
        return self.plus(self.times(real, real), self.times(imaginary, imaginary))

    def each(self, node: Node) -> Pair:
        """Return what a node that is linear, without a constant, makes of each part."""
        names = ("real", "imaginary")
        return Pair(*(self._of_parts(node, name) for name in names))

    def _of_parts(self, node: Node, name: str) -> Part:
        found = {item: getattr(self.pair(item), name) for item in node.all_input_nodes}
        if not any(isinstance(found[item], Node) for item in self._of(node)):
            return 0.0

        def part(item: Node) -> Node:
            if item not in self._pairs and not _is_value(item):
                return item
            return self.filled(self.pair(item), found[item])

        args, kwargs = map_arg((node.args, node.kwargs), part)
        return self.call(node.target, *args, **kwargs)

    @staticmethod
    def _of(node: Node) -> Iterator[Node]:
        return (item for item in node.all_input_nodes if _is_value(item))


def _is_value(node: Node) -> bool:
    """Return whether a node is numbers that are computed with, not indices or sizes."""
    value = node.meta.get("val")
    return isinstance(value, Tensor) and (value.is_floating_point() or value.is_complex())


Rule = Callable[[Splitter, Node], Pair | Part]
