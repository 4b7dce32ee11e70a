"""Sequences shorter than those that a graph was captured with.

A graph is captured at one length, which hardware has. Shorter sequences are padded on the way in
and cut on the way out. That is right where results do not see the padding, as behind a mask of
attention or in a causal decoder: it is tried with the captured model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from mase_hw.errors import CaptureError, MaseError, UnitError

# Targets that losses of torch leave out.
_IGNORED = -100
_TOLERANCE = 1e-4


@dataclass(frozen=True)
class Lengths:
    """The inputs and results along whose dimensions a sequence lies.

    Attributes:
        size: the captured length; 0 where there is no sequence.
        fills: what pads an input along its second dimension, by the input's name.
        results: dimensions along which each leaf of what is returned is cut; None where results
            see the padding, and the captured length is the only one.
    """

    size: int = 0
    fills: Mapping[str, int] = field(default_factory=dict)
    results: tuple[tuple[int, ...], ...] | None = None

    def padded(
        self, names: Sequence[str], inputs: Sequence[Tensor]
    ) -> tuple[list[Tensor], int | None]:
        """Return inputs at the captured length, and the length that they were given at.

        Args:
            names: of the inputs.
            inputs: as a caller gives them.

        Raises:
            MaseError: for a length that the graph does not take.
        """
        lengths = {
            item.shape[1]
            for name, item in zip(names, inputs, strict=True)
            if name in self.fills and item.dim() > 1
        }
        if lengths <= {self.size}:
            return list(inputs), None
        if max(lengths) > self.size or self.results is None:
            why = (
                "give it examples of the longest sequence"
                if self.results is not None
                else "its results see what shorter ones are padded with: give the examples an "
                "attention mask, or pad all sequences alike"
            )
            raise MaseError(
                f"the graph is captured with sequences of {self.size}, and is given "
                f"{max(lengths)}; {why}"
            )
        padded = [
            _pad(item, self.size, self.fills[name]) if name in self.fills else item
            for name, item in zip(names, inputs, strict=True)
        ]
        return padded, max(lengths)

    def cut(self, outputs: object, length: int | None) -> Any:
        """Return results for padded inputs, cut to the length before padding."""
        if length is None or self.results is None:
            return outputs
        leaves, structure = tree_flatten(outputs)
        known = (*self.results, *[()] * len(leaves))
        return tree_unflatten(
            [_narrow(leaf, dims, length) for leaf, dims in zip(leaves, known, strict=False)],
            structure,
        )


ONE_LENGTH = Lengths()


def find_lengths(
    inputs: Mapping[str, Tensor],
    graph: Callable[..., Any],
    model: Callable[[Mapping[str, Tensor]], Any],
    padding: int,
) -> Lengths:
    """Return the length of example sequences, and whether shorter ones may be padded to it.

    Args:
        inputs: example inputs by name, with the batch first.
        graph: returns the captured graph's outputs.
        model: returns the model's outputs for inputs by name.
        padding: what pads numbers called `input_ids`.
    """
    whole = [value for value in inputs.values() if value.dim() == 2 and not _is_real(value)]
    size = whole[0].shape[1] if whole else 0
    if size < 2:
        return ONE_LENGTH
    fillings = {"input_ids": padding, "labels": _IGNORED}
    fills = {
        name: fillings.get(name, 0)
        for name, value in inputs.items()
        if value.dim() > 1 and value.shape[1] == size
    }
    generator = torch.Generator().manual_seed(0)
    drawn = {
        name: torch.randn(value.shape, generator=generator).to(value) if _is_real(value) else value
        for name, value in inputs.items()
    }
    cuts = [
        _tried(drawn, fills, size, length, graph, model)
        for length in sorted({(size + 1) // 2, size - 1})
    ]
    return Lengths(size, fills, cuts[0] if cuts.count(cuts[0]) == len(cuts) else None)


def _tried(
    inputs: Mapping[str, Tensor], fills: Mapping[str, int], size: int, length: int,
    graph: Callable[..., Any], model: Callable[[Mapping[str, Tensor]], Any],
) -> tuple[tuple[int, ...], ...] | None:  # fmt: skip
    """Return how results are cut for one length; None where that gives other results."""
    short = {
        name: value.narrow(1, 0, length).clone() if name in fills else value
        for name, value in inputs.items()
    }
    padded = {
        name: _pad(value, size, fills[name]) if name in fills else value
        for name, value in short.items()
    }
    # Masks and targets are what may tell the padding from the rest.
    content = {
        name: torch.cat(
            [value, inputs[name].amax(1, keepdim=True).expand_as(inputs[name])[:, length:]], dim=1
        )
        for name, value in short.items()
        if name in fills and name != "labels" and (_is_real(value) or bool((value > 1).any()))
    }
    if not content:
        return None
    try:
        expected, results = tree_leaves(model(short)), tree_leaves(graph(*padded.values()))
        others = tree_leaves(graph(*{**padded, **content}.values()))
    except (CaptureError, UnitError, RuntimeError, IndexError, ValueError):
        return None
    dims = _cuts(expected, results, length)
    if dims is None:
        return None
    # In small or new models a look at the padding makes a small difference.
    pairs = zip(results, others, dims, strict=True)
    same = all(_same(_narrow(a, item, length), _narrow(b, item, length)) for a, b, item in pairs)
    return dims if same else None


def _same(left: object, right: object) -> bool:
    if isinstance(left, Tensor) and isinstance(right, Tensor):
        return torch.equal(left, right)
    return left == right


def _is_real(value: Tensor) -> bool:
    return value.is_floating_point()


def _pad(value: Tensor, size: int, fill: int) -> Tensor:
    rest = value.new_full((value.shape[0], size - value.shape[1], *value.shape[2:]), fill)
    return torch.cat([value, rest], dim=1)


def _cuts(
    short: Sequence[Any], padded: Sequence[Any], length: int
) -> tuple[tuple[int, ...], ...] | None:
    cuts: list[tuple[int, ...]] = []
    if len(short) != len(padded):
        return None
    for one, whole in zip(short, padded, strict=True):
        if not isinstance(one, Tensor) or one.dim() != whole.dim():
            cuts.append(())
            continue
        dims = tuple(dim for dim in range(one.dim()) if one.shape[dim] != whole.shape[dim])
        whole = _narrow(whole, dims, length)
        if one.shape != whole.shape or not torch.allclose(
            one.double(), whole.double(), _TOLERANCE, _TOLERANCE, equal_nan=True
        ):
            return None
        cuts.append(dims)
    return tuple(cuts)


def _narrow(value: Any, dims: Sequence[int], length: int) -> Any:
    for dim in dims:
        value = value.narrow(dim, 0, min(length, value.shape[dim]))
    return value
