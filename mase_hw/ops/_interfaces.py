"""What a pass asks of some operators alone: a class that they inherit beside `Operator`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from torch import Tensor, nn

from mase_hw._kinds import Table
from mase_hw.arithmetic.carriers import exact_bits
from mase_hw.formats import BLOCKS, SCALARS, SCALED, Families, Family, Format, names_in
from mase_hw.formats.fixed import MAX_EXACT_BITS
from mase_hw.geometry.tensor import Order
from mase_hw.ops._base import Attributes, Call, Operator
from mase_hw.ops._interface import Interface


class Judged(Interface):
    """How its results are judged, see `mase_hw.graph.agreement`.

    Attributes:
        channel_axis: dimension of its results' channels; None for that of its operand.
        one_scale: true when results of all channels are in one scale, as probabilities are.
        row_unit: `factor` or `offset`: what a reduction of a row is for the row, so that an
            operator of the same word, which applies it, has results in one scale.
    """

    channel_axis: ClassVar[int | None] = None
    one_scale: ClassVar[bool] = False
    row_unit: ClassVar[str] = ""


class Ranking(Interface):
    """Returns indices of elements in their order, which equal elements leave open."""

    @abstractmethod
    def tied(self, call: Call, data: Tensor) -> Tensor:
        """Return true by row where an equal element stands on the other side of a border."""


# What a composition computes, and the arguments of the operator that it means.
Spelling = Tensor | tuple[Tensor, Table]
# In a composition, any number, which arguments of the operator may be too.
ANY_NUMBER = 0.123456789e-4


class Rewritten(Interface):
    """Some or all calls are written with other torch operators.

    Attributes:
        fused: true when `expression` is for number formats: without them the operator stays whole.
        weighs: true when a constant operand is a matrix of weights although it is not called so.
    """

    fused = False
    weighs = False

    @abstractmethod
    def expression(self, call: Call, operands: Mapping[str, Tensor]) -> Sequence[Tensor] | None:
        """Return every result written with other torch operators; None when there is hardware.

        Args:
            call: the call, with shapes; formats are not known yet.
            operands: what stands for each tensor operand; torch operators called on it are
                recorded.
        """


class Recognized(Interface):
    """Models write it with other operators of torch too."""

    @abstractmethod
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


class Commutative(Interface):
    """The first two arguments may change places."""


class Removable(Interface):
    """Some calls do nothing at inference."""

    def is_identity(self, call: Call) -> bool:
        """Return true when the node may be replaced by its operand, at inference."""
        return False

    def trains(self, call: Call) -> bool:
        """Return true when an identity at inference acts while the model is trained."""
        return False


class Foldable(Interface):
    """Some calls are folded into the constants of the node before."""

    def fold(self, call: Call, producer: Call) -> Mapping[str, Tensor] | None:
        """Return new constants for `producer` that make this call redundant, or None."""
        return None


class Affine(Interface):
    """Some calls are `scale * x + shift` of their one stream, with constants.

    Attributes:
        merges: whether it goes into the constants of any layer before it, not of those alone that
            the model rounds itself.
    """

    merges = False

    def affine(self, call: Call) -> tuple[Tensor, Tensor] | None:
        """Return the scale and the shift, which broadcast to the result; None for other calls."""
        return None


class Borrowed(Interface):
    """Passes insert it, and models have it too.

    Attributes:
        also_for: the role that passes ask for (`shrink`).
    """

    also_for: ClassVar[str]


# The operand of `Operator.compute` that is kept from one inference to the next.
STATE = "state"


class Stateful(Interface):
    """A result depends on inferences before, which come in order."""

    @abstractmethod
    def empty(self, attributes: Attributes, data_in_0: Tensor) -> Tensor:
        """State after reset, in codes or in values.

        `reference` takes the state behind the streams, `compute` as the operand `state`; both
        write into it, in place, what the next inference finds.

        Args:
            attributes: the arguments that are no tensors, by their ATen names.
            data_in_0: the first operand of one inference.
        """

    def places(self, call: Call) -> dict[str, int]:
        """Return, by operand that says a place of the state, how many places there are.

        A number beyond the last place is refused where a simulation is given it.
        """
        return {}


class Weighted(Interface):
    """What its constant `weight` means.

    Attributes:
        result_axis: dimension of `weight` that counts results.
        scales: true when a scale of the results may be folded into `weight` and `bias`.
        prunable: whether zeros among its weights save work.
    """

    result_axis = 0
    scales = False
    prunable = True

    def repeats(self, call: Call) -> dict[str, int]:
        """Return how often one inference takes the whole of each constant that may lie outside.

        Such a constant may come late.
        """
        return {}

    def as_module(self, call: Call) -> nn.Module | None:
        """Return a module of torch that computes the call, None where there is none.

        It has the constants as parameters of their operands' names, in any values, so that
        libraries which work on modules, such as those for adapters, can work on a graph's nodes.
        """
        return None


class Configured(Interface):
    """Its arithmetic can be chosen.

    Attributes:
        options: the keys of a configuration that are none of a number format's, and their values;
            a call has those that are given among its attributes.
    """

    options: ClassVar[Mapping[str, range]] = {}

    def notes(self, call: Call) -> list[str]:
        """Notes on the arithmetic of a call that has hardware."""
        return []


class Gained(Interface):
    """Factors of its results, along the last dimension, may become its `weight`, or part of it.

    They may be folded into `weight` and `bias` where it has them.
    """


class Normalizing(Interface):
    """A norm of rows, which of fewer elements is the norm of those.

    Each result is its own element of the first operand, in units of statistics of the row.
    """


class Prepared(Interface):
    """Its constants are quantised in another form than the graph holds; by default as they are."""

    def prepare(self, constants: Mapping[str, Tensor], arguments: Attributes) -> dict[str, Tensor]:
        """Return the constants that are quantised, from those the graph holds; differentiable."""
        return dict(constants)

    def prepare_training(
        self,
        constants: Mapping[str, Tensor],
        arguments: Attributes,
        streams: Mapping[str, Tensor],
    ) -> dict[str, Tensor]:
        """Constants as `prepare` makes them in training, on the streams of one batch.

        Statistics that training moves are moved here, in place.
        """
        return self.prepare(constants, arguments)


class Tiled(Interface):
    """How parallel its streams may be; by default as parallel as each other."""

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


class Ordered(Interface):
    """In which order its streams come; by default all in one."""

    def orders(self, call: Call) -> dict[str, Order | None]:
        """Return the order of every stream, given those that are offered in `call.operands`.

        What an operand gets here and its producer does not give is re-ordered on the way. The
        default suits operators that work element by element: everything in the order of the first
        operand that is not torch's own.
        """
        offered = [spec.order for spec in call.streams.values() if spec.order is not None]
        order = offered[0] if offered else None
        return dict.fromkeys([*call.streams, *call.results], order)


class Broadcasting(Interface):
    """Streams of smaller shapes are expanded to the result's on the way."""


