"""GPTQ: weights rounded column by column; the remaining columns compensate each error.

For a layer `y = W x` with inputs `x` on data, rounding changes the result by the least squares when
what column `i` lost is spread over the columns behind it:

    H = X^T X + damping,  U = chol(H^-1) (upper),  W[:, i+1:] -= (w_i - q_i) / U_ii * U[i, i+1:]

Source: Frantar et al., "GPTQ: Accurate Post-Training Quantization for Generative Pre-trained
Transformers" (2022), arXiv:2210.17323. Columns of large inputs come first, as in its published
code; blocks that share a scale along the row stay together and have the scale of the least error
when their first column is rounded. Then every column is rounded anew with the errors of all others
known, the descent along coordinates of Nair and Suggala, "CDQuant" (2024), arXiv:2406.17542. Layers
are taken in the order of the graph, on what the layers before them, rounded, give; they may make up
for a part of what was lost there (Li et al., "GPTAQ", 2025, arXiv:2504.02692), with

    W' = W + share * W (X0^T X - H) H^-1,  X0 the inputs before anything was rounded.

Few rows, or rows unlike others, are fitted at the cost of all else. Each layer is therefore tried
without a part of the data, and keeps rounding to nearest unless it is better on that part.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node

from mase_hw._checks import check_bool, check_integer, check_share
from mase_hw._kinds import Record
from mase_hw.errors import ConfigError
from mase_hw.formats import BlockFormat, Format
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.nodes import common
from mase_hw.passes._pass import Result, graph_pass
from mase_hw.passes.compression._rows import Rows, rows_of
from mase_hw.passes.compression.walk import Layer, layers, walk

_logger = logging.getLogger(__name__)

# Columns whose errors are collected before those behind them are changed.
GROUP = 128
DAMPING = 0.01
SWEEPS = 2
# One of so many inferences is held out.
HELD = 5
# By how many binades the scale of a block may differ from that of its largest number.
OFFSETS = (0, -1, 1)


@dataclass(frozen=True)
class Method:
    """How weights are rounded.

    Attributes:
        damping: share of the mean of the Hessian's diagonal that is added to it.
        order: whether columns of larger inputs come first, blocks of a format whole.
        scales: whether a block's scale is chosen for the least error, not by its largest number.
        sweeps: how often every weight is rounded anew, with the errors of all others known.

    Raises:
        ConfigError: for a value that is not legal.
    """

    damping: float = DAMPING
    order: bool = True
    scales: bool = True
    sweeps: int = SWEEPS

    def __post_init__(self) -> None:
        check_share("GPTQ: damping", self.damping)
        check_integer("GPTQ: sweeps", self.sweeps, 0)
        for key in ("order", "scales"):
            check_bool(f"GPTQ: {key}", getattr(self, key))


@graph_pass
def gptq_transform_pass(
    mg: MaseGraph,
    *,
    data: Iterable[object] | None = None,
    nodes: Sequence[str] | None = None,
    correction: float = 0.0,
    damping: float = DAMPING,
    order: bool = True,
    scales: bool = True,
    sweeps: int = SWEEPS,
) -> Result:
    """Choose the codes of weights so that layers compute on data what they did before.

    Args:
        mg: a quantised graph.
        data: batches of inputs, the example inputs when not given.
        nodes: names of layers, all whose weights have a format when not given.
        correction: the share of what the layers before lost by rounding that a layer makes up for,
            which takes a second run of the graph beside the first.
        damping: see `Method`, as for `order`, `scales` and `sweeps`.
        order: see there.
        scales: see there.
        sweeps: see there.

    Returns:
        A new graph with the same formats; `layers`, per layer the squared error of its results on
        data that was held out, relative, rounded to nearest and by the better of the two; and
        `kept`, the layers that are rounded to nearest, because GPTQ is not better.

    Raises:
        ConfigError: for an argument that is not legal, or a graph without weights in a format.
        DataError: when there is no batch.
    """
    method = Method(damping, order, scales, sweeps)
    check_share("GPTQ: correction", correction, below=False)
    exact, mg = mg, mg.copy().eval()
    chosen = {
        node: layer for node, layer in layers(mg, nodes).items() if _weight_format(node) is not None
    }
    if not chosen:
        raise ConfigError(f"GPTQ: no weight of {mg.name} has a number format; quantize it first")
    report: Record = {}
    batches = [mg.example_inputs] if data is None else list(data)
    before = walk(exact.copy().eval(), batches, only=()) if correction else None
    known: tuple[Node, _Read] | None = None
    twins: dict[Node, Node] = {}
    for node, values in walk(mg, batches):
        twins[node], originals = next(before) if before else (node, values)
        layer = chosen.get(node)
        if layer is None:
            continue
        if known is None or known[0] is not layer.source:
            rows = rows_of(values, layer.source, originals, twins[layer.source])
            known = layer.source, _Read(rows, correction)
        report[node.name] = _round_layer(mg, layer, known[1], method)
        if len(report) == len(chosen):
            break
    kept = [name for name, item in report.items() if item["gptq"] >= item["nearest"]]
    if kept:
        _logger.warning(
            "GPTQ: %d of %d layers keep rounding to nearest, whose error on data held out is not "
            "larger: %s",
            len(kept),
            len(report),
            ", ".join(kept),
        )
    return mg, {"layers": report, "kept": kept}


class _Read:
    """What a layer reads: rows to fit its weights to, and parts that are held out in turn.

    Args:
        rows: now, and before anything was rounded.
        correction: the share of what was lost since that the layer makes up for.
    """

    def __init__(self, rows: Rows, correction: float) -> None:
        self._correction = correction
        self.all = self._statistics(rows)
        # One part says enough where there are more rows than features.
        few = sum(map(len, rows.now)) < rows.now[0].shape[1]
        parts = list(rows.parted(HELD)) if not rows.is_constant else []
        self.parts = [
            (self._statistics(some), held) for some, held in (parts if few else parts[:1])
        ]

    def _statistics(self, rows: Rows) -> tuple[Tensor, Tensor | None]:
        """Return the Hessian, and how that with the wanted rows differs."""
        hessian = rows.gram()
        if not self._correction:
            return hessian, None
        return hessian, self._correction * (rows.cross_gram() - hessian)

    def error(self, held: Rows, weight: Tensor, chosen: Tensor | None = None) -> float:
        """Return the squared results of a weight on rows, or how far those of another are."""
        total = 0.0
        for now, before in zip(held.now, held.other, strict=True):
            wanted = (now + self._correction * (before - now)).double() @ weight.double().T
            found = 0.0 if chosen is None else now.double() @ chosen.double().T
            total += float((wanted - found).square().sum())
        return total


def _weight_format(node: Node) -> Format | None:
    spec = common(node).operands.get("weight")
    return None if spec is None else spec.format


def _round_layer(mg: MaseGraph, layer: Layer, read: _Read, method: Method) -> dict[str, float]:
    """Round a layer's weights, in place, to nearest unless that loses more on rows held out."""
    parameter = mg.constant(layer.parameter)
    number_format = _weight_format(layer.node)
    assert number_format is not None
    weight = parameter.detach()
    nearest = number_format.round_values(weight)
    before, after, scale = 0.0, 0.0, 0.0
    for some, held in read.parts:
        tried = _rounded(weight, number_format, some, method)
        before += read.error(held, weight, nearest)
        after += read.error(held, weight, tried)
        scale += read.error(held, weight)
    better = after < before
    with torch.no_grad():
        parameter.copy_(_rounded(weight, number_format, read.all, method) if better else nearest)
    scale = scale or 1.0
    return {"nearest": before / scale, "gptq": min(before, after) / scale}


