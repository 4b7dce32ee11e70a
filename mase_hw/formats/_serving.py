"""One format for a tensor that several consumers take, each in a format of its own."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from mase_hw.formats._base import Format

# Elements along each dimension of the sample that ranks formats of different families.
SAMPLE_SIZE = 12


def serving_formats(
    wanted: Sequence[Format], minimum: float, maximum: float, rank: int
) -> list[Format]:
    """Return formats that serve all consumers of one tensor, the best first.

    Each family has one, `Format.covering`, whose values are as fine as the finest of the consumers
    asks for and reach as far as the tensor does. Families are ranked by the error that they make on
    normally distributed values. The order of `wanted` does not matter.

    Args:
        wanted: the formats that consumers ask for.
        minimum: the least value of the tensor.
        maximum: its largest value.
        rank: its number of dimensions.
    """
    families: dict[type[Format], list[Format]] = {}
    for number_format in sorted(set(wanted), key=repr):
        families.setdefault(type(number_format), []).append(number_format)
    largest = max(abs(minimum), abs(maximum))
    serving = []
    for cls, formats in families.items():
        one = cls.covering(formats, minimum, maximum) if len(formats) > 1 else formats[0]
        serving.append(one or _ranked(formats, largest, rank)[0])
    return _ranked(serving, largest, rank)


def _ranked(formats: Sequence[Format], largest: float, rank: int) -> list[Format]:
    """Return formats in the order of the error that each makes on normally distributed values.

    Args:
        formats: the formats.
        largest: a magnitude of four standard deviations.
        rank: the number of dimensions of the values, for formats whose blocks lie along one.
    """
    if len(formats) < 2:
        return list(formats)
    generator = torch.Generator().manual_seed(0)
    shape = (SAMPLE_SIZE,) * min(max(rank, 1), 4)
    sample = torch.randn(shape, generator=generator, dtype=torch.float64)
    sample = sample.reshape(*[1] * (rank - sample.dim()), *shape) * (largest / 4)
    return sorted(formats, key=lambda item: (_squared_error(item, sample), repr(item)))


def _squared_error(number_format: Format, sample: Tensor) -> float:
    return float((number_format.round_values(sample) - sample).square().sum())
