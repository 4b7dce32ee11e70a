"""Tensors one after another along a dimension (torch.cat).

In a stream that is, round by round, the beats of the first tensor and then those of the second.
Along the lanes' dimension the second tensor's lanes move up to fill the first one's last beat. More
than two tensors are joined two by two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from mase_hw.geometry.beats import Cycles, one_per_cycle
from mase_hw.geometry.tensor import Order, TensorSpec
from mase_hw.ops._base import (
    Apply,
    Call,
    Example,
    Hardware,
    Operator,
    Reference,
    Source,
    example_values,
    torch_target,
)
from mase_hw.ops._library import define_joining
from mase_hw.ops._reduce import stream_axes
from mase_hw.ops._scalars import SCALARS, SCALED


def _joined(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Join tensors, one that is the same for every inference with each of them."""
    if dim % tensors[0].dim() == 0:
        return torch.cat(tuple(tensors))
    count = max(len(tensor) for tensor in tensors)
    return torch.cat([tensor.expand(count, *tensor.shape[1:]) for tensor in tensors], dim)


define_joining("cat", _joined)


@dataclass(frozen=True)
class _Rounds:
    """How beats alternate.

    Attributes:
        first: beats of the first tensor in a round.
        second: beats of the second one.
        shift: lanes of the first tensor's last beat, where the second one's begin; 0 for none.
        beats: beats of the result in a round.
    """

    first: int
    second: int
    shift: int
    beats: int

    @property
    def second_from(self) -> int:
        """The beat of a round that the second tensor begins in."""
        return self.first - (self.shift > 0)


