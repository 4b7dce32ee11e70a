"""Numbers of rows that a model's code or its constants say, read as the size of the batch.

`torch.zeros(32, 4)` beside 32 examples, or a buffer of 32 equal rows, fixes the batch although one
row is enough. A capture may take such a number for the batch: what it then computes is compared
with the model on the examples, and its rows with each other, as those of any other capture.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from mase_hw._kinds import Argument, Record

_METHODS = "new_zeros new_ones new_full new_empty expand repeat view reshape".split()  # noqa: SIM905
# Functions of sizes, and which of their arguments are: the first one, or all from there on.
_SIZED = dict.fromkeys((torch.zeros, torch.ones, torch.full, torch.empty), 0) | dict.fromkeys(
    (torch.reshape, torch.broadcast_to, *(getattr(Tensor, name) for name in _METHODS)), 1
)
# The dimensions that may be the batch's.
_DIMS = (0, 1)


class FixedRows(TorchFunctionMode):
    """Finds numbers of rows among sizes and constants, and puts the batch in their place.

    Args:
        model: the model.
        count: rows of the examples.

    Attributes:
        replaces: whether it does, or only notes that there are some.
        seen: whether there are some.
    """

    def __init__(self, model: nn.Module, count: int) -> None:
        super().__init__()
        self._count = count
        self._batch: Argument = None
        self._constants = list(_constants(model, count)) if count > 1 else []
        self.replaces, self.seen = False, bool(self._constants)

    def __torch_function__(
        self, func: Argument, types: Argument, args: Argument = (), kwargs: Record | None = None
    ) -> Argument:
        place = _SIZED.get(func)
        if place is not None and len(args) > place and self._count > 1:
            listed = isinstance(args[place], list | tuple)
            sizes = list(args[place]) if listed else list(args[place:])
            for dim in _DIMS:
                if len(sizes) > dim and type(sizes[dim]) is int and sizes[dim] == self._count:
                    self.seen = True
                    sizes[dim] = self._batch if self.replaces else sizes[dim]
                    rest = (sizes, *args[place + 1 :]) if listed else sizes
                    args = (*args[:place], *rest)
                    break
        return func(*args, **(kwargs or {}))

    @contextmanager
    def reading(self, inputs: Argument) -> Iterator[None]:
        """Read numbers of rows as the batch of some inputs, while a capture runs the model."""
        sizes = [
            size
            for leaf in tree_leaves(inputs)
            if isinstance(leaf, Tensor)
            for size in leaf.shape[: len(_DIMS)]
        ]
        self._batch = next((size for size in sizes if isinstance(size, torch.SymInt)), None)
        if self._batch is None:
            yield
            return
        originals = [(place, name, place[name]) for place, name, _ in self._constants]
        try:
            for place, name, dim in self._constants if self.replaces else ():
                shape = [*place[name].shape]
                shape[dim] = self._batch
                place[name] = place[name].narrow(dim, 0, 1).expand(shape)
            with self:
                yield
        finally:
            for place, name, value in originals:
                place[name] = value


def _constants(model: nn.Module, count: int) -> Iterator[tuple[Record, str, int]]:
    for module in model.modules():
        for place in (module._buffers, module._parameters, module.__dict__):
            for name, value in place.items():
                if isinstance(value, Tensor):
                    dims = (dim for dim in _DIMS[: value.dim()] if value.shape[dim] == count)
                    for dim in dims:
                        if torch.equal(value, value.narrow(dim, 0, 1).expand_as(value)):
                            yield place, name, dim
                            break
