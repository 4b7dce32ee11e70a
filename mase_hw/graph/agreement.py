"""Agreement of a quantised graph with the float model: what it is, and its figures.

A real result is judged by channel: `10 log10` of the power of what varies, about the channel's
mean in the float model, over the power of the errors. Its figure is the worst channel's, so that
neither an offset nor a channel of a larger scale hides what is lost. Results in one scale, as
probabilities are, are judged over all channels together, each about its own mean. A channel that
does not vary in the float model is compared by its value: its own power, or that of what varies in
the others where that is larger. A channel of fewer than `FEW` elements, or whose variation rests on
very few of many, is judged together with all others. Beside it stands the whole tensor's figure, of
raw power.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from mase_hw._kinds import Table
from mase_hw.errors import ConfigError

GRAPH, RTL = "quantized graph", "RTL"
# What may be gated: the worst channel's figure, or the whole tensor's.
CHANNEL, TENSOR = "channel", "tensor"
# Fewer elements of a channel say little of it by itself.
FEW = 5
# Elements on which variation rests at least, for a channel to be judged by itself, and their share.
RARE, RARE_SHARE = 3.0, 0.2
# Of the largest value: less is the rounding of binary32.
_UNVARYING = 2.0**-20
# Values whose fourth powers binary32 holds.
_SMALL, _LARGE = 1e-8, 1e9
# Stands for infinity in files.
_BOUND_DB = 999.0


def check_agreement(kind: str) -> str:
    """Return the kind of figure that is gated.

    Raises:
        ConfigError: for another word than `channel` and `tensor`.
    """
    if kind not in (CHANNEL, TENSOR):
        raise ConfigError(
            f"agreement is {kind!r}; allowed: {CHANNEL}, the worst channel about its mean, or "
            f"{TENSOR}, the whole tensor's raw power"
        )
    return kind


@dataclass(frozen=True)
class Judgement:
    """How a result is judged.

    Attributes:
        axis: dimension of its channels, batch dimension included; None for one channel.
        one_scale: whether all channels are in one scale, as probabilities are.
    """

    axis: int | None = -1
    one_scale: bool = False


@dataclass(frozen=True)
class Closeness:
    """One tensor beside the float model's.

    Attributes:
        sqnr_db: of real outputs, the figure of the worst channel, decibels; infinite where nothing
            was lost. None for other numbers, and for results inside a graph.
        tensor_db: of reals, the whole tensor's raw signal over error, decibels.
        equal: of indices, truths and complex numbers, the share of elements that are equal.
        channel: the worst channel; None where there is one, or all are judged together.
        fewer: which few values it takes where the float model takes more, or that the float model
            itself takes one; empty otherwise.
    """

    sqnr_db: float | None = None
    tensor_db: float | None = None
    equal: float | None = None
    channel: int | None = None
    fewer: str = ""

    def decibels(self, kind: str = CHANNEL) -> float | None:
        """Return the figure of a kind, `channel` or `tensor`; None for what is not real."""
        return self.sqnr_db if kind == CHANNEL else self.tensor_db

    @property
    def score(self) -> float:
        """The worst channel's decibels, or the percentage of elements that are equal."""
        return 100.0 * (self.equal or 0.0) if self.sqnr_db is None else self.sqnr_db

    def __str__(self) -> str:
        """Return `41.3 dB at channel 2 (whole tensor 45.0 dB)`, or `99.0 % equal`."""
        if self.tensor_db is None:
            return f"{100 * (self.equal or 0.0):.1f} % equal"
        whole = decibels(self.tensor_db)
        if self.sqnr_db is None:
            return whole
        text = decibels(self.sqnr_db)
        place = f" at channel {self.channel}" if self.channel is not None else ""
        return f"{text}{place}" + (f" (whole tensor {whole})" if whole != text else "")

    def to_dict(self) -> dict[str, object]:
        """Return JSON; 999 and -999 stand for infinity."""
        figures = {"sqnr_db": self.sqnr_db, "tensor_db": self.tensor_db}
        return {
            **{name: _bounded(db) for name, db in figures.items() if db is not None},
            **({"equal": round(self.equal, 4)} if self.equal is not None else {}),
            **({"channel": self.channel} if self.channel is not None else {}),
            **({"fewer": self.fewer} if self.fewer else {}),
        }

    @classmethod
    def from_dict(cls, entry: Table) -> Closeness:
        """Read what `to_dict` wrote."""
        fields = {name: entry[name] for name in ("equal", "channel", "fewer") if name in entry}
        for name in ("sqnr_db", "tensor_db"):
            ratio = entry.get(name)
            if ratio is not None:
                fields[name] = ratio if abs(ratio) < _BOUND_DB else math.copysign(math.inf, ratio)
        return cls(**fields)


