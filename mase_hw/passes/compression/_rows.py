"""Inputs of a layer on data, with a held-out part."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.fx import Node

from mase_hw.passes.compression.walk import Values


@dataclass(frozen=True)
class Rows:
    """Rows of a stream, a batch each, and the same rows of another run.

    Attributes:
        now: `[rows, features]`.
        other: the same of the other run.
        inference: which one each row belongs to, numbered over all batches.
    """

    now: list[Tensor]
    other: list[Tensor]
    inference: list[Tensor]

    def gram(self) -> Tensor:
        """Return `X^T X` over the number of rows, float64."""
        return self._product(self.now)

    def cross_gram(self) -> Tensor:
        """Return `Y^T X` with the rows `Y` of the other run, over their number, float64."""
        return self._product(self.other)

    def _product(self, left: list[Tensor]) -> Tensor:
        features = self.now[0].shape[1]
        total = torch.zeros(features, features, dtype=torch.float64)
        for one, two in zip(left, self.now, strict=True):
            # Products of binary32 in one batch, summed in binary64 over batches.
            total += (one.T @ two).double()
        return total / max(sum(map(len, self.now)), 1)

    @property
    def is_constant(self) -> bool:
        """Whether all rows are one and the same, which says nothing of others."""
        return all(bool((item == self.now[0][:1]).all()) for item in self.now)

    def parted(self, share: int) -> Iterator[tuple[Rows, Rows]]:
        """Yield rows, and those of one of `share` inferences that are held out, each of them once.

        Of one inference rows are held out; of one row nothing is.
        """
        numbers = torch.cat(self.inference)
        if not int(numbers[-1]):
            numbers = torch.arange(len(numbers))
        share = min(share, int(numbers[-1]) + 1)
        sizes = [len(item) for item in self.now]
        for part in range(share if share > 1 else 0):
            masks = torch.split(numbers % share == part, sizes)
            yield self._chosen([~mask for mask in masks]), self._chosen(masks)

    def _chosen(self, masks: Sequence[Tensor]) -> Rows:
        triples = zip(self.now, self.other, self.inference, masks, strict=True)
        found = [(one[mask], two[mask], number[mask]) for one, two, number, mask in triples]
        now, other, inference = (list(part) for part in zip(*found, strict=True))
        return Rows(now, other, inference)


def rows_of(
    values: Iterable[Values],
    source: Node,
    others: Iterable[Values] | None = None,
    other: Node | None = None,
) -> Rows:
    """Return the rows of a stream.

    Args:
        values: results by node, a batch each.
        source: what computes the stream.
        others: results of another run; the same one without.
        other: what computes the stream there.
    """
    streams = [results[source].detach() for results in values]
    second = streams
    if others is not None:
        second = [results[other or source].detach() for results in others]
    now, before = (
        [item.reshape(-1, item.shape[-1]) for item in side] for side in (streams, second)
    )
    inference, count = [], 0
    for stream, rows in zip(streams, now, strict=True):
        inferences = len(stream) if stream.dim() > 1 else 1
        inference.append(torch.arange(len(rows)) * inferences // max(len(rows), 1) + count)
        count += inferences
    return Rows(now, before, inference)
