"""Samples to choose on, and others that are held out to check the choice on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mase_hw.errors import DataError
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.passes.canonical.software_metadata import batch_inputs, batches_of
from mase_hw.passes.formats.agreement import examples_in

# Of samples that come in one piece, every so manieth is held out.
HELD_OUT = 4
LEAST = 2
# Examples of one batch that ranges are observed on, and that weights are fitted to.
OBSERVED, FITTED = 4096, 256


@dataclass(frozen=True)
class Samples:
    """What a choice sees.

    Attributes:
        chosen_on: inputs by batch, on which ranges and errors are measured.
        held_out: inputs by batch, on which a choice is checked.
        labels: class of every example of `held_out`; None without.
    """

    chosen_on: Sequence[Sequence[Tensor]]
    held_out: Sequence[Sequence[Tensor]]
    labels: Tensor | None = None

    @classmethod
    def of(
        cls, mg: MaseGraph, data: Any = None, held_out: Any = None, labels: Any = None
    ) -> Samples:
        """Return the samples of batches; without `held_out` every fourth example is.

        Args:
            mg: a graph, whose example inputs are taken where there are no other data.
            data: batches, see `add_software_metadata_analysis_pass`.
            held_out: batches.
            labels: classes of the examples of `held_out`, or of `data` without those.

        Raises:
            DataError: where nothing can be held out, or a number is none.
        """
        batches = _batches(mg, [mg.example_inputs] if data is None else data)
        kept: Sequence[Sequence[Tensor]]
        given = None if labels is None else torch.as_tensor(labels)
        if held_out is not None:
            held = _batches(mg, held_out)
            return cls([_spread(mg, x) for x in batches], held, _checked(mg, held, given))
        _checked(mg, batches, given)
        if not mg.batched or mg.keeps_state:
            held = batches[HELD_OUT - 1 :: HELD_OUT] or batches[-1:]
            kept = [item for item in batches if not any(item is other for other in held)]
            return cls(_enough(mg, kept, len(batches)), held)
        whole = [torch.cat(p) if p[0].dim() else p[0] for p in zip(*batches, strict=True)]
        count = examples_in(mg, whole)
        places = torch.arange(count)
        out = places % HELD_OUT == HELD_OUT - 1 if count >= HELD_OUT else places == count - 1
        kept = _enough(mg, [_spread(mg, _chosen(whole, ~out))], count)
        return cls(kept, [_chosen(whole, out)], None if given is None else given[out])

    def spread(self, mg: MaseGraph, most: int = FITTED) -> Sequence[Sequence[Tensor]]:
        """Return so many examples of each batch to choose on, evenly spread over it."""
        return [_spread(mg, inputs, most) for inputs in self.chosen_on]

    def digest(self) -> list[float]:
        """Return numbers that tell whether two samples are the same."""
        return [float(item.double().sum()) for part in self.chosen_on for item in part]


def _spread(mg: MaseGraph, inputs: Sequence[Tensor], most: int = OBSERVED) -> list[Tensor]:
    """Return at most so many examples of a batch, evenly spread over it."""
    count = examples_in(mg, inputs)
    if count <= most or mg.keeps_state:
        return list(inputs)
    return _chosen(inputs, torch.arange(count) % -(-count // most) == 0)


def _chosen(whole: Sequence[Tensor], places: Tensor) -> list[Tensor]:
    """Return the examples at some places; what has no batch dimension as it is."""
    return [item[places] if item.dim() and len(item) == len(places) else item for item in whole]


def _batches(mg: MaseGraph, data: Iterable[object]) -> list[list[Tensor]]:
    found = [batch_inputs(mg, batch) for batch in batches_of(data)]
    found = [inputs for inputs in found if all(item.numel() for item in inputs)]
    if not found:
        raise DataError("data holds no example; formats are chosen on examples like those to come")
    for inputs in found:
        for node, item in zip(mg.inputs, inputs, strict=True):
            if item.is_floating_point() and not bool(item.isfinite().all()):
                raise DataError(f"data for {node.target} holds infinities; give finite numbers")
    return found


def _checked(
    mg: MaseGraph, batches: Sequence[Sequence[Tensor]], labels: Tensor | None
) -> Tensor | None:
    count = sum(examples_in(mg, inputs) for inputs in batches)
    if labels is not None and len(labels) != count:
        raise DataError(f"there are {len(labels)} labels of {count} examples; give one for each")
    return labels


def _enough(
    mg: MaseGraph, kept: Sequence[Sequence[Tensor]], count: int
) -> Sequence[Sequence[Tensor]]:
    if not any(examples_in(mg, inputs) for inputs in kept):
        raise DataError(
            f"there {'is' if count == 1 else 'are'} {count} example{'' if count == 1 else 's'} of "
            f"data, of which none can be held out to check the formats on; give {LEAST} or more, "
            "better a hundred, as example inputs or as data"
        )
    return kept