def decibels(ratio: float | None) -> str:
    """Return a ratio as text, `-` for none."""
    if ratio is None:
        return "-"
    if math.isinf(ratio):
        return "nothing lost" if ratio > 0 else "all lost"
    return f"{ratio:.1f} dB"


def _bounded(ratio: float) -> float:
    return round(max(-_BOUND_DB, min(ratio, _BOUND_DB)), 1)


def closeness(exact: Tensor, rounded: Tensor, judgement: Judgement | None = None) -> Closeness:
    """Closeness of a quantised output to the float model's.

    Args:
        exact: the float model's, of any number of examples.
        rounded: the quantised one's, of the same shape.
        judgement: how it is judged, see `mase_hw.passes.formats.agreement.judgements`; along the
            last dimension without.
    """
    sums = Sums(judgement or Judgement())
    sums.add(exact, rounded)
    return sums.closeness()


def tensor_db(exact: Tensor, rounded: Tensor) -> float:
    """Return `10 log10(sum x^2 / sum (x - y)^2)` over finite `x`; infinite if nothing was lost."""
    sums = Sums()
    sums.add(exact, rounded)
    return sums.tensor_db


class Sums:
    """Running sums over one tensor.

    Args:
        judgement: how it is judged; None for the whole tensor's figure alone.
        groups: by how many groups of examples channels are summed.
    """

    def __init__(self, judgement: Judgement | None = None, groups: int = 1) -> None:
        self._judgement, self._groups = judgement, groups
        self._signal, self._noise = 0.0, 0.0
        self._equal, self._elements = 0, 0
        self._channels: _Channels | None = None

    def add(self, exact: Tensor, rounded: Tensor, groups: Tensor | None = None) -> None:
        """Add results of one run.

        Args:
            exact: the float model's.
            rounded: the quantised one's, of the same shape.
            groups: int64 `[examples]`, the group of each; all are in the first without.
        """
        if not exact.is_floating_point():
            self._equal += int((exact == rounded).sum())
            self._elements += exact.numel()
        else:
            signal, noise = _power(exact), _power(exact - rounded)
            if not (signal and math.isfinite(signal + noise)):
                finite = exact.isfinite()
                wide = exact[finite].double()
                signal, noise = _power(wide), _power(wide - rounded[finite].double())
            self._signal += signal
            self._noise += noise
        if self._judgement is not None and exact.numel() and not exact.is_complex():
            axis = self._judgement.axis if exact.is_floating_point() else None
            places = torch.zeros(1, dtype=torch.int64) if groups is None else groups
            rows = _by_channel(exact, axis, len(places))
            self._channels = self._channels or _Channels(rows, self._groups)
            self._channels.add(rows, _by_channel(rounded, axis, len(places)), places)

    @property
    def tensor_db(self) -> float:
        """Signal over noise, decibels; all is lost where a finite number becomes none."""
        signal, noise = (torch.tensor([item]).double() for item in (self._signal, self._noise))
        return float(ratios(signal, noise))

    @property
    def moments(self) -> Tensor | None:
        """Finite elements, squares of errors, and the first powers of exact values about a shift.

        float64 `[6, groups, channels]`; None where nothing was added.
        """
        return None if self._channels is None else self._channels.moments

    def closeness(self) -> Closeness:
        """Return the figures of what was added."""
        one_scale = self._judgement is not None and self._judgement.one_scale
        fewer = "" if self._channels is None else self._channels.fewer(one_scale)
        if self._elements:
            return Closeness(equal=self._equal / self._elements, fewer=fewer)
        if self._channels is None:
            return Closeness(tensor_db=self.tensor_db)
        ratio, channel = self._channels.judge(one_scale)
        return Closeness(ratio, self.tensor_db, None, channel, fewer)


