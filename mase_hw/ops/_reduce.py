"""Reductions over axes that lie side by side in the stream: sums, means, maxima, indices.

A sum, or a mean, is exact and rounded once. Partial results of one round wait in a memory as long
as the round; nothing else is stored.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import ClassVar

import numpy as np
from torch import Tensor

from mase_hw.geometry.beats import Cycles, one_per_cycle
from mase_hw.geometry.tensor import Order, TensorSpec
from mase_hw.ops._base import Call, Hardware, Operator, Reference
from mase_hw.ops._fixed import fixed
from mase_hw.ops._quotient import Quotient


@dataclass(frozen=True)
class Run:
    """Where the reduced elements lie in a stream: again and again `terms` x `inner` beats.

    Attributes:
        terms: rounds that are reduced.
        inner: beats of a round.
        across: whether the lanes of a beat are reduced too.
    """

    terms: int
    inner: int
    across: bool

    @classmethod
    def find(cls, spec: TensorSpec, dims: tuple[int, ...]) -> Run | None:
        """Return the run of `dims` in a stream, None when they do not lie side by side."""
        axes = stream_axes(spec)
        if axes is None:
            return None
        sizes = [spec.shape[axis] for axis in axes]
        places = [place for place, axis in enumerate(axes) if axis in dims]
        across = axes[-1] in dims
        long = [place for place in places if sizes[place] > 1 and place < len(axes) - 1]
        first = min(long, default=len(axes) - 1)
        stop = len(axes) - 1 if across else max(long, default=first - 1) + 1
        if any(sizes[place] > 1 and place not in places for place in range(first, stop)):
            return None
        tiles = spec.tiles[1]
        terms, inner = prod(sizes[first:stop]), prod(sizes[stop:-1])
        return cls(terms * tiles, 1, True) if across else cls(terms, inner * tiles, False)

    def schedule(self, offered: Cycles, lanes: int) -> Cycles:
        """Return when each reduced beat is offered."""
        entered = one_per_cycle(offered).reshape(-1, self.terms, self.inner)
        result: Cycles = entered[:, -1].reshape(-1) + 1 + int(self.across and lanes > 1)
        return result


class Reduction(Operator):
    """A reduction; subclasses give it on tensors, and its module."""

    def dims(self, call: Call) -> tuple[int, ...]:
        """Return the reduced dimensions, counted from the front."""
        given = call.attributes.get("dim")
        rank = max(1, len(call.operands["data_in_0"].shape))
        listed = [given] if isinstance(given, int) else list(given or range(rank))
        return tuple(sorted(dim % rank for dim in listed))

    def problems(self, call: Call) -> list[str]:
        """Also refuse dimensions that are out of range, the batch, or apart."""
        found = super().problems(call)
        data, dims = call.operands["data_in_0"], self.dims(call)
        if 0 in dims:
            found.append("it reduces dimension 0, the batch; name the dimensions to reduce")
        elif all(Run.find(spec, dims) is None for spec in _candidates(data)):
            found.append(
                f"dimensions {list(dims)} of {list(data.shape)} do not lie side by side in a "
                "stream; reduce one after the other"
            )
        return found

    def orders(self, call: Call) -> dict[str, Order | None]:
        """The order that is offered, where the reduced dimensions lie side by side in it."""
        data, result, dims = call.operands["data_in_0"], call.result, self.dims(call)
        spec = next(spec for spec in _candidates(data) if Run.find(spec, dims) is not None)
        axes = stream_axes(spec) or ()
        if len(result.shape) != len(data.shape):
            kept = [axis for axis in range(len(data.shape)) if axis not in dims]
            axes = tuple(kept.index(axis) for axis in axes if axis in kept)
        return {"data_in_0": spec.order, "data_out_0": Order.permuted(result.shape, axes)}

    def ties(self, call: Call) -> list[list[tuple[str, int]]]:
        """Lanes stay, unless they are reduced."""
        return [] if self.run(call).across else [[("data_in_0", 0), ("data_out_0", 0)]]

    def limits(self, call: Call) -> dict[tuple[str, int], int]:
        """One row at a time; a single result where lanes are reduced."""
        limits = {("data_in_0", 1): 1, ("data_out_0", 1): 1}
        return {**limits, ("data_out_0", 0): 1} if self.run(call).across else limits

    def run(self, call: Call) -> Run:
        """Return where the reduced elements lie."""
        run = Run.find(call.operands["data_in_0"], self.dims(call))
        assert run is not None
        return run

    def operations(self, call: Call) -> int:
        """One for each element."""
        return call.operands["data_in_0"].elements


class Accumulation(Reduction):
    """A sum, a mean or a maximum."""

    maximum: ClassVar[bool] = False

    @abstractmethod
    def divisor(self, call: Call) -> int:
        """Return what the reduced value is divided by."""

    def problems(self, call: Call) -> list[str]:
        """Also refuse sums beyond 62 bits."""
        found = super().problems(call)
        if not found and self._quotient(call).width(self._sum_width(call)) > 62:
            found.append("sums may exceed 62 bits; use narrower operands")
        return found

    def reference(self, call: Call) -> Reference:
        """Return codes -> codes."""
        dims, quotient = self.dims(call), self._quotient(call)
        shape = call.result.shape

        def compute(codes: Tensor) -> Tensor:
            reduced = codes.amax(dims) if self.maximum else codes.sum(dims)
            return quotient(reduced).reshape(-1, *shape[1:])

        return compute

    def hardware(self, call: Call) -> Hardware:
        """Return one instance."""
        run = self.run(call)
        return Hardware(
            "mase_reduce_fixed",
            {
                "MAXIMUM": int(self.maximum),
                "ACROSS": int(run.across),
                "TERMS": run.terms,
                "INNER": run.inner,
                "SUM_WIDTH": self._sum_width(call),
                **self._quotient(call).parameters(),
            },
        )

    def multipliers(self, call: Call) -> int:
        """One per result lane for the reciprocal, unless the divisor is a power of two."""
        return (self._quotient(call).stages - 1) * call.result.lanes

    def schedule(self, call: Call, arrivals: Mapping[str, Cycles]) -> Cycles:
        """A result follows its last element."""
        lanes = call.operands["data_in_0"].parallelism[1]
        return self.run(call).schedule(arrivals["data_in_0"], lanes) + self._quotient(call).stages

    def room(self, call: Call, used: Mapping[str, Cycles], delay: int) -> dict[str, Cycles]:
        """A register for each stage; that of the sum of lanes lies before the sum of beats."""
        run, results = self.run(call), used["data_in_0"]
        first = int(run.across and call.operands["data_in_0"].parallelism[1] > 1)
        earlier = np.append(np.full(first, -1), results[: results.size - first])
        return {"data_in_0": earlier - (delay - first)}

    def _quotient(self, call: Call) -> Quotient:
        fraction = fixed(call.operands["data_in_0"]).frac_width
        return Quotient(fraction, self.divisor(call), fixed(call.result))

    def _sum_width(self, call: Call) -> int:
        spec = call.operands["data_in_0"]
        data = fixed(spec)
        terms = 1 if self.maximum else prod(spec.shape[dim] for dim in self.dims(call))
        return data.width + (not data.signed) + (terms - 1).bit_length()


def stream_axes(spec: TensorSpec) -> tuple[int, ...] | None:
    """Return the torch dimension of each dimension of the stream, None when they are mixed."""
    order = spec.order
    if order is None:
        return tuple(range(len(spec.shape)))
    whole = order.view == spec.shape
    return (
        order.axes if whole and order.stream == tuple(spec.shape[i] for i in order.axes) else None
    )


def _candidates(data: TensorSpec) -> list[TensorSpec]:
    """Return the stream as it is, in torch's order, and with channels last."""
    orders = [data.order, None, Order.channels_last(data.shape)]
    return [data.with_order(order) for order in orders]
