"""A function as piecewise quadratics, for operands too wide for a table.

The operand's codes are cut at the knots (zero, and where the function is not smooth) into
regions. In a region, `u` is the distance in codes from the end where the function is steep, if
there is one (a pole, or where its domain ends), else from that which is nearer to zero. Segments
of `u` are as wide as a floating-point number's spacing: `2**index_bits` to an octave, and
`2**index_bits` below `2**base_exponent`. The offset in a segment, left-aligned, is `t` of `t_bits`
bits; with all coefficients in units of `2**-GUARD_BITS` of the result's step, in integers

    y = c0 + ((c1 + ((c2 * t) >> t_bits)) * t >> t_bits),    result = cast(y).

Coefficients interpolate the function at the Chebyshev points of each segment. The smallest table
is chosen whose error before the last rounding is at most `MAX_ERROR` steps, so that the result
is at most one step from the correctly rounded one. Where no table is, as of results of many
octaves in many bits, `RELATIVE_ERROR` of the value is added to that. Segmentation as in Lee et al.,
"Hierarchical Segmentation for Hardware Function Evaluation", IEEE TVLSI 17(1), 2009.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from mase_hw.approximation._real_math import FAST
from mase_hw.approximation.rounding import RealFunction
from mase_hw.errors import UnsupportedError
from mase_hw.formats.fixed import Fixed

GUARD_BITS = 5
MAX_ERROR = 0.5
RELATIVE_ERROR = 2.0**-18
MAX_WORDS = 8192
MAX_KNOTS = 3
MAX_PRODUCT_BITS = 62
MIN_INDEX_BITS, MAX_INDEX_BITS = 2, 10
_SAMPLES = 33
# Of a segment: its Chebyshev points, and its ends.
_NODES = torch.tensor([0.5 - 0.25 * 3**0.5, 0.5, 0.5 + 0.25 * 3**0.5, 0.0, 1.0]).double()
_FAR = 2.0**60
_NEARBY = 2.0**-16
_EXHAUSTIVE_BITS = 16
_CHECKS_PER_OCTAVE = 256


@dataclass(frozen=True)
class Region:
    """Codes from `low` to `high`; `upward` when `u` is counted up from `low`."""

    low: int
    high: int
    upward: bool

    @property
    def origin(self) -> int:
        """The code at which `u` is zero."""
        return self.low if self.upward else self.high

    @property
    def reach(self) -> int:
        """The largest `u` of the region."""
        return self.high - self.low


@dataclass(frozen=True)
class Grid:
    """How `u` is cut into segments."""

    index_bits: int
    base_exponent: int
    u_width: int

    @property
    def t_bits(self) -> int:
        """Bits of a left-aligned offset."""
        return self.u_width - 1 - self.index_bits

    def locate(self, u: Tensor) -> tuple[Tensor, Tensor]:
        """Return (segment index, offset `t`) of distances."""
        exponent = torch.frexp(u.double()).exponent.long() - 1
        exponent = exponent.clamp(min=self.base_exponent)
        shifted = u << (self.u_width - 1 - exponent)
        octave = exponent - self.base_exponent + (shifted >> (self.u_width - 1))
        mantissa = shifted & ((1 << (self.u_width - 1)) - 1)
        index = (octave << self.index_bits) + (mantissa >> self.t_bits)
        return index, mantissa & ((1 << self.t_bits) - 1)

    def segments(self, reach: int) -> tuple[Tensor, Tensor]:
        """Return (first `u`, exponent of the width) of every segment up to `reach`."""
        last = int(self.locate(torch.tensor([reach]))[0])
        index = torch.arange(last + 1)
        octave = (index >> self.index_bits) - 1
        width_exponent = octave.clamp(min=0) + self.base_exponent - self.index_bits
        mantissa = index - (octave.clamp(min=0) << self.index_bits)
        return mantissa << width_exponent, width_exponent


@dataclass(frozen=True)
class Piecewise:
    """A fitted function: the integer arithmetic of the module, and what it needs.

    Attributes:
        bases: address of the first segment of each region.
        coefficients: int64 `[segments, 3]`: c0, c1, c2.
        error: largest error found before the last rounding, in steps of the result.
        relative: error in parts of the value that is not counted in it.
        odd: whether the first of two regions shares the segments of the other, results negated.
    """

    operand: Fixed
    result: Fixed
    regions: tuple[Region, ...]
    grid: Grid
    bases: tuple[int, ...]
    coefficients: Tensor
    error: float
    relative: float = 0.0
    odd: bool = False

    def evaluate(self, codes: Tensor) -> Tensor:
        """Return the result codes of operand codes."""
        y = self.unrounded(codes)
        return self.result.from_fixed(y, self.result.frac_width + GUARD_BITS)

    def unrounded(self, codes: Tensor) -> Tensor:
        """Return `y` of operand codes, before the last rounding."""
        starts = torch.tensor([region.low for region in self.regions[1:]], dtype=torch.int64)
        region = torch.bucketize(codes.contiguous(), starts, right=True)
        origins = torch.tensor([item.origin for item in self.regions])
        bases = torch.tensor(self.bases)
        index, t = self.grid.locate((codes - origins[region]).abs())
        chosen = self.coefficients[bases[region] + index]
        c0, c1, c2 = chosen.unbind(-1)
        y = _horner(c0, c1, c2, t, self.grid.t_bits)
        return torch.where(region == 0, -y, y) if self.odd else y

    @property
    def widths(self) -> tuple[int, int, int]:
        """Bits of c0, c1 and c2 in the memory."""
        first, second, third = (_signed_bits(column) for column in self.coefficients.T)
        return first, second, third

    @property
    def slope_bits(self) -> int:
        """Bits of `c1 + ((c2 * t) >> t_bits)`."""
        _, c1, c2 = self.coefficients.T
        return _signed_bits(torch.cat([c1, c1 + c2]))

    @property
    def sum_bits(self) -> int:
        """Bits of `y` before it is rounded, and of its negative where `odd`."""
        c0, c1, c2 = self.coefficients.T
        return _signed_bits(torch.cat([c0, c0 + c1, c0 + c1 + c2])) + self.odd

    @property
    def words(self) -> tuple[int, ...]:
        """The memory's bit patterns, c0 in the low bits."""
        c0, c1, c2 = self.widths
        return tuple(
            (low & ((1 << c0) - 1))
            | (middle & ((1 << c1) - 1)) << c0
            | (high & ((1 << c2) - 1)) << (c0 + c1)
            for low, middle, high in self.coefficients.tolist()
        )