class _Channels:
    """Running sums of channels by group of examples.

    Attributes:
        moments: see `Sums`.
        exact: few values that the float model takes, and
        rounded: those of the quantised one.
    """

    def __init__(self, rows: Tensor, groups: int) -> None:
        finite = rows.double().nan_to_num(0.0, 0.0, 0.0)
        dtype = rows.dtype if rows.is_floating_point() else torch.float32
        self._shift = finite.mean((0, 1)).to(dtype)
        self.moments = torch.zeros(6, groups, rows.shape[-1], dtype=torch.float64)
        self.exact: _Values | None = None
        self.rounded: _Values | None = None

    def add(self, exact: Tensor, rounded: Tensor, groups: Tensor) -> None:
        """Add rows, `[examples, elements, channels]`."""
        finite = exact.isfinite()
        if not bool(finite.all()):
            # As the mean, so that it counts for nothing.
            exact = torch.where(finite, exact, self._shift)
            rounded = torch.where(finite, rounded, self._shift)
        if not _SMALL < float(exact.abs().amax()) < _LARGE:
            exact = exact.double()
        around = exact - self._shift
        square, error = around.square(), (exact - rounded).square()
        terms = finite, error, around, square, square * around, square.square()
        for total, term in zip(self.moments, terms, strict=True):
            total.index_add_(0, groups, term.sum(1, dtype=torch.float64))
        self.exact = _Values.of(exact.flatten(0, 1)).joined(self.exact)
        self.rounded = _Values.of(rounded.flatten(0, 1)).joined(self.rounded)

    def judge(self, one_scale: bool) -> tuple[float, int | None]:
        count, noise, first, *_ = self.moments.sum(1)
        varying, varies = self._varying()
        raw = varying + count * (self._shift.double() + first / count.clamp(min=1.0)).square()
        if one_scale:
            signal = varying if bool(varies.any()) else raw
            return float(ratios(signal.sum(), noise.sum())), None
        powers = (varying if bool(varies.any()) else raw) / count.clamp(min=1.0)
        others = powers[varies] if bool(varies.any()) else powers
        signal = torch.where(varies, varying, raw.maximum(count * others.mean()))
        alone = (count >= FEW) & ~(varies & self._rare(varying))
        figures = torch.where(alone, ratios(signal, noise), math.inf)
        together = math.inf
        if not bool(alone.all()):
            together = float(ratios(torch.where(varies, varying, raw).sum(), noise.sum()))
        worst = int(figures.argmin())
        if len(figures) == 1 or together <= figures[worst]:
            return min(together, float(figures[worst])), None
        return float(figures[worst]), worst

    def _varying(self) -> tuple[Tensor, Tensor]:
        """Return the power of what varies by channel, and whether that is more than rounding."""
        assert self.exact is not None
        count, _, first, second, *_ = self.moments.sum(1)
        varying = (second - first.square() / count.clamp(min=1.0)).clamp(min=0.0)
        least = (_UNVARYING * self.exact.largest.double()).square()
        return varying, (varying > 0.0) & (varying > count * least)

    def _rare(self, varying: Tensor) -> Tensor:
        """Channels whose effective elements, `(sum d^2)^2 / sum d^4`, are very few of many."""
        count, _, first, second, third, fourth = self.moments.sum(1)
        mean = first / count.clamp(min=1.0)
        central = fourth - 4 * mean * third + 6 * mean.square() * second - 3 * first * mean**3
        effective = varying.square() / central.clamp(min=1e-300)
        rare: Tensor = effective < (RARE_SHARE * count).clamp(max=RARE)
        return rare

    def fewer(self, one_scale: bool) -> str:
        """Text of a result that does not vary in the float model, or of channels with fewer values.

        Told are channels with one value or two where the float model has more.
        """
        assert self.exact is not None
        assert self.rounded is not None
        exact, rounded, count = self.exact, self.rounded, self.moments[0].sum(0)
        _, varies = self._varying()
        if one_scale:
            exact, rounded = exact.together(), rounded.together()
            count, varies = count.sum().reshape(1), varies.any().reshape(1)
        if not bool(varies.any()) and int(count.min()) >= FEW:
            return "does not vary over the examples in the float model: they tell nothing of it"
        lost = varies & (count >= FEW) & (rounded.number < exact.number) & (rounded.number < 3)
        places = lost.nonzero().flatten().tolist()
        if not places:
            return ""
        place = places[0]
        low, high = float(rounded.low[place]) + 0.0, float(rounded.high[place]) + 0.0
        values = f"is always {low:g}" if low == high else f"takes {low:g} and {high:g} alone"
        name = f"channel {place} " if len(count) > 1 else ""
        others = f", and {len(places) - 1} others alike" if len(places) > 1 else ""
        ends = float(exact.low[place]), float(exact.high[place])
        first, last = (f"{end:.{4 if ends[1] - ends[0] > 1e-2 * abs(end) else 7}g}" for end in ends)
        return f"{name}{values}, where the float model varies from {first} to {last}{others}"