class Growing(Interface):
    """Rows of its streams may end at the diagonal; by default they may not."""

    def growing(self, call: Call) -> list[frozenset[str]]:
        """Return the operands and results whose rows may end where `TensorSpec.grows` says.

        Those of a set end together; what an operand does not bring is taken for zero where the
        result is whole.
        """
        return []


class Elementwise(Growing):
    """An element of the result depends on its own element of each stream, and on constants."""

    def growing(self, call: Call) -> list[frozenset[str]]:
        return [frozenset({*call.streams, *call.results})]


class Numeric(Interface):
    """How the formats of operands and results depend on each other.

    Attributes:
        keeps_format: true when the result of codes in a format are codes in that format, so that
            a node without a configuration of its own takes its operand's format.
        shares_format: true when all operands and results are in one format, fitted to the result.
        jumps: true when results of neighbouring operands may be far apart, though codes are kept:
            what rounds the result then cannot round the operand.
        approximates: true when a result may be the neighbour of the correctly rounded one.
    """

    keeps_format = False
    shares_format = False
    jumps = False
    approximates = False

    def result_format(self, call: Call) -> Format | None:
        """Return the result's format where the operator decides it, as for an index."""
        return None

    def operand_format(self, call: Call, name: str) -> Format | None:
        """Return an operand's format where the operator decides it, as for the number of a row."""
        return None

    def block_axis(self, name: str) -> int | None:
        """Return the dimension along which blocks of an operand or a result lie by default.

        It is counted from the last one, -1. None is any: that of the operators around.
        """
        return -1