def fit(
    function: RealFunction,
    knots: Sequence[float],
    operand: Fixed,
    result: Fixed,
    name: str,
    steep: Sequence[float] = (),
) -> Piecewise:
    """Return the smallest fit that meets `MAX_ERROR`, else that adds `RELATIVE_ERROR` to it.

    Args:
        function: the function.
        knots: where it is not smooth; zero is one anyway.
        operand: format of its operand.
        result: format of its result.
        name: of the function, for errors.
        steep: knots beside which segments have to be short, other than zero.

    Raises:
        UnsupportedError: when no fit of `MAX_WORDS` segments meets it.
    """
    regions = _regions(function, knots, operand, name, steep)
    for relative in (0.0, RELATIVE_ERROR):
        best = _smallest(function, regions, operand, result, relative)
        if best is not None:
            return best
    raise UnsupportedError(
        f"{name} from {operand} to {result} does not reach {MAX_ERROR} of a step with "
        f"{MAX_WORDS} segments: use an operand of at most 12 bits, or a coarser result"
    )


def _smallest(
    function: RealFunction,
    regions: tuple[Region, ...],
    operand: Fixed,
    result: Fixed,
    relative: float,
) -> Piecewise | None:
    """Return the fit of the fewest segments, or None where too many miss the error."""
    u_width = max(max(region.reach for region in regions).bit_length(), MIN_INDEX_BITS + 2)
    best: Piecewise | None = None
    for index_bits in range(MIN_INDEX_BITS, min(MAX_INDEX_BITS, u_width - 2) + 1):
        for base_exponent in range(u_width - 1, index_bits - 1, -1):
            grid = Grid(index_bits, base_exponent, u_width)
            words = sum(grid.segments(region.reach)[0].numel() for region in regions)
            if words > (MAX_WORDS if best is None else best.coefficients.shape[0] - 1):
                break
            candidate = _fit_grid(function, regions, grid, operand, result, relative)
            if candidate is not None:
                best = candidate
                break
    return best