def _rounded(
    weight: Tensor,
    number_format: Format,
    statistics: tuple[Tensor, Tensor | None],
    method: Method,
) -> Tensor:
    hessian, lost = statistics
    wanted = weight.double()
    if lost is not None:
        # The weights that give from the inputs as they are now what came before, least squares.
        gain = torch.linalg.solve(_damped(hessian, method.damping), lost.T @ wanted.T)
        wanted = wanted + gain.T
    chosen = gptq(wanted, hessian, number_format, method)
    # A block whose largest number moved may have another scale.
    return number_format.round_values(chosen.to(weight.dtype))


def squared_error(difference: Tensor, hessian: Tensor) -> float:
    """Return the mean squared change of a layer's results when its weights change."""
    rows = difference.double()
    return float(((rows @ hessian) * rows).sum())


def gptq(weight: Tensor, hessian: Tensor, number_format: Format, method: Method) -> Tensor:
    """Return weights that the format has.

    Args:
        weight: `[results, features]`.
        hessian: `X^T X` of the inputs, `[features, features]`, float64.
        number_format: the weights' format, with its scale.
        method: how they are rounded.
    """
    wanted = weight.double()
    rounding = _Rounding(number_format, wanted)
    blocks = list(torch.split(torch.arange(wanted.shape[1]), rounding.size))
    if method.order:
        blocks = _ordered(blocks, torch.diagonal(hessian))
    order = torch.cat(blocks)
    sizes = [len(block) for block in blocks]
    wanted, hessian = wanted[:, order], hessian[order][:, order]
    damped = _damped(hessian, method.damping)
    rounding.order(blocks)
    scales, chosen = _forward(wanted, _inverse_factor(damped), rounding, sizes, method.scales)
    for _ in range(method.sweeps):
        if not _sweep(wanted, chosen, damped, rounding, sizes, scales):
            break
    found = torch.empty_like(chosen)
    found[:, order] = chosen
    return found.to(weight.dtype)


