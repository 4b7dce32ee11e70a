"""Reductions over axes that lie side by side in the stream, and operators on whole rows.

A sum, or a mean, is exact and rounded once. Partial results of one round wait in a memory as long
as the round; nothing else is stored.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from math import prod

from torch import Tensor

from mase_hw.arithmetic.fixed_point import fixed, too_wide
from mase_hw.arithmetic.quotient import Quotient, exact_quotient
from mase_hw.cells import Netlist
from mase_hw.cells.reduce import Reduce
from mase_hw.formats import Format
from mase_hw.geometry.runs import Run, candidate_orders, stream_axes
from mase_hw.geometry.tensor import Order, TensorSpec
from mase_hw.ops._base import Call, Operator, Reference, along_batch
from mase_hw.ops._interfaces import Exact, Judged, Numeric, Ordered, Summing, Tiled, WholeNumbers


class Rows(Operator, Numeric, Ordered, Tiled):
    """An operator along one dimension, which streams innermost: a row after the other."""

    approximates = True

    @abstractmethod
    def dim(self, call: Call) -> int:
        """Return the dimension of the rows, counted from the front."""

    def problems(self, call: Call) -> list[str]:
        problems = super().problems(call)
        if self.dim(call) == 0:
            problems.append(along_batch("its rows lie along", "name another dimension"))
        return problems

    def orders(self, call: Call) -> dict[str, Order | None]:
        data, dim = call.operands["data_in_0"], self.dim(call)
        axes = stream_axes(data) or tuple(range(len(data.shape)))
        inner = (*(axis for axis in axes if axis != dim), dim)
        return dict.fromkeys(("data_in_0", "data_out_0"), Order.permuted(data.shape, inner))

    def ties(self, call: Call) -> list[list[tuple[str, int]]]:
        names = [*call.streams, "data_out_0"]
        return [[(name, dim) for name in names] for dim in (0, 1)]

    def limits(self, call: Call) -> dict[tuple[str, int], int]:
        return {(name, 1): 1 for name in (*call.streams, "data_out_0")}


class Reduction(Operator, Ordered, Tiled):
    """A reduction; subclasses give it on tensors, and its module."""

    def dims(self, call: Call) -> tuple[int, ...]:
        """Return the reduced dimensions, counted from the front."""
        dims = call.attributes.get("dim")
        rank = max(1, len(call.operands["data_in_0"].shape))
        listed = [dims] if isinstance(dims, int) else list(dims or range(rank))
        return tuple(sorted(dim % rank for dim in listed))

    def problems(self, call: Call) -> list[str]:
        problems = super().problems(call)
        data, dims = call.operands["data_in_0"], self.dims(call)
        if 0 in dims:
            problems.append(along_batch("it reduces", "name other dimensions to reduce"))
        elif all(Run.find(spec, dims) is None for spec in candidate_orders(data)):
            problems.append(
                f"dimensions {list(dims)} of {list(data.shape)} do not lie side by side in a "
                "stream; reduce one after the other"
            )
        return problems

    def orders(self, call: Call) -> dict[str, Order | None]:
        data, result, dims = call.operands["data_in_0"], call.result, self.dims(call)
        spec = next(spec for spec in candidate_orders(data) if Run.find(spec, dims) is not None)
        axes = stream_axes(spec) or ()
        if len(result.shape) != len(data.shape):
            kept = [axis for axis in range(len(data.shape)) if axis not in dims]
            axes = tuple(kept.index(axis) for axis in axes if axis in kept)
        return {"data_in_0": spec.order, "data_out_0": Order.permuted(result.shape, axes)}

    def ties(self, call: Call) -> list[list[tuple[str, int]]]:
        return [] if self.run(call).row else [[("data_in_0", 0), ("data_out_0", 0)]]

    def limits(self, call: Call) -> dict[tuple[str, int], int]:
        limits = {("data_in_0", 1): 1, ("data_out_0", 1): 1}
        return {**limits, ("data_out_0", 0): 1} if self.run(call).row else limits

    def run(self, call: Call) -> Run:
        """Position of the reduced elements."""
        run = Run.find(call.operands["data_in_0"], self.dims(call))
        assert run is not None
        return run

    def operations(self, call: Call) -> int:
        return call.operands["data_in_0"].elements


class Accumulation(Reduction, Exact, WholeNumbers, Summing, Judged):
    """A sum, a mean or a maximum."""

    row_unit = "factor"
    homogeneous = True
    maximum = False

    @abstractmethod
    def divisor(self, call: Call) -> int:
        """Divisor of the reduced value."""

    def problems(self, call: Call) -> list[str]:
        problems = super().problems(call)
        if problems:
            return problems
        data = fixed(call.operands["data_in_0"])
        bits = self._quotient(call).width(self._sum_width(call)) - data.width
        return too_wide(lambda data_in_0: bits + data_in_0.width, data_in_0=data)

    def reference(self, call: Call) -> Reference:
        dims, quotient = self.dims(call), self._quotient(call)
        shape = call.result.shape

        def compute(codes: Tensor) -> Tensor:
            reduced = codes.amax(dims) if self.maximum else codes.sum(dims)
            return quotient(reduced).reshape(-1, *shape[1:])

        return compute

    def hardware(self, call: Call) -> Netlist:
        data, run, sums = call.operands["data_in_0"], self.run(call), self._sum_width(call)
        cell = reduce_cell(data, run, sums, self._quotient(call), maximum=self.maximum)
        return Netlist.single(call.ports, cell)

    def exact_result(self, call: Call, fraction: int) -> Format | None:
        data, divisor = fixed(call.operands["data_in_0"]), self.divisor(call)
        terms = 1 << (self._sum_width(call) - data.width - (not data.signed))
        return exact_quotient(data, max(1, terms // divisor), divisor, fraction)

    def added(self, call: Call) -> Iterable[tuple[Mapping[str, int], int]]:
        shape = call.operands["data_in_0"].shape
        count = 1 if self.maximum else prod(shape[dim] for dim in self.dims(call))
        return [({"data_in_0": count}, self.divisor(call))]

    def _quotient(self, call: Call) -> Quotient:
        fraction = fixed(call.operands["data_in_0"]).frac_width
        return Quotient(fraction, self.divisor(call), fixed(call.result))

    def _sum_width(self, call: Call) -> int:
        spec = call.operands["data_in_0"]
        data = fixed(spec)
        terms = 1 if self.maximum else prod(spec.shape[dim] for dim in self.dims(call))
        return data.width + (not data.signed) + (terms - 1).bit_length()


def reduce_cell(
    data: TensorSpec,
    run: Run,
    sum_width: int,
    quotient: Quotient,
    *,
    maximum: bool,
    factor_width: int = 0,
    beats: int = 0,
) -> Reduce:
    """Return the cell of a reduction.

    Args:
        data: the reduced tensor.
        run: where its elements lie.
        sum_width: bits of a sum.
        quotient: what becomes of a sum.
        maximum: whether the largest element is meant, not the sum.
        factor_width: bits of the factor that comes for each result; 0 for none.
        beats: beats that are reduced, where they are not those of the tensor.
    """
    lanes = data.parallelism[1]
    return Reduce(
        data.quantized.encoding,
        quotient.result.encoding,
        lanes,
        maximum,
        run.row if lanes > 1 else 0,
        run.terms,
        run.inner,
        sum_width,
        quotient.odd,
        quotient.shift,
        factor_width,
        beats or data.beats,
    )