def _regions(
    function: RealFunction,
    knots: Sequence[float],
    operand: Fixed,
    name: str,
    steep: Sequence[float],
) -> tuple[Region, ...]:
    cuts = {knot: _first_code(function, knot, operand) for knot in {0.0, *knots}}
    inner = sorted({cut for cut in cuts.values() if operand.minimum_code < cut})
    inner = [cut for cut in inner if cut <= operand.maximum_code]
    if len(inner) > MAX_KNOTS:
        raise UnsupportedError(
            f"{name} has {len(inner)} knots; allowed: {MAX_KNOTS}, zero included"
        )
    lows = [operand.minimum_code, *inner]
    highs = [*(cut - 1 for cut in inner), operand.maximum_code]
    ends = list(zip(lows, highs, strict=True))
    downward = _downward(ends, {cuts[knot] for knot in steep})
    return tuple(
        Region(low, high, upward=number >= downward) for number, (low, high) in enumerate(ends)
    )


def _downward(ends: Sequence[tuple[int, int]], steep: set[int]) -> int:
    """Return how many regions, the first ones, are counted from their high end.

    A region wants to be counted from the end that is steep, else from that nearer to zero.
    """
    # Positive where a region wants to be counted upward.
    wishes = [
        4 * ((low in steep) - (high + 1 in steep)) + (1 if abs(low) <= abs(high + 1) else -1)
        for low, high in ends
    ]
    return max(range(len(ends) + 1), key=lambda count: sum(wishes[count:]) - sum(wishes[:count]))


def _first_code(function: RealFunction, knot: float, operand: Fixed) -> int:
    """Return the first code on the right side of a knot.

    A code that lies on the knot belongs to the right side, unless the function jumps there, or
    has a pole that the left side only continues.
    """
    scaled = knot * 2.0**operand.frac_width
    code = math.ceil(max(min(scaled, 2.0**40), -(2.0**40)))
    if code != scaled:
        return code
    probes = torch.tensor([-1.0, 0.0, _NEARBY, 1.0], dtype=torch.float64)
    values = function((code + probes) * 2.0**-operand.frac_width, FAST).tolist()
    before, at, nearby, after = values
    if math.isinf(at):
        return code + 1 if before == at else code
    continuous = abs(nearby - at) <= abs(after - at) / 2
    return code if continuous else code + 1


def _fit_grid(
    function: RealFunction,
    regions: tuple[Region, ...],
    grid: Grid,
    operand: Fixed,
    result: Fixed,
    relative: float,
) -> Piecewise | None:
    """Return the fit on one grid, or None when it misses `MAX_ERROR` or the product's width."""
    parts: list[Tensor] = []
    worst = 0.0
    # The last region first: functions grow to the right, and the sooner a fit fails the better.
    for region in reversed(regions):
        first, width_exponent = grid.segments(region.reach)
        span = ((1 << width_exponent) - 1).minimum(region.reach - first)
        values = _scaled(function, region, first[:, None] + _NODES * span[:, None], operand, result)
        fitted = _interpolated(values, width_exponent, span, result, by_ends=relative > 0)
        parts.insert(0, fitted)
        _, c1, c2 = fitted.T
        if _signed_bits(torch.cat([c1, c1 + c2, c2])) + grid.t_bits + 1 > MAX_PRODUCT_BITS:
            return None
        offsets = (torch.linspace(0, 1, _SAMPLES).double() * span[:, None]).round().long()
        t = offsets << (grid.t_bits - width_exponent)[:, None]
        c0, c1, c2 = fitted.T[:, :, None]
        y = _horner(c0, c1, c2, t, grid.t_bits)
        u = (first[:, None] + offsets).double()
        target = _scaled(function, region, u, operand, result)
        error = _error(y, target, result, relative)
        # Not `>`: a function that is not a number somewhere must not pass.
        if not error <= MAX_ERROR:
            return None
        worst = max(worst, error)
    coefficients = torch.cat(parts)
    bases = tuple(sum(part.shape[0] for part in parts[:number]) for number in range(len(parts)))
    fitted_all = Piecewise(operand, result, regions, grid, bases, coefficients, worst, relative)
    checked = _checked_error(function, fitted_all)
    return replace(fitted_all, error=max(worst, checked)) if checked <= MAX_ERROR else None