@dataclass(frozen=True)
class _Values:
    """The least and the largest value of each channel, and whether there are others."""

    low: Tensor
    high: Tensor
    more: Tensor

    @classmethod
    def of(cls, rows: Tensor) -> _Values:
        low, high = rows.amin(0), rows.amax(0)
        return cls(low, high, ((rows != low) & (rows != high)).any(0))

    def joined(self, other: _Values | None) -> _Values:
        if other is None:
            return self
        rows = torch.stack([self.low, self.high, other.low, other.high])
        both = _Values.of(rows)
        return _Values(both.low, both.high, both.more | self.more | other.more)

    def together(self) -> _Values:
        ends = _Values.of(torch.cat([self.low, self.high]).reshape(-1, 1))
        return _Values(ends.low, ends.high, ends.more | self.more.any())

    @property
    def number(self) -> Tensor:
        """How many values there are; 3 for more than two."""
        return torch.where(self.more, 3, 1 + (self.low != self.high).long())

    @property
    def largest(self) -> Tensor:
        return self.low.abs().maximum(self.high.abs())


def _by_channel(values: Tensor, axis: int | None, examples: int) -> Tensor:
    """Return `[examples, elements, channels]`."""
    if values.dtype == torch.bool:
        values = values.to(torch.uint8)
    if axis is None or values.dim() == 0:
        return values.reshape(examples, -1, 1)
    return values.movedim(axis, -1).reshape(examples, -1, values.shape[axis])


def ratios(signal: Tensor, noise: Tensor) -> Tensor:
    """Return `10 log10(signal / noise)`; infinite where nothing or all is lost."""
    lossless = torch.where(
        noise == 0.0, math.inf, 10.0 * (signal / noise.clamp(min=1e-300)).log10()
    )
    return torch.where(noise.isfinite(), lossless, -math.inf)


def _power(values: Tensor) -> float:
    return float(torch.linalg.vector_norm(values)) ** 2


@dataclass(frozen=True)
class Agreement:
    """What was measured at one node.

    Attributes:
        results: its results by name; on the output node the model's outputs by name.
        saturated: share of elements that a format clips, by operand and result, where it is not 0.
        examples: how many were run.
        checksum: on the output node, of the parameters that were measured.
    """

    results: Mapping[str, Closeness]
    saturated: Mapping[str, float] = field(default_factory=dict)
    examples: int = 0
    checksum: int = 0

    @property
    def tensor_db(self) -> float | None:
        """The least raw ratio of its real results; None where there is none."""
        return least(self.results.values(), TENSOR)

    def to_dict(self) -> dict[str, object]:
        """Return the fields as values of JSON."""
        return {
            "results": {name: item.to_dict() for name, item in self.results.items()},
            **({"saturated": _rounded(self.saturated)} if self.saturated else {}),
            **({"examples": self.examples} if self.examples else {}),
            **({"checksum": self.checksum} if self.checksum else {}),
        }

    @classmethod
    def from_dict(cls, entry: Table) -> Agreement:
        """Read what `to_dict` wrote."""
        return cls(
            {str(name): Closeness.from_dict(item) for name, item in entry["results"].items()},
            {str(name): float(share) for name, share in entry.get("saturated", {}).items()},
            int(entry.get("examples", 0)),
            int(entry.get("checksum", 0)),
        )