class Cat(Operator):
    """`y = [x_0, x_1]`; all in one format."""

    name: ClassVar[str] = "cat"
    targets: ClassVar[tuple[str, ...]] = (
        "mase.cat.default",
        "aten.cat.default",
        "aten.concat.default",
        "aten.concatenate.default",
    )
    keeps_format: ClassVar[bool] = True
    shares_format: ClassVar[bool] = True
    formats: ClassVar[tuple[str, ...]] = (*SCALARS, SCALED)

    def dim(self, call: Call) -> int:
        """Return the dimension, counted from the front."""
        return int(call.attributes["dim"]) % len(call.result.shape)

    def expression(self, call: Call, operands: Mapping[str, Any]) -> Sequence[Any] | None:
        """Join more than two tensors two by two; drop those without elements."""
        parts = [item for name, item in operands.items() if call.operands[name].elements]
        if len(parts) == len(operands) == 2:
            return None
        join, dim = torch_target(self.targets[0]), self.dim(call)
        while len(parts) > 2:
            parts = [
                join(parts[i : i + 2], dim) if i + 1 < len(parts) else parts[i]
                for i in range(0, len(parts), 2)
            ]
        joined = join(parts, dim) if len(parts) == 2 else torch.ops.aten.alias.default(parts[0])
        return [joined]

    def problems(self, call: Call) -> list[str]:
        """Also refuse to join inferences, and constants alone."""
        found = super().problems(call)
        if self.dim(call) == 0 and any(spec.shape[0] == 1 for spec in call.streams.values()):
            found.append("it joins dimension 0, the batch; join another dimension")
        if not call.streams:
            found.append("all operands are constant")
        return found

    def reference(self, call: Call) -> Reference:
        """Return codes -> codes."""
        dim, streams = self.dim(call), list(call.streams)
        constants = {name: call.constant_codes(name) for name in call.constants}

        def compute(*codes: Tensor) -> Tensor:
            given = {**constants, **dict(zip(streams, codes, strict=True))}
            whole = [given[name].reshape(-1, *spec.shape) for name, spec in call.operands.items()]
            return _joined(whole, dim + 1).flatten(0, 1)

        return compute

    def compute(
        self, target: Any, arguments: Mapping[str, Any], operands: Mapping[str, Tensor]
    ) -> Tensor:
        """Join the members of the list, in their order."""
        members = [operands[f"data_in_{number}"] for number in range(len(operands))]
        return _joined(members, int(arguments["dim"]))

    def orders(self, call: Call) -> dict[str, Order | None]:
        """All in the first order that is offered and is not torch's own."""
        rank = len(call.result.shape)
        offered = [stream_axes(spec) for spec in call.streams.values() if spec.order is not None]
        axes = next((axes for axes in offered if axes is not None), tuple(range(rank)))
        specs = {**call.operands, **call.results}
        return {name: Order.permuted(spec.shape, axes) for name, spec in specs.items()}

    def limits(self, call: Call) -> dict[tuple[str, int], int]:
        """One row at a time."""
        return {(name, 1): 1 for name in (*call.streams, *call.results)}

    def constant_streams(self, call: Call) -> dict[str, TensorSpec]:
        """A constant in the order and tiles of the result."""
        axes, lanes = stream_axes(call.result) or (), call.result.parallelism
        return {
            name: replace(spec, order=Order.permuted(spec.shape, axes), parallelism=lanes)
            for name, spec in call.operands.items()
            if name in call.constants
        }

    def hardware(self, call: Call) -> Hardware:
        """Return one instance; a constant comes from a ROM."""
        rounds, streams = self._rounds(call), self.constant_streams(call)
        sources = [
            Source(name, spec.to_beats(call.constant_codes(name))) for name, spec in streams.items()
        ]
        parameters = {
            "BEATS_0": rounds.first,
            "BEATS_1": rounds.second,
            "SHIFT": rounds.shift,
            "WAIT": int("data_in_0" in call.constants),
        }
        return Hardware("mase_cat_fixed", parameters, sources, rounds=False, moves=True)

    def consumption(self, call: Call, arrivals: Mapping[str, Cycles]) -> dict[str, Cycles]:
        """A beat is taken when the beat of the result that begins with it is made."""
        made, places = self._made(call, arrivals), self._places(call, arrivals)
        return {name: made[places[name]] for name in arrivals}

    def schedule(self, call: Call, arrivals: Mapping[str, Cycles]) -> Cycles:
        """One register stage."""
        return self._made(call, arrivals) + 1

    def operations(self, call: Call) -> int:
        """None."""
        return 0

    def _made(self, call: Call, arrivals: Mapping[str, Cycles]) -> Cycles:
        """Return when each beat of the result enters the output register."""
        places = self._places(call, arrivals)
        inferences = next(
            times.size // call.operands[name].beats for name, times in arrivals.items()
        )
        needed = np.zeros(inferences * call.result.beats, dtype=np.int64)
        for name, times in arrivals.items():
            np.maximum.at(needed, places[name], times)
        if "data_in_0" in call.constants:
            rounds = self._rounds(call)
            starts = arrivals["data_in_1"].reshape(-1, rounds.second)[:, :1]
            needed = np.maximum(needed.reshape(-1, rounds.beats), starts).reshape(-1)
        return one_per_cycle(needed)

    def _places(self, call: Call, arrivals: Mapping[str, Cycles]) -> dict[str, Cycles]:
        """Return, for each beat of each stream, the beat of the result that takes it."""
        rounds = self._rounds(call)
        counts = {"data_in_0": (0, rounds.first), "data_in_1": (rounds.second_from, rounds.second)}
        places = {}
        for name, times in arrivals.items():
            start, count = counts[name]
            beats = np.arange(times.size)
            places[name] = beats // count * rounds.beats + start + beats % count
        return places

    def _rounds(self, call: Call) -> _Rounds:
        result, dim = call.result, self.dim(call)
        axes = stream_axes(result) or ()
        place, lanes = axes.index(dim), result.parallelism[1]
        first, second = (call.operands[name].shape[dim] for name in ("data_in_0", "data_in_1"))
        if place == len(axes) - 1:
            tiles = (-(-first // lanes), -(-second // lanes))
            return _Rounds(*tiles, first % lanes, result.tiles[1])
        inner = prod(result.shape[axis] for axis in axes[place + 1 : -1]) * result.tiles[1]
        return _Rounds(first * inner, second * inner, 0, (first + second) * inner)

    def examples(self) -> list[Example]:
        """Channels, rows, lanes that do not divide, three tensors, a constant."""
        images = (example_values(2, 3, 2, 2), example_values(2, 4, 2, 2, seed=1))
        rows = (example_values(2, 2, 4), example_values(2, 3, 4, seed=1))
        constant = example_values(1, 5, seed=3)
        return [
            (Apply(lambda x, y: torch.cat([x, y], 1)), images),
            (Apply(lambda x, y: torch.cat([x, y], 1)), rows),
            (
                Apply(lambda x, y, z: torch.cat([x, y, z], -1)),
                (example_values(2, 4), example_values(2, 5), example_values(2, 7)),
            ),
            (
                Apply(lambda x, c: torch.cat([c.expand(x.shape[0], 5), x], 1), constant),
                (rows[0][:, 0],),
            ),
        ]
