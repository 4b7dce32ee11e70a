"""Observers: from the values of one tensor to the format whose open fields suit them.

Every observer tries ranges and lets the format fit itself to each:

- `minmax`: the observed extremes, nothing saturates.
- `percentile`: the extremes after a share of the values was cut off at both ends.
- `mse`: the range whose format has the least mean squared error.
- `entropy`: the range whose format loses the least information, by Kullback-Leibler divergence
  between the histogram of saturated values and that of levels (Migacz, "8-bit inference with
  TensorRT", GTC 2017), written for any set of levels. It suits long tails; for few bits or few
  distinct values `mse` is the safer choice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from mase_hw.errors import ConfigError
from mase_hw.formats import Format

SAMPLE_LIMIT = 1 << 16
BINS = 1024
SMALLEST_SHARE = 1e-4
# Ranges tried, the observed one first: a quarter of an octave apart, down to a sixteenth.
SCALES = tuple(2.0 ** (-step / 4) for step in range(17))

Fit = Callable[[float, float], Format]


@dataclass
class Sample:
    """Finite values of one tensor: exact extremes, and a bounded number of values evenly spread.

    Attributes:
        minimum: smallest value.
        maximum: largest value.
        values: at most `SAMPLE_LIMIT` values per batch, float64; the extremes where none was kept.
    """

    minimum: float = float("inf")
    maximum: float = float("-inf")
    parts: list[Tensor] = field(default_factory=list)

    @property
    def values(self) -> Tensor:
        """The values that the sample kept."""
        if len(self.parts) > 1:
            self.parts = [torch.cat(self.parts)]
        ends = torch.tensor([self.minimum, self.maximum], dtype=torch.float64)
        return self.parts[0] if self.parts else ends

    def add(self, values: Tensor) -> None:
        """Add a batch; infinities and NaN, which functions give at their poles, do not count."""
        flat = values.detach().flatten().double()
        flat = flat[flat.isfinite()]
        if not flat.numel():
            return
        self.minimum = min(self.minimum, float(flat.min()))
        self.maximum = max(self.maximum, float(flat.max()))
        self.parts.append(flat[:: -(-flat.numel() // SAMPLE_LIMIT)].clone())


def minmax(sample: Sample, fit: Fit, percentile: float) -> Format:
    """Return the format of the observed extremes."""
    return fit(sample.minimum, sample.maximum)


def percentile(sample: Sample, fit: Fit, percentile: float) -> Format:
    """Return the format of the range that holds the middle `percentile` percent of the values."""
    ordered = sample.values.sort().values
    cut = int((1.0 - percentile / 100.0) / 2.0 * ordered.numel())
    return fit(float(ordered[cut]), float(ordered[-1 - cut]))


def mse(sample: Sample, fit: Fit, percentile: float) -> Format:
    """Return the format with the least mean squared error."""
    values = sample.values
    return min(_candidates(sample, fit), key=lambda item: _squared_error(values, item))


def entropy(sample: Sample, fit: Fit, percentile: float) -> Format:
    """Return the format with the least divergence between values and levels."""
    values = sample.values
    low, high = sample.minimum, max(sample.maximum, sample.minimum + 1e-12)
    counts = torch.histc(values, BINS, low, high)
    centers = low + (torch.arange(BINS, dtype=torch.float64) + 0.5) * (high - low) / BINS
    return min(_candidates(sample, fit), key=lambda item: _divergence(counts, centers, item))


Observer = Callable[[Sample, Fit, float], Format]

OBSERVERS: Mapping[str, Observer] = {
    "minmax": minmax,
    "percentile": percentile,
    "mse": mse,
    "entropy": entropy,
}


def check_percentile(value: float) -> float:
    """Return `value` when it is a percentage.

    Raises:
        ConfigError: when it is not.
    """
    if not 0.0 < value <= 100.0:
        raise ConfigError(f"percentile is {value!r}; allowed: above 0, up to 100")
    return value


def _candidates(sample: Sample, fit: Fit) -> Iterator[Format]:
    """Yield the distinct formats of narrower and narrower ranges, the observed one first."""
    seen = set()
    for scale in SCALES:
        candidate = fit(sample.minimum * scale, sample.maximum * scale)
        if candidate not in seen:
            seen.add(candidate)
            yield candidate


def _squared_error(values: Tensor, number_format: Format) -> float:
    return float((number_format.round_values(values) - values).square().mean())


def _divergence(counts: Tensor, centers: Tensor, number_format: Format) -> float:
    """Return the divergence of the levels from the values.

    What saturates belongs to the ends of the range among the values, and is missing among the
    levels; the mass of a level is spread evenly over the bins that hold values.
    """
    (inside,) = torch.nonzero(number_format.in_range(centers), as_tuple=True)
    if not inside.numel():
        return math.inf
    first, last = int(inside[0]), int(inside[-1])
    kept = counts[first : last + 1]
    observed = kept.clone()
    observed[0] += counts[:first].sum()
    observed[-1] += counts[last + 1 :].sum()
    used = kept > 0
    rounded = number_format.round_values(centers[first : last + 1])
    levels = torch.unique(rounded, return_inverse=True)[1]
    size = int(levels.max()) + 1
    mass = torch.zeros(size, dtype=torch.float64).index_add_(0, levels, kept)
    bins = torch.zeros(size, dtype=torch.float64).index_add_(0, levels, used.double())
    spread = used * (mass / bins.clamp(min=1.0))[levels]
    total = counts.sum()
    p, q = observed / total, (spread / total).clamp(min=SMALLEST_SHARE)
    present = p > 0
    return float((p[present] * (p[present] / q[present]).log()).sum())