class Exact(Interface):
    """Exact results of operands in fixed point, so that other formats are decoded and encoded.

    Attributes:
        exact_everywhere: false when `exact_result` is there for narrow operands alone, so that no
            format is claimed, although some are bridged.
        homogeneous: true when results of operands that are `s` times as large, `s` above zero, are
            `s` times as large, or the same whole numbers.
        of_few_bits: true when exact results have no more bits than the operands, whole numbers for
            one, so that integers with a real scale are decoded too.
    """

    exact_everywhere = True
    homogeneous = False
    of_few_bits = False

    def exact_result(self, call: Call, fraction: int) -> Format | None:
        """Return fixed point in which the result of operands in fixed point loses nothing.

        What is rounded once more from there, to numbers whose halves are multiples of
        `2**-fraction`, is as rounded from the exact result. None where there is no such format.

        Args:
            call: a call whose operands are in fixed point; its result has any format.
            fraction: fraction bits of what is rounded to, and one more.
        """
        return None


class Selecting(Interface):
    """Results depend on the order of the operands' elements alone.

    They are one of the elements, or whole numbers in a format of the operator's own.
    """


class Choosing(Interface):
    """Results are elements of some operands, whatever they are.

    Attributes:
        chosen: names of the operands.
    """

    chosen: tuple[str, ...] = ("data_in_0", "data_in_1")


class WholeNumbers(Interface):
    """A result of whole numbers is a whole number, computed without rounding."""


class Summing(Interface):
    """Results are sums of elements, over a whole number."""

    @abstractmethod
    def added(self, call: Call) -> Iterable[tuple[Mapping[str, int], int]]:
        """Yield, for each kind of result, how many elements of each operand, and the divisor.

        Elements that are subtracted count below zero. A result that is one of several elements is
        as many kinds.
        """


class Rescaled(Interface):
    """The same results follow from a stream in other units, where other arguments say so."""

    @abstractmethod
    def in_units(self, call: Call, operands: Mapping[str, Tensor], unit: float) -> Tensor:
        """Return a call, written with torch operators, on its one stream in units of a number.

        Args:
            call: the call on the stream as it is.
            operands: what stands for each tensor operand, the stream divided by the unit.
            unit: a number above zero.
        """


class Multiplying(Interface):
    """Results are sums of products of an element of each of two operands, exact in fixed point."""

    @abstractmethod
    def products(self, call: Call) -> int:
        """Return how many products a result adds up."""


def carried(operator: Operator) -> tuple[str, ...]:
    """Return the names of formats that are decoded to exact values and encoded again.

    The operator has no hardware in these formats, and needs none.
    """
    families: Families = frozenset()
    if operator.role or not operator.families:
        return ()
    if Numeric.of(operator).keeps_format and not operator.casts:
        families = BLOCKS
    if isinstance(operator, Selecting):
        families = BLOCKS | {Family.FLOAT}
    if isinstance(operator, Exact) and operator.exact_everywhere:
        families = BLOCKS | SCALARS
        if operator.homogeneous or operator.of_few_bits:
            families |= SCALED
    return names_in(families - operator.families)


def not_carried(call: Call) -> str:
    """Return why exact values are not carried, where they could be; empty for any other call."""
    formats = {name: spec.format for name, spec in {**call.operands, **call.results}.items()}
    refused = {
        name: number
        for name, number in formats.items()
        if number is not None and number.name not in call.operator.formats
    }
    known = carried(call.operator)
    if not any(number.name in known for number in refused.values()):
        return ""
    if constants := [name for name in refused if name in call.constants]:
        return f"beside exact values it takes streams alone, and {constants[0]} is constant"
    widths = [(found[0], number) for number in refused.values() if (found := exact_bits(number))]
    bits, widest = max(widths, default=(0, None), key=lambda item: item[0])
    if bits <= MAX_EXACT_BITS:
        return ""
    return (
        f"exact values of {widest} take {bits} bits, {MAX_EXACT_BITS} at most are carried: give "
        "its exponents, or those of its scales, fewer bits"
    )
