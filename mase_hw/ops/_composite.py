"""Operators that a pass writes with others; they have no hardware of their own."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor

from mase_hw.cells import Netlist
from mase_hw.errors import UnsupportedError
from mase_hw.geometry.tensor import TensorSpec
from mase_hw.ops._base import OPERAND_NAMES, Call, Example, Operator, Reference, along_batch
from mase_hw.ops._interfaces import Rewritten


class Composite(Operator, Rewritten):
    """An operator whose `expression` is all there is to it.

    Nodes of several results are composites: each result becomes a node, and the operand is forked.
    """

    families = frozenset()
    casts = False

    @abstractmethod
    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        """Return every result written with other torch operators.

        None where that cannot be done; `problems` then says why.
        """

    def problems(self, call: Call) -> list[str]:
        return [f"{self.name} is no hardware yet: run decompose_transform_pass first"]

    def reference(self, call: Call) -> Reference:
        raise UnsupportedError(self.problems(call)[0])

    def hardware(self, call: Call) -> Netlist:
        raise UnsupportedError(self.problems(call)[0])


Refusal = Callable[[Call], list[str]]
# Takes what records calls on tensors, and returns one such result, or a list of all.
Expression = Callable[..., Any]


class Composition(Composite):
    """An operator that is one function, see `composition`."""

    def __init__(
        self,
        expression: Expression,
        targets: tuple[str, ...],
        examples: Callable[[], list[Example]],
        refusal: Refusal | None,
        operand_names: Mapping[str, str],
        left_out: str,
    ) -> None:
        self.name, self.__doc__ = expression.__name__.rstrip("_"), expression.__doc__
        self.targets, self.operand_names = targets, operand_names
        self._expression, self._examples, self._refusal = expression, examples, refusal
        self._left_out = [left_out] if left_out else []

    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        if self._refusals(call):
            return None
        written = self._expression(call, *operands.values())
        results: Sequence[Tensor] = written if isinstance(written, list | tuple) else [written]
        return results

    def problems(self, call: Call) -> list[str]:
        return self._refusals(call) or self._left_out or super().problems(call)

    def examples(self) -> list[Example]:
        return self._examples()

    def _refusals(self, call: Call) -> list[str]:
        return [] if self._refusal is None else self._refusal(call)


def composition(
    *targets: str,
    examples: Callable[[], list[Example]],
    refusal: Refusal | None = None,
    operand_names: Mapping[str, str] = OPERAND_NAMES,
    left_out: str = "",
) -> Callable[[Expression], Composition]:
    """Make an operator of a function, which writes its results with other torch operators.

    The function takes the call, then what stands for each operand in the order of ATen's signature.
    Its name is the operator's; an underscore at the end keeps it apart from Python's own.

    Args:
        targets: ATen overloads that mean the operator.
        examples: see `Operator.examples`.
        refusal: says what is wrong with a call that cannot be written so, with the fix.
        operand_names: see `Operator`.
        left_out: says which results are not written, where a model reads them.

    Examples:
        >>> rows = (2, 5), (2, 5)
        >>> @composition("aten.hypot.default", examples=lambda: [example(torch.hypot, *rows)])
        ... def hypot(call, x, y):
        ...     return aten.sqrt.default(aten.add.Tensor(x * x, y * y))
    """
    return lambda expression: Composition(
        expression, targets, examples, refusal, operand_names, left_out
    )


def refuse_batch(what: str, fix: str, key: str = "dim") -> Refusal:
    """Refuse to work along the first dimension, see `along_batch`.

    Args:
        what: the operator does with a dimension.
        fix: what to do instead.
        key: the attribute that names the dimension.
    """
    return lambda call: [along_batch(what, fix)] if call.dimension(key) == 0 else []


def zero_of(spec: TensorSpec) -> float | int:
    """Return zero as a number of a tensor's kind, so that nothing is promoted beside it."""
    return 0.0 if spec.dtype.startswith(("float", "bfloat")) else 0