def _ordered(blocks: list[Tensor], diagonal: Tensor) -> list[Tensor]:
    """Return blocks by their largest inputs, and the columns of each likewise."""
    blocks = [block[diagonal[block].argsort(descending=True, stable=True)] for block in blocks]
    return sorted(blocks, key=lambda block: -float(diagonal[block].mean()))


def _groups(sizes: Sequence[int]) -> Iterator[list[tuple[int, int]]]:
    """Yield runs of whole blocks, (first column, column behind the last) each."""
    group: list[tuple[int, int]] = []
    start = 0
    for size in sizes:
        if group and start + size - group[0][0] > GROUP:
            yield group
            group = []
        group.append((start, start + size))
        start += size
    yield group


def _forward(
    weight: Tensor, upper: Tensor, rounding: _Rounding, sizes: Sequence[int], searched: bool
) -> tuple[list[Tensor], Tensor]:
    """Round column after column; return the scale of every block, and the weights."""
    left, chosen = weight.clone(), torch.zeros_like(weight)
    importance = torch.diagonal(upper) ** -2
    scales: list[Tensor] = []
    for group in _groups(sizes):
        start, end = group[0][0], group[-1][1]
        errors = torch.zeros(len(left), end - start, dtype=left.dtype)
        for first, last in group:
            block = slice(first, last)
            searched_by = importance[block] if searched else None
            scale = rounding.scale(left[:, block], searched_by, len(scales))
            scales.append(scale)
            for column in range(first, last):
                current = left[:, column]
                rounded = rounding.column(current, scale)
                error = (current - rounded) / upper[column, column]
                # Within the group at once, behind it together.
                left[:, column:end] -= error[:, None] * upper[column, column:end]
                chosen[:, column], errors[:, column - start] = rounded, error
        left[:, end:] -= errors @ upper[start:end, end:]
    return scales, chosen


def _sweep(
    weight: Tensor,
    chosen: Tensor,
    damped: Tensor,
    rounding: _Rounding,
    sizes: Sequence[int],
    scales: Sequence[Tensor],
) -> bool:
    """Round every column anew, all others given, in place; return whether that changed one.

    The error is least where `w_i + sum_j (w_j - q_j) H_ji / H_ii` is rounded to nearest.
    """
    changed = False
    number = 0
    for group in _groups(sizes):
        start, end = group[0][0], group[-1][1]
        slope = (weight - chosen) @ damped[:, start:end]
        for first, last in group:
            for column in range(first, last):
                best = chosen[:, column] + slope[:, column - start] / damped[column, column]
                step = rounding.column(best, scales[number]) - chosen[:, column]
                if not bool(step.any()):
                    continue
                changed = True
                chosen[:, column] += step
                slope -= step[:, None] * damped[column, start:end]
            number += 1
    return changed