def least(results: Iterable[Closeness], kind: str = CHANNEL) -> float | None:
    """Return the least figure of a kind; None where nothing is real."""
    figures = [item.decibels(kind) for item in results]
    return min((item for item in figures if item is not None), default=None)


def _rounded(shares: Mapping[str, float]) -> dict[str, float]:
    # Not to nothing: what is there is not zero.
    return {name: max(round(share, 4), 1e-4) for name, share in shares.items()}


@dataclass(frozen=True)
class ModelAgreement:
    """What was measured of a whole model.

    Attributes:
        examples: how many were run.
        outputs: the model's outputs by name.
        worst: the node whose loss is the largest that others read, and
        worst_db: its whole tensor's ratio; None where all is equal.
        source: what was run beside the float model, `GRAPH` or `RTL`.
        nodes: by node what was measured of it.
    """

    examples: int
    outputs: Mapping[str, Closeness]
    worst: str | None = None
    worst_db: float | None = None
    source: str = GRAPH
    nodes: Mapping[str, Agreement] = field(default_factory=dict)

    @property
    def sqnr_db(self) -> float | None:
        """The figure of the worst channel of the worst output; None where none is real."""
        return least(self.outputs.values())

    def worst_of(self, names: Iterable[str] = ()) -> Closeness:
        """Return the agreement of the worst of some outputs, of all without; reals come first."""
        outputs = [self.outputs[name] for name in names or self.outputs]
        return min(outputs, key=lambda item: (item.sqnr_db is None, item.score))

    def __str__(self) -> str:
        """Return a line: figure, examples and the node that loses most.

        `41.3 dB at channel 3 (whole tensor 45.0 dB), 9 examples, inside worst at x (tensor 7 dB)`.
        """
        item = self.worst_of()
        name = next(name for name, other in self.outputs.items() if other is item)
        of = f" of output {name}" if len(self.outputs) > 1 else ""
        line = f"{item}{of}, {self.examples} example{'s' if self.examples != 1 else ''}"
        line += " on the RTL" if self.source == RTL else ""
        if self.worst is not None and self.worst_db is not None:
            line += f", inside worst at {self.worst} (tensor {decibels(self.worst_db)})"
        fewer = {other: beside.fewer for other, beside in self.outputs.items() if beside.fewer}
        return "; ".join([line, *(f"{other}: {text}" for other, text in fewer.items())])

    def to_dict(self) -> dict[str, object]:
        """Return the fields as values of JSON."""
        worst = {} if self.worst_db is None else {"tensor_db": _bounded(self.worst_db)}
        return {
            "examples": self.examples,
            "outputs": {name: item.to_dict() for name, item in self.outputs.items()},
            "worst": {"node": self.worst, **worst} if worst else None,
            "measured": self.source,
            "nodes": {name: item.to_dict() for name, item in self.nodes.items()},
        }

    @classmethod
    def from_dict(cls, entry: Table) -> ModelAgreement:
        """Read what `to_dict` wrote."""
        worst = entry["worst"] or {}
        return cls(
            int(entry["examples"]),
            {str(name): Closeness.from_dict(item) for name, item in entry["outputs"].items()},
            worst.get("node"),
            Closeness.from_dict(worst).tensor_db,
            str(entry["measured"]),
            {str(name): Agreement.from_dict(item) for name, item in entry["nodes"].items()},
        )
