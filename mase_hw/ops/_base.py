"""The contract of an operator: its ATen targets, integer reference, and hardware."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten

from mase_hw._kinds import Table
from mase_hw.cells import Netlist, Port
from mase_hw.formats import FIXED_POINT, Families, Format, names_in
from mase_hw.geometry.tensor import TensorSpec
from mase_hw.ops._interface import Interface

Reference = Callable[..., Tensor]
# The arguments of a call by their ATen names.
Attributes = Table
T = TypeVar("T")

OPERAND_NAMES = {
    "input": "data_in_0",
    "self": "data_in_0",
    "other": "data_in_1",
    "weight": "weight",
    "bias": "bias",
}


@dataclass(frozen=True)
class Call:
    """One use of an operator in a graph: everything an operator may look at.

    Attributes:
        name: the node's name, unique in the graph.
        operator: the operator.
        operands: every tensor operand by name, in the order of the ATen signature: those that
            stream (`data_in_0`, ...) and those that are constant (`weight`, ...).
        results: every result by name (`data_out_0`, ...).
        constants: real values of the constant operands.
        attributes: the other arguments by their ATen names (`negative_slope`, `dim`, ...).
    """

    name: str
    operator: Operator
    operands: Mapping[str, TensorSpec]
    results: Mapping[str, TensorSpec]
    constants: Mapping[str, Tensor] = field(default_factory=dict)
    attributes: Attributes = field(default_factory=dict)
    _known: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)

    def once(self, key: str, compute: Callable[[], T]) -> T:
        """Value of `compute()`, cached for this call's formats and constants.

        A call with another parallelism or order shares it.

        Args:
            key: what it is.
            compute: returns it.
        """
        return self._once(key, {**self.operands, **self.results}, compute)

    def _once(self, key: str, specs: Mapping[str, TensorSpec], compute: Callable[[], T]) -> T:
        place = (key, *((name, spec.format, spec.shape) for name, spec in specs.items()))
        if place not in self._known:
            self._known[place] = compute()
        value: T = self._known[place]
        return value

    def after(self, before: Call) -> Call:
        """Return this call with what is known of an earlier one of the same constants."""
        same = _equal(dict(self.attributes), dict(before.attributes))
        return replace(self, _known=before._known) if same else self

    def dimension(self, key: str = "dim") -> int:
        """Return the dimension of the first operand that an attribute names, from the front.

        Args:
            key: the attribute; the last dimension where it is missing.
        """
        rank = max(1, len(next(iter(self.operands.values())).shape))
        return int(self.attributes.get(key, -1)) % rank

    def with_formats(self, formats: Mapping[str, Format | None]) -> Call:
        """Return this call with operands and results, by their names, in other formats."""
        operands, results = (
            {
                name: spec.with_format(formats[name]) if name in formats else spec
                for name, spec in specs.items()
            }
            for specs in (self.operands, self.results)
        )
        return replace(self, operands=operands, results=results)

    @property
    def streams(self) -> dict[str, TensorSpec]:
        """The operands that stream in, in order."""
        return {name: spec for name, spec in self.operands.items() if name not in self.constants}

    @property
    def ports(self) -> dict[str, Port]:
        """The streams that enter its hardware, by operand."""
        return {name: Port.of(spec) for name, spec in self.streams.items()}

    @property
    def result(self) -> TensorSpec:
        """The specification of the first result."""
        return self.results["data_out_0"]

    def constant_codes(self, operand: str) -> Tensor:
        """Return the int64 codes of a constant operand in its own format."""
        spec = self.operands[operand]
        codes = self._once(
            "codes",
            {operand: spec},
            lambda: _narrow(spec.quantized.encode(self.constants[operand])),
        )
        return codes.to(torch.int64, copy=True)


def _equal(first: object, second: object) -> bool:
    """True if two values are equal; tensors in them are where they are the same ones."""
    (leaves, shape), (others, other_shape) = tree_flatten(first), tree_flatten(second)
    return shape == other_shape and all(
        leaf is other
        or not (isinstance(leaf, Tensor) or isinstance(other, Tensor) or leaf != other)
        for leaf, other in zip(leaves, others, strict=True)
    )


def _narrow(codes: Tensor) -> Tensor:
    """Return codes as the shortest integers that hold them."""
    if not codes.numel():
        return codes
    low, high = (int(end) for end in torch.aminmax(codes))
    for dtype in (torch.int8, torch.int16, torch.int32):
        if torch.iinfo(dtype).min <= low and high <= torch.iinfo(dtype).max:
            return codes.to(dtype)
    return codes


class Apply(nn.Module):
    """A module that calls a function, for examples.

    Args:
        function: takes the inputs, and `constants` after them.
        constants: tensors that become buffers.
    """

    def __init__(self, function: Callable[..., Tensor], *constants: Tensor) -> None:
        super().__init__()
        self._function = function
        self._names = [f"constant_{number}" for number in range(len(constants))]
        for name, value in zip(self._names, constants, strict=True):
            self.register_buffer(name, value)

    def forward(self, *inputs: Tensor) -> Tensor:
        """Call the function on the inputs."""
        return self._function(*inputs, *(getattr(self, name) for name in self._names))


Example = tuple[nn.Module, tuple[Tensor, ...]]


class Operator(ABC):
    """One operator: one file here, one module (or none) in `rtl/ops/`.

    Subclasses set the class attributes and override what differs. Nothing else in the package
    names an operator: tracing, metadata, quantisation, emission and the conformance tests work
    from this class, and passes from the interfaces that it has besides.

    Attributes:
        name: the word a configuration and a table use.
        targets: ATen overloads that mean this operator, as `aten.relu.default`.
        operand_names: ATen argument name to operand name; other arguments are attributes.
        role: what this operator exists for, inserted by passes (`cast`, `retile`, `broadcast`).
        families: the encodings whose hardware this operator has.
        casts: true when operand and result may differ in format; an operator that only moves
            elements is never configured and takes its operand's format.
    """

    name: str
    targets: tuple[str, ...]
    operand_names: Mapping[str, str] = OPERAND_NAMES
    role: ClassVar[str | None] = None
    families: ClassVar[Families] = FIXED_POINT
    casts: ClassVar[bool] = True

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        Interface.check(cls)

    @property
    def formats(self) -> tuple[str, ...]:
        """The names of the number formats that it has hardware for."""
        return names_in(self.families)

    @abstractmethod
    def reference(self, call: Call) -> Reference:
        """Return the specification: a function from int64 codes to int64 codes.

        It takes the codes of the streaming operands in order, each with any number of inferences
        along the batch dimension, and returns the codes of the result. Constants are prepared
        once, here.
        """

    @abstractmethod
    def hardware(self, call: Call) -> Netlist:
        """Return the cells that compute `reference`, joined by streams; a wire has none.

        It is asked for in every parallelism that a search tries, so that what is costly, such as
        the words of a memory, must be computed when the cells ask for it. Its cycles and its
        multipliers do not depend on the values of constants: of calls that differ in nothing else
        a search asks one.
        """

    def problems(self, call: Call) -> list[str]:
        """Obstacles between this call and hardware, each with the fix; empty when none.

        Parallelism is not known yet when this is asked.
        """
        refused: dict[str, list[str]] = {}
        for name, spec in {**call.operands, **call.results}.items():
            if spec.format is not None and spec.format.name not in self.formats:
                refused.setdefault(spec.format.name, []).append(name)
        fix = f"{self.name} has hardware for {', '.join(self.formats)}"
        if self.casts and not self.role:
            fix += ": configure it so, and casts are inserted"
        return unformatted(call) + [
            f"{_are(names)} {number}; {fix}" for number, names in refused.items()
        ]

    def operations(self, call: Call) -> int:
        """Return the arithmetic operations of one inference (a multiply-accumulate is two)."""
        return call.result.elements

    def compute(self, target: Any, arguments: Attributes, operands: Mapping[str, Tensor]) -> Tensor:
        """Return the operator's result on real values, differentiable.

        Args:
            target: the ATen overload.
            arguments: all its arguments by ATen name.
            operands: every tensor by operand name, constants as `prepare` returned them.
        """
        keywords = {
            name: operands.get(self.operand_names.get(name, name), value)
            for name, value in arguments.items()
        }
        result: Tensor = target(**keywords)
        return result

    def examples(self) -> list[Example]:
        """Return small modules that use the operator, with inputs of a few inferences.

        The conformance tests take them through capture, quantisation, emission and simulation.
        The default calls the first target on one tensor.
        """
        return [(Apply(torch_target(self.targets[0])), (example_values(3, 11),))]

    def bind(self, call: Call) -> Call:
        """Return the call of a node, given that with the ATen arguments as they are."""
        return call


def unformatted(call: Call) -> list[str]:
    """Return the one of `problems` that follows where a producer is without number format."""
    specs = {**call.operands, **call.results}
    names = [name for name, spec in specs.items() if spec.format is None]
    if not names:
        return []
    return [f"{_are(names)} without number format: configure one for {call.operator.name}"]


def _are(names: Sequence[str]) -> str:
    return f"{', '.join(names)} {'is' if len(names) == 1 else 'are'}"


def torch_target(name: str) -> Callable[..., Tensor]:
    """Return the torch operator called `name`, such as `aten.relu.default`."""
    item: Any = torch.ops
    for part in name.split("."):
        item = getattr(item, part)
    target: Callable[..., Tensor] = item
    return target


def overloads(names: str) -> tuple[str, ...]:
    """Return ATen overloads, `sin` for `aten.sin.default`; names with dots are whole."""
    return tuple(name if "." in name else f"aten.{name}.default" for name in names.split())


def along_batch(what: str, fix: str) -> str:
    """Return why an operator, as it says of itself, does not work along the first dimension."""
    return (
        f"{what} dimension 0, the batch: {fix}, or, where its rows are no batch, put one in front "
        "with unsqueeze(0)"
    )


def example_values(*shape: int, seed: int = 0) -> Tensor:
    """Return float32 reals from a normal distribution, the same at every call."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def example(function: Callable[..., Any], *inputs: Tensor | tuple[int, ...]) -> Example:
    """Return an example of a module or a function.

    Args:
        function: a module, or a function that becomes one.
        inputs: tensors, or shapes of `example_values`, which differ in their seeds.
    """
    module = function if isinstance(function, nn.Module) else Apply(function)
    values = [
        item if isinstance(item, Tensor) else example_values(*item, seed=place)
        for place, item in enumerate(inputs)
    ]
    return module, tuple(values)