def _damped(hessian: Tensor, damping: float) -> Tensor:
    """Return a Hessian with more of its diagonal.

    A feature that is zero on the data counts as one by itself: its weights are rounded to nearest.
    """
    damped = hessian.clone()
    diagonal = torch.diagonal(damped)
    dead = diagonal == 0
    diagonal += damping * float(diagonal.mean()) + dead.double()
    return damped


def _inverse_factor(damped: Tensor) -> Tensor:
    damped = damped.clone()
    diagonal = torch.diagonal(damped)
    # Fewer rows than features leave directions without any weight of their own.
    floor = float(diagonal.mean()) * 1e-12
    for _ in range(8):
        factor, info = torch.linalg.cholesky_ex(damped)
        if not int(info):
            break
        floor *= 100.0
        diagonal += floor
    else:
        raise ConfigError("GPTQ: the inputs of a layer depend on each other; raise the damping")
    inverse = torch.cholesky_inverse(factor)
    upper: Tensor = torch.linalg.cholesky(inverse, upper=True)
    return upper


class _Rounding:
    """Rounds columns of a matrix as its format rounds the whole of it.

    Attributes:
        size: columns of a block that share a scale, one without.
    """

    def __init__(self, number_format: Format, weight: Tensor) -> None:
        fields = number_format.to_dict()
        if number_format.scale_follows_data and fields.get("scale") is None:
            fields = {key: value for key, value in fields.items() if value is not None}
            fields.pop("name")
            number_format = type(number_format).fit_values(weight, **fields)
            fields = number_format.to_dict()
        along_row = fields.get("axis") in (-1, weight.dim() - 1)
        self._shared = "block_size" in fields and along_row
        self.size = int(fields["block_size"]) if self._shared else 1
        self._format = number_format
        self._powers: BlockFormat | None = None
        # Of formats with a scale for each group: scales and zero points, `[groups, 2, results]`.
        self._groups = torch.zeros(0)
        if isinstance(size := fields.get("group_size"), int):
            self.size = size
            given = [torch.tensor(fields[key]).double() for key in ("scale", "zero_point")]
            self._groups = torch.stack([item.reshape(len(weight), -1).T for item in given], 1)
        if self._shared and isinstance(number_format, BlockFormat):
            self._powers = number_format if number_format.scales_are_powers else None
        if self._shared and self._powers is None:
            # A column beside the largest number of its block, which alone decides the scale.
            pair: Any = replace(number_format, block_size=2, axis=-1)  # type: ignore[call-arg]
            self._format = pair

    def order(self, blocks: Sequence[Tensor]) -> None:
        """Take note of the order in which the blocks of columns come."""
        if len(self._groups):
            self._groups = self._groups[[int(block.min()) // self.size for block in blocks]]

    def scale(self, block: Tensor, importance: Tensor | None, number: int) -> Tensor:
        """Scale of every row of a block.

        Args:
            block: `[results, columns]`.
            importance: of the columns' errors, to choose scales by the least sum of their squares;
                None to take those of the format.
            number: of the block, in the order of `order`.
        """
        if len(self._groups):
            return self._groups[number]
        if not self._shared:
            return torch.zeros(0)
        if self._powers is None:
            return block.abs().amax(1)
        own = self._powers.exponents(block.abs().amax(1))
        if importance is None:
            return own
        best, least = own, torch.full((len(block),), torch.inf, dtype=block.dtype)
        for offset in OFFSETS:
            tried = self._powers.bounded(own + offset)
            rounded = self._powers.round_in_scale(block, tried[:, None])
            error = ((rounded - block).square() * importance).sum(1)
            better = error < least
            best, least = torch.where(better, tried, best), torch.where(better, error, least)
        return best

    def column(self, values: Tensor, scale: Tensor) -> Tensor:
        """Return a column, rounded, with what `scale` returned for its block."""
        if len(self._groups):
            step, point = scale
            low, high = self._format.code_range  # type: ignore[attr-defined]
            codes = (values / step).round().clamp(low - point, high - point)
            return torch.mul(codes, step)
        if not self._shared:
            return self._format.round_values(values[:, None])[:, 0]
        if self._powers is not None:
            return self._powers.round_in_scale(values, scale)
        bounded = torch.clamp(values, -scale, scale)
        return self._format.round_values(torch.stack([bounded, scale], 1))[:, 0]
