"""A double-buffered banked memory from which elements leave in another order and tiling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from itertools import accumulate

import numpy as np
import torch

from mase_hw.cells import _motion
from mase_hw.cells._base import Cell, Image, Origin, Origins, Port, fact
from mase_hw.cells._components import (
    Adder,
    Components,
    Gates,
    Memory,
    Mux,
    Pointer,
    Register,
    Table,
)
from mase_hw.cells._growing import GrowingReorder, growth_parameters, pass_needs
from mase_hw.cells._motion import Motion
from mase_hw.cells._pipeline import counter, growing_walk, index_bits, stream_pipeline
from mase_hw.formats import Encoding
from mase_hw.geometry.growth import Growth
from mase_hw.geometry.reorder import Reordering


@dataclass(frozen=True)
class Reorder(Cell):
    """Banks that hold two tensors.

    Attributes:
        width: bits of an element.
        reordering: which element enters and leaves when.
        repeats: times that a tensor is sent.
        tensors: tensors of an inference.
        growth: beats that are sent of each of `segments` parts of a tensor; None for all.
        segments: parts of a tensor that are sent as far as it has come.
    """

    width: int
    reordering: Reordering
    repeats: int = 1
    tensors: int = fact(1)
    growth: Growth | None = None
    segments: int = fact(1)

    @property
    def inputs(self) -> Mapping[str, Port]:
        beats, lanes = self.reordering.beats_in.shape
        return {"data_in_0": Port.elements(Encoding(self.width), lanes, beats * self.tensors)}

    @property
    def outputs(self) -> Mapping[str, Port]:
        beats, lanes = self.reordering.beats_out.shape
        beats *= self.repeats
        if self._passes is not None:
            beats = self._passes.beats * (self.repeats // self._passes.runs)
        beats *= self.tensors
        return {"data_out_0": Port.elements(Encoding(self.width), lanes, beats)}

    @property
    def parameters(self) -> Mapping[str, int]:
        (beats_in, lanes_in), (beats_out, lanes_out) = self._shapes
        return {
            "WIDTH": self.width,
            "LANES_IN": lanes_in,
            "LANES_OUT": lanes_out,
            "BEATS_IN": beats_in,
            "BEATS_OUT": beats_out,
            "BANKS": self.reordering.plan.banks,
            "BANK_DEPTH": self.reordering.plan.depth,
            "FIRST_NEED": self._last[0],
            "REPEATS": self.repeats,
            **self._growth_parameters,
        }

    @property
    def _growth_parameters(self) -> dict[str, int]:
        """Components of a tensor, and the beats of them that passes take."""
        if self.growth is None:
            return {}
        passes = growth_parameters(self._passes, "PASSES")
        return {"SEGMENTS": self.segments, "UNIT": self.growth.unit, **passes}

    @property
    def _passes(self) -> Growth | None:
        """Beats of each pass."""
        if self.growth is None:
            return None
        unit, passes = self.growth.unit * self.segments, self.growth.runs // self.segments
        return Growth(unit, self.growth.every // self.segments, passes)

    @property
    def images(self) -> Mapping[str, tuple[str, Image]]:
        """What each beat in writes, and each beat out reads; how much more the next one needs."""
        (beats_in, lanes_in), (_, lanes_out) = self._shapes
        plan, lane_bits = self.reordering.plan, _bits(lanes_in)
        read_bits = plan.banks * _bits(plan.depth) + lanes_out * _bits(plan.banks)
        tables = partial(
            _tables, self.reordering, self._last if self.growth else None, self.repeats
        )
        return {
            "WRITE_FILE": ("writes", Image(plan.banks * (lane_bits + 1), lambda: tables()[0])),
            "READ_FILE": ("reads", Image(read_bits, lambda: tables()[1])),
            "STEP_FILE": ("steps", Image(beats_in.bit_length() + 2, lambda: tables()[2])),
        }

    @property
    def components(self) -> Components:
        """Banks with tables of addresses, what counts beats, choices of lanes; a pipeline."""
        (beats_in, _), (beats_out, lanes_out) = self._shapes
        plan, width = self.reordering.plan, self.width
        banks, address = plan.banks, index_bits(plan.depth)
        images = {name: image for name, (_, image) in self.images.items()}
        count = beats_in.bit_length() + 2
        writes, reads, steps = (
            Table(beats, images[name].width_bits, images[name], stages=stages)
            for name, beats, stages in (
                ("WRITE_FILE", beats_in, 2),
                ("READ_FILE", beats_out, 3),
                ("STEP_FILE", len(self._last) + (not self.growth and self.repeats > 1), 2),
            )
        )
        counters = counter(beats_in) + counter(len(self._last)) + counter(self.repeats)
        if self.growth is None:
            counters += counter(beats_out)
        else:
            counters += growing_walk(beats_out // self.segments, self.segments, self.growth)
        control = Components.of(
            Register(2 + 2 + 1 + 2 + count + 2 + 3),
            Gates(12),
            Adder(count, gated=True),
            (Register(1, 3), 2),
        )
        bank = Components.of(Pointer(address), Gates(2), Register(1))
        words = counters + control + Components.of(writes, reads, steps) + bank * banks
        return words + self._ways(2 * plan.depth) + stream_pipeline(lanes_out * width, 6)

    def _ways(self, depth: int) -> Components:
        """Components from lanes to banks of `depth` words, and to lanes again."""
        plan, width = self.reordering.plan, self.width
        # Banks that take the same lanes in the same beats share a register.
        columns = {tuple(column) for column in plan.writes.clamp(min=0).t().tolist()}
        entering = [frozenset(column) for column in columns]
        leaving = [frozenset(column) for column in plan.selects.t().tolist()]
        found = []
        for lane in range(self.reordering.beats_in.shape[1]):
            takers = [lanes for lanes in entering if lane in lanes]
            # Where nothing is chosen between a lane and its bank, three registers are one chain.
            direct = takers == [{lane}]
            found.append(Components.of(Register(width, 2 + direct)))
            if direct:
                entering.remove(takers[0])
        found += [Components.of(Mux(len(lanes), width), Register(width)) for lanes in entering]
        for bank in range(plan.banks):
            readers = [banks for banks in leaving if bank in banks]
            if readers == [{bank}]:
                found.append(Components.of(Memory(depth, width), Register(width, 3)))
                leaving.remove(readers[0])
            else:
                found.append(Components.of(Memory(depth, width, stages=1), Register(width)))
        found += [Components.of(Mux(len(banks), width), Register(width)) for banks in leaving]
        return Components.of(*found)

    @property
    def _shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return tuple(self.reordering.beats_in.shape), tuple(self.reordering.beats_out.shape)

    @property
    def motion(self) -> Motion:
        """A result follows the last of its elements."""
        inputs = len(self.reordering.beats_in)
        if self._passes is not None:
            return GrowingReorder(inputs, self._last, self._passes, latency=8, start=2)
        return _motion.Reorder(inputs, self._last, repeats=self.repeats)

    @cached_property
    def _last(self) -> tuple[int, ...]:
        """For each beat out, or each pass, the last beat in that it needs."""
        if self._passes is not None:
            return pass_needs(self.reordering.last, self.segments, self._passes, self.repeats)
        return self.reordering.last

    @property
    def origins(self) -> Origins:
        beats_in = self.reordering.beats_in.tolist()
        place = {
            element: (beat, lane)
            for beat, row in enumerate(beats_in)
            for lane, element in enumerate(row)
        }
        rows: list[list[Origin | None]] = []
        for tensor in range(self.tensors):
            first = tensor * len(beats_in)
            for row in self._sent:
                found = [place[element] if element >= 0 else None for element in row]
                rows.append([at and Origin("data_in_0", first + at[0], at[1]) for at in found])
        return rows

    @property
    def _sent(self) -> list[list[int]]:
        """The elements of each beat out, of all passes."""
        whole = self.reordering.beats_out
        if self._passes is None:
            found: list[list[int]] = whole.tolist() * self.repeats
            return found
        parts = whole.reshape(self.segments, -1, whole.shape[1])
        lengths = self._passes.length(np.arange(self.repeats)) // self.segments
        return torch.cat([parts[:, :length].flatten(0, 1) for length in lengths]).tolist()

    @classmethod
    def samples(cls) -> Sequence[Cell]:
        """A transpose of the same lanes, with padding; sent three times, some twice, some grow."""
        order = torch.arange(12).reshape(3, 4)
        turned = torch.nn.functional.pad(order.t(), (0, 1), value=-1)
        columns, growth = order.reshape(6, 2), Growth(1, 4, 10)
        return (
            cls(5, Reordering(order, order.t().reshape(3, 4))),
            cls(5, Reordering(order, turned.reshape(8, 2))),
            cls(5, Reordering(order, torch.cat([order.t(), order.t()[:2]])), 3),
            # Two heads of which a pass takes one, two or all three of the beats.
            cls(5, Reordering(order, turned.reshape(4, 4)[[0, 1, 3, 2, 0, 1]]), 5, 2, growth, 2),
            cls(5, Reordering(columns, columns.t().reshape(12, 1)), 6, 1, Growth(2, 4, 12), 2),
        )

    @classmethod
    def proofs(cls) -> Sequence[Cell]:
        """A transpose in one lane and in two; one sent twice."""
        narrow, wide = torch.arange(4).reshape(4, 1), torch.arange(4).reshape(2, 2)
        return (
            cls(1, Reordering(narrow, wide.t().reshape(4, 1))),
            cls(2, Reordering(wide, wide.t())),
            cls(1, Reordering(wide, wide.t()), 2),
        )


def _bits(count: int) -> int:
    """Return the bits of an index below `count`, at least one."""
    return max(1, (count - 1).bit_length())


@lru_cache(maxsize=16)
def _tables(
    reordering: Reordering, passes: tuple[int, ...] | None, repeats: int
) -> tuple[tuple[int, ...], ...]:
    """Tables of writes of each beat in, reads of each beat out, and how much more the next needs.

    Args:
        reordering: the orders.
        passes: what each pass needs, where passes grow, and the next one is what needs more.
        repeats: times that a tensor is sent.
    """
    plan, beats_in, lane_bits = (
        reordering.plan,
        len(reordering.beats_in),
        _bits(reordering.beats_in.shape[1]),
    )
    lanes = plan.writes.clamp(min=0) | (plan.writes >= 0).to(torch.int64) << lane_bits
    writes = _packed(lanes, [lane_bits + 1] * plan.banks)
    widths = [_bits(plan.depth)] * plan.banks + [_bits(plan.banks)] * plan.selects.shape[1]
    reads = _packed(torch.cat([plan.reads, plan.selects], 1), widths)
    needs = reordering.last if passes is None else passes
    last = torch.tensor([*needs, beats_in + needs[0]])
    steps = last[:-1] - last[1:]
    if passes is None and repeats > 1:
        # From the last beat to the first one of the same tensor.
        steps = torch.cat([steps, last[-2:-1] - last[:1]])
    return writes, reads, tuple((steps % (1 << (beats_in.bit_length() + 2))).tolist())


def _packed(values: torch.Tensor, widths: Sequence[int]) -> tuple[int, ...]:
    """Return a word for each row, its first value in the low bits."""
    shifts = (0, *accumulate(widths))
    if shifts[-1] < 63:
        words = torch.zeros(len(values), dtype=torch.int64)
        for column, shift in zip(values.unbind(1), shifts, strict=False):
            words |= column << shift
        return tuple(words.tolist())
    return tuple(
        sum(value << shift for value, shift in zip(row, shifts, strict=False))
        for row in values.tolist()
    )
