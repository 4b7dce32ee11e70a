"""What passes that choose number formats ask of an operator."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping

from torch import Tensor

from mase_hw.arithmetic.carriers import exact_bits
from mase_hw.formats import BLOCKS, SCALARS, SCALED, Families, Family, Format, names_in
from mase_hw.formats.fixed import MAX_EXACT_BITS
from mase_hw.ops._base import Call, Operator
from mase_hw.ops._interface import Interface


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