def _checked_error(function: RealFunction, piecewise: Piecewise) -> float:
    """Return the error at all codes, or at many codes of every octave from each region's ends."""
    operand, result = piecewise.operand, piecewise.result
    codes = check_codes(operand, piecewise.regions)
    target = _in_steps(function(operand.decode(codes), FAST), result)
    error = _error(piecewise.unrounded(codes), target, result, piecewise.relative)
    return error if error == error else math.inf


def _error(y: Tensor, target: Tensor, result: Fixed, relative: float) -> float:
    """Return the largest error in steps of a result, less a part of the value."""
    values = y.double() / 2**GUARD_BITS
    if result.overflow == "saturate":
        low, high = float(result.minimum_code), float(result.maximum_code)
        values, target = values.clamp(low, high), target.clamp(low, high)
    return float(((values - target).abs() - relative * target.abs()).max())


def check_codes(operand: Fixed, regions: Sequence[Region]) -> Tensor:
    """Return the codes on which a fit is checked."""
    if operand.width <= _EXHAUSTIVE_BITS:
        return torch.arange(operand.minimum_code, operand.maximum_code + 1)
    steps = torch.arange(operand.width * _CHECKS_PER_OCTAVE).double() / _CHECKS_PER_OCTAVE
    distances = torch.cat([torch.tensor([0]), (2.0**steps).long()])
    ends = [(region.low + distances, region.high - distances) for region in regions]
    codes = torch.cat([side for pair in ends for side in pair])
    inside = (codes >= operand.minimum_code) & (codes <= operand.maximum_code)
    chosen: Tensor = torch.unique(codes[inside])
    return chosen


def _interpolated(
    values: Tensor, width_exponent: Tensor, span: Tensor, result: Fixed, *, by_ends: bool
) -> Tensor:
    """Return int64 coefficients `[segments, 3]` of values at `_NODES`.

    Segments of two codes are a line through both `by_ends`, else through Chebyshev points.
    """
    n0, n1, n2 = (_NODES[:3] * span[:, None] / (2.0**width_exponent)[:, None]).T
    f0, f1, f2 = values[:, :3].T
    single = span == 0
    one = torch.ones_like(n0)
    d01 = (f1 - f0) / torch.where(single, one, n1 - n0)
    d12 = (f2 - f1) / torch.where(single, one, n2 - n1)
    c2 = torch.where(span < 2, 0.0, (d12 - d01) / torch.where(single, one, n2 - n0))
    c1 = d01 - c2 * (n0 + n1)
    c0 = f0 - c1 * n0 - c2 * n0 * n0
    if by_ends:
        low, high = values[:, 3:].T
        c0 = torch.where(span == 1, low, c0)
        c1 = torch.where(span == 1, (high - low) * 2.0**width_exponent, c1)
    if result.overflow == "saturate":
        low, high = result.minimum_code - 1.0, result.maximum_code + 1.0
        outside = (values > high).all(1) | (values < low).all(1)
        c0 = torch.where(outside, f0.clamp(low, high), c0)
        c1, c2 = c1.masked_fill(outside, 0.0), c2.masked_fill(outside, 0.0)
    real = torch.stack([c0, c1, c2], 1) * 2**GUARD_BITS
    rounded: Tensor = real.round().clamp(-_FAR, _FAR).long()
    return rounded


def _scaled(
    function: RealFunction, region: Region, u: Tensor, operand: Fixed, result: Fixed
) -> Tensor:
    """Return the function in steps of the result, at real distances from the region's origin."""
    codes = region.origin + u if region.upward else region.origin - u
    values = function(codes * 2.0**-operand.frac_width, FAST)
    return _in_steps(values, result).clamp(-_FAR, _FAR)


def _in_steps(values: Tensor, result: Fixed) -> Tensor:
    """Return reals in steps of the result; a pole is the end of its range, even if it wraps."""
    steps = values * 2.0**result.frac_width
    if result.overflow == "saturate":
        return steps
    steps = torch.where(steps == math.inf, float(result.maximum_code), steps)
    return torch.where(steps == -math.inf, float(result.minimum_code), steps)


def _horner(c0: Tensor, c1: Tensor, c2: Tensor, t: Tensor, t_bits: int) -> Tensor:
    return c0 + (((c1 + ((c2 * t) >> t_bits)) * t) >> t_bits)


def _signed_bits(codes: Tensor) -> int:
    low, high = int(codes.min()), int(codes.max())
    return (
        max((~low if low < 0 else low).bit_length(), (~high if high < 0 else high).bit_length()) + 1
    )
