"""The contract of an operator: its ATen targets, integer reference, module, and timing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

import torch
from torch import Tensor, nn

from mase_hw.arithmetic.carriers import exact_bits
from mase_hw.cells import Netlist, Port
from mase_hw.errors import UnsupportedError
from mase_hw.formats import (
    BLOCKS,
    FIXED_POINT,
    SCALARS,
    SCALED,
    Families,
    Family,
    Format,
    names_in,
)
from mase_hw.formats.fixed import MAX_EXACT_BITS
from mase_hw.geometry.tensor import Order, TensorSpec
from mase_hw.ops._masking import Mask

Reference = Callable[..., Tensor]
T = TypeVar("T")
# The operand of `Operator.compute` that is kept from one inference to the next.
STATE = "state"

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
    attributes: Mapping[str, Any] = field(default_factory=dict)
    _known: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)

    def once(self, key: str, compute: Callable[[], T]) -> T:
        """Return what depends on formats and constants alone, computed once.

        A call with another parallelism or order shares it.

        Args:
            key: what it is.
            compute: returns it.
        """
        specs = {**self.operands, **self.results}
        place = (key, *((name, spec.format, spec.shape) for name, spec in specs.items()))
        if place not in self._known:
            self._known[place] = compute()
        found: T = self._known[place]
        return found

    def after(self, before: Call) -> Call:
        """Return this call with what is known of an earlier one of the same constants."""
        same = self.attributes == before.attributes
        return replace(self, _known=before._known) if same else self

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
        spec, values = self.operands[operand], self.constants[operand]
        codes = self.once(f"codes of {operand}", lambda: _narrow(spec.quantized.encode(values)))
        return codes.to(torch.int64, copy=True)


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
# What a composition computes, and the arguments of the operator that it means.
Spelling = Tensor | tuple[Tensor, Mapping[str, Any]]
# In a composition, any number, which arguments of the operator may be too.
ANY_NUMBER = 0.123456789e-4


class Operator(ABC):
    """One operator: one file here, one module (or none) in `rtl/ops/`.

    Subclasses set the class attributes and override what differs. Nothing else in the package
    names an operator: tracing, metadata, quantisation, emission and the conformance tests work
    from this class.

    Attributes:
        name: the word a configuration and a table use.
        targets: ATen overloads that mean this operator, as `aten.relu.default`.
        operand_names: ATen argument name to operand name; other arguments are attributes.
        keeps_format: true when the result of codes in a format are codes in that format, so that
            a node without a configuration of its own takes its operand's format.
        casts: true when operand and result may differ in format; an operator that only moves
            elements is never configured and takes its operand's format.
        role: what this operator exists for, inserted by passes (`cast`, `retile`, `broadcast`).
        also_for: what passes insert this operator for although models have it too (`shrink`).
        families: the encodings whose hardware this operator has.
        result_axis: dimension of `weight` that counts results.
        scales: true when a scale of the results may be folded into `weight` and `bias`.
        shares_format: true when all operands and results are in one format, fitted to the result.
        broadcasts: true when streams of smaller shapes are expanded to the result's on the way.
        commutes: true when the first two arguments may change places.
        fused: true when `expression` is for number formats: without them the operator stays whole.
        takes_gain: true when what its results are multiplied with along the last dimension may
            be folded into `weight` and `bias`, or become its `weight`.
        approximates: true when a result may be the neighbour of the correctly rounded one.
        weighs: true when a constant operand is a matrix of weights although it is not called so.
        prunable: whether zeros among its weights save work.
        mask_argument: the ATen argument that is a mask, computed for all queries and keys.
        masked_argument: the one whose elements are left out where a mask is on them.
        selects: true when results depend on the order of the operands' elements alone, being one
            of them, or whole numbers in a format of the operator's own.
        keeps_state: true when a result depends on inferences before: see `empty`.
        exact_everywhere: false when `exact_result` is there for narrow operands alone, so that no
            format is claimed, although some are bridged.
        homogeneous: true when results of operands that are `s` times as large, `s` above zero, are
            `s` times as large, or the same whole numbers.
        elementwise: true when an element of the result depends on its own element of each stream
            alone, and on constants.
        whole: true when a result of whole numbers is a whole number, computed without rounding.
        options: the keys of a configuration that are none of a number format's, and their values;
            a call has those that are given among its attributes.
    """

    name: ClassVar[str]
    targets: ClassVar[tuple[str, ...]]
    operand_names: ClassVar[Mapping[str, str]] = OPERAND_NAMES
    keeps_format: ClassVar[bool] = False
    casts: ClassVar[bool] = True
    role: ClassVar[str | None] = None
    also_for: ClassVar[str | None] = None
    families: ClassVar[Families] = FIXED_POINT
    result_axis: ClassVar[int] = 0
    scales: ClassVar[bool] = False
    shares_format: ClassVar[bool] = False
    broadcasts: ClassVar[bool] = False
    commutes: ClassVar[bool] = False
    fused: ClassVar[bool] = False
    takes_gain: ClassVar[bool] = False
    approximates: ClassVar[bool] = False
    weighs: ClassVar[bool] = False
    prunable: ClassVar[bool] = True
    mask_argument: ClassVar[str | None] = None
    masked_argument: ClassVar[str | None] = None
    selects: ClassVar[bool] = False
    keeps_state: ClassVar[bool] = False
    exact_everywhere: ClassVar[bool] = True
    homogeneous: ClassVar[bool] = False
    elementwise: ClassVar[bool] = False
    whole: ClassVar[bool] = False
    options: ClassVar[Mapping[str, range]] = {}

    @property
    def formats(self) -> tuple[str, ...]:
        """The names of the number formats that it has hardware for."""
        return names_in(self.families)

    @property
    def carried(self) -> tuple[str, ...]:
        """The names of further ones, which are decoded to exact values and encoded again."""
        families: Families = frozenset()
        if self.role or not self.families:
            return ()
        if self.keeps_format and not self.casts:
            families = BLOCKS
        if self.selects:
            families = BLOCKS | {Family.FLOAT}
        if type(self).exact_result is not Operator.exact_result and self.exact_everywhere:
            families = BLOCKS | SCALARS
            if self.homogeneous:
                families |= SCALED
        return names_in(families - self.families)

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

    def empty(self, attributes: Mapping[str, Any], data_in_0: Tensor) -> Tensor:
        """Return what an operator that keeps a state holds after reset, for codes or for values.

        Inferences come in order. `reference` takes the state behind the streams, `compute` as the
        operand `state`; both write into it, in place, what the next inference finds.

        Args:
            attributes: the arguments that are no tensors, by their ATen names.
            data_in_0: the first operand of one inference.
        """
        raise UnsupportedError(f"{self.name} keeps no state")

    def places(self, call: Call) -> dict[str, int]:
        """Return, by operand that says a place of the state, how many places there are.

        A number beyond the last place is refused where a simulation is given it.
        """
        return {}

    def problems(self, call: Call) -> list[str]:
        """Return what stands between this call and hardware, each with the fix; empty when none.

        Parallelism is not known yet when this is asked.
        """
        refused: dict[str, list[str]] = {}
        for name, spec in {**call.operands, **call.results}.items():
            if spec.format is not None and spec.format.name not in self.formats:
                refused.setdefault(spec.format.name, []).append(name)
        fix = f"{self.name} has hardware for {', '.join(self.formats)}"
        if self.casts and not self.role:
            fix += ": configure it so, and casts are inserted"
        return self.unformatted(call) + [
            f"{_are(names)} {number}; {fix}{self._not_carried(call, names)}"
            for number, names in refused.items()
        ]

    def _not_carried(self, call: Call, names: Sequence[str]) -> str:
        """Return why exact values of operands and results are not carried, where they could be."""
        specs = {**call.operands, **call.results}
        numbers = [specs[name].quantized for name in names]
        if numbers[0].name not in self.carried:
            return ""
        if constants := [name for name in names if name in call.constants]:
            return f"; beside it exact values take streams alone, and {constants[0]} is constant"
        bits = max((found[0] for number in numbers if (found := exact_bits(number))), default=0)
        if bits <= MAX_EXACT_BITS:
            return ""
        return (
            f"; exact values of {numbers[0]} take {bits} bits, {MAX_EXACT_BITS} at most are "
            "carried: give its exponents, or those of its scales, fewer bits"
        )

    def notes(self, call: Call) -> list[str]:
        """Return what is worth knowing of the arithmetic of a call that has hardware."""
        return []

    def unformatted(self, call: Call) -> list[str]:
        """Return the one of `problems` that follows where a producer is without number format."""
        specs = {**call.operands, **call.results}
        names = [name for name, spec in specs.items() if spec.format is None]
        if not names:
            return []
        return [f"{_are(names)} without number format: configure one for {self.name}"]

    def ties(self, call: Call) -> list[list[tuple[str, int]]]:
        """Return groups of (operand or result name, dimension 0 or 1) of equal parallelism.

        Element-wise operators tie everything that streams; others override.
        """
        names = [*call.streams, *call.results]
        return [[(name, dim) for name in names] for dim in (0, 1)]

    def limits(self, call: Call) -> dict[tuple[str, int], int]:
        """Return the largest parallelism of (operand or result name, dimension 0 or 1).

        What is not named is bounded by the tensor's size alone.
        """
        return {}

    def unrolling(self, call: Call) -> dict[str, range]:
        """Return, by constant operand, how many of its elements along dimension 0 a cycle may take.

        Empty for an operator that takes as many as its streams bring. The first value is the
        default; the parallelism of the streams is known.
        """
        return {}

    def repeats(self, call: Call) -> dict[str, int]:
        """Return how often one inference takes the whole of each constant that may lie outside.

        Such a constant may come late.
        """
        return {}

    def orders(self, call: Call) -> dict[str, Order | None]:
        """Return the order of every stream, given those that are offered in `call.operands`.

        What an operand gets here and its producer does not give is re-ordered on the way. The
        default suits operators that work element by element: everything in the order of the first
        operand that is not torch's own.
        """
        offered = [spec.order for spec in call.streams.values() if spec.order is not None]
        order = offered[0] if offered else None
        return dict.fromkeys([*call.streams, *call.results], order)

    def result_format(self, call: Call) -> Format | None:
        """Return the result's format where the operator decides it, as for an index."""
        return None

    def operand_format(self, call: Call, name: str) -> Format | None:
        """Return an operand's format where the operator decides it, as for the number of a row."""
        return None

    def exact_result(self, call: Call, fraction: int) -> Format | None:
        """Return fixed point in which the result of operands in fixed point loses nothing.

        What is rounded once more from there, to numbers whose halves are multiples of
        `2**-fraction`, is as rounded from the exact result. None where there is no such format.

        Args:
            call: a call whose operands are in fixed point; its result has any format.
            fraction: fraction bits of what is rounded to, and one more.
        """
        return None

    def block_axis(self, name: str) -> int | None:
        """Return the dimension along which blocks of an operand or a result lie by default.

        It is counted from the last one, -1. None is any: that of the operators around.
        """
        return -1

    def growing(self, call: Call) -> list[frozenset[str]]:
        """Return the operands and results whose rows may end where `TensorSpec.grows` says.

        Those of a set end together; what an operand does not bring is taken for zero where the
        result is whole.
        """
        return [frozenset({*call.streams, *call.results})] if self.elementwise else []

    def is_triangular(self, call: Call) -> bool:
        """Return whether results `[..., i, j]` are zero where j is more than i, whatever comes.

        Operators are asked that name a `masked_argument`.
        """
        return False

    def operations(self, call: Call) -> int:
        """Return the arithmetic operations of one inference (a multiply-accumulate is two)."""
        return call.result.elements

    def prepare(
        self, constants: Mapping[str, Tensor], arguments: Mapping[str, Any]
    ) -> dict[str, Tensor]:
        """Return the constants that are quantised, from those the graph holds; differentiable."""
        return dict(constants)

    def prepare_training(
        self,
        constants: Mapping[str, Tensor],
        arguments: Mapping[str, Any],
        streams: Mapping[str, Tensor],
    ) -> dict[str, Tensor]:
        """Return what `prepare` does while the model is trained, on the streams of one batch.

        Statistics that training moves are moved here, in place.
        """
        return self.prepare(constants, arguments)

    def compute(
        self, target: Any, arguments: Mapping[str, Any], operands: Mapping[str, Tensor]
    ) -> Tensor:
        """Return the operator's result on real values, differentiable.

        Args:
            target: the ATen overload.
            arguments: all its arguments by ATen name.
            operands: every tensor by operand name, constants as `prepare` returned them.
        """
        given = {
            name: operands.get(self.operand_names.get(name, name), value)
            for name, value in arguments.items()
        }
        result: Tensor = target(**given)
        return result

    def as_module(self, call: Call) -> nn.Module | None:
        """Return a module of torch that computes the call, None where there is none.

        It has the constants as parameters of their operands' names, in any values, so that
        libraries which work on modules, such as those for adapters, can work on a graph's nodes.
        """
        return None

    def examples(self) -> list[Example]:
        """Return small modules that use the operator, with inputs of a few inferences.

        The conformance tests take them through capture, quantisation, emission and simulation.
        The default calls the first target on one tensor.
        """
        return [(Apply(torch_target(self.targets[0])), (example_values(3, 11),))]

    def patterns(self, x: Tensor) -> Iterable[Spelling]:
        """Yield the results of compositions of other torch operators on `x` that mean this one.

        A pass raises what capture makes of them to `targets[0]`, with its default arguments or
        those that come with the result. Numbers may be whole or real, sums and products either
        way round, and what occurs twice be computed once or twice: one spelling is enough. Of
        compositions that hold each other the largest counts. `ANY_NUMBER` stands for whatever
        number is there, as an argument too.

        Examples:
            >>> def patterns(self, x):
            ...     yield torch.relu(x) ** 2
            ...     yield torch.square(torch.relu(x))
        """
        return ()

    def expression(self, call: Call, operands: Mapping[str, Any]) -> Sequence[Any] | None:
        """Return every result written with other torch operators; None when there is hardware.

        Args:
            call: the call, with shapes; formats are not known yet.
            operands: what stands for each tensor operand; torch operators called on it are
                recorded.
        """
        return None

    def masked(self, call: Call, operands: Mapping[str, Any], mask: Mask, scale: float) -> Any:
        """Return the result with a mask; None where there is no such result.

        It is for operators that name a `mask_argument` or a `masked_argument`.

        Args:
            call: the call, with shapes.
            operands: what stands for each tensor operand, as in `expression`, without its mask.
            mask: what is left out; `kept` stands for a tensor.
            scale: what the masked operand is to be multiplied with before.
        """
        return None

    def is_identity(self, call: Call) -> bool:
        """Return true when the node may be replaced by its operand, at inference."""
        return False

    def trains(self, call: Call) -> bool:
        """Return true when an identity at inference acts while the model is trained."""
        return False

    def fold(self, call: Call, producer: Call) -> Mapping[str, Tensor] | None:
        """Return new constants for `producer` that make this call redundant, or None."""
        return None

    def bind(
        self,
        name: str,
        arguments: Mapping[str, Any],
        operands: Mapping[str, TensorSpec],
        results: Mapping[str, TensorSpec],
        constants: Mapping[str, Tensor],
    ) -> Call:
        """Return the call for a node whose ATen arguments are known by name.

        `operands` and `constants` are keyed by operand name, `arguments` hold what is no tensor.
        """
        return Call(name, self, operands, results, constants, arguments)


@runtime_checkable
class AddsUp(Protocol):
    """What operators say whose results are sums of elements, over a whole number."""

    def added(self, call: Call) -> Iterable[tuple[Mapping[str, int], int]]:
        """Yield, for each kind of result, how many elements of each operand, and the divisor.

        Elements that are subtracted count below zero. A result that is one of several elements is
        as many kinds.
        """


def _are(names: Sequence[str]) -> str:
    return f"{', '.join(names)} {'is' if len(names) == 1 else 'are'}"


def torch_target(name: str) -> Callable[..., Tensor]:
    """Return the torch operator called `name`, such as `aten.relu.default`."""
    found: Any = torch.ops
    for part in name.split("."):
        found = getattr(found, part)
    target: Callable[..., Tensor] = found
    return target


def example_values(*shape: int, seed: int = 0) -> Tensor:
    """Return float32 reals from a normal distribution, the same at every call."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))
