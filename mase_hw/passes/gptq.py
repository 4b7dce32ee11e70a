"""GPTQ: weights rounded one column after the other, each error made up for by the columns left.

For a layer `y = W x` with inputs `x` on data, rounding changes the result by the least squares when
what column `i` lost is spread over the columns behind it:

    H = X^T X + damping,  U = chol(H^-1) (upper),  W[:, i+1:] -= (w_i - q_i) / U_ii * U[i, i+1:]

Source: Frantar et al., "GPTQ: Accurate Post-Training Quantization for Generative Pre-trained
Transformers" (2022), arXiv:2210.17323. Blocks that share a scale along the row keep the scale that
the block has when its first column is rounded. Layers are taken in the order of the graph, on what
the layers before them, rounded, give.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node

from mase_hw._registry import nearest
from mase_hw.errors import ConfigError
from mase_hw.formats import Format
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.metadata import common
from mase_hw.passes.walk import Layer, gram, layers, walk

ARGUMENTS = ("data", "damping", "nodes")
# Columns whose errors are collected before those behind them are changed.
GROUP = 128
DAMPING = 0.01


def gptq_transform_pass(
    mg: MaseGraph, pass_args: Mapping[str, Any] | None = None
) -> tuple[MaseGraph, dict[str, Any]]:
    """Choose the codes of weights so that layers compute on data what they did before.

    Args:
        mg: a quantised graph.
        pass_args: `data`, batches of inputs, the example inputs when not given; `damping`, the
            share of the mean of the diagonal that is added to it, 0.01 when not given; `nodes`,
            the names of layers, all whose weights have a format when not given.

    Returns:
        A new graph with the same formats, and `layers`: per layer the squared error of its results
        on the data, relative, rounded to nearest and now.

    Raises:
        ConfigError: for an argument that is not legal, or a graph without weights in a format.
        DataError: when there is no batch.
    """
    given = dict(pass_args or {})
    for key in given:
        if key not in ARGUMENTS:
            raise ConfigError(f"GPTQ has no {key!r}; {nearest(key, ARGUMENTS)}")
    damping = given.get("damping", DAMPING)
    if not isinstance(damping, int | float) or not 0 <= damping < 1:
        raise ConfigError(f"GPTQ: damping is {damping!r}; allowed: from 0 to below 1")
    mg = mg.copy().eval()
    chosen = {
        node: layer
        for node, layer in layers(mg, given.get("nodes")).items()
        if _weight_format(node) is not None
    }
    if not chosen:
        raise ConfigError(f"GPTQ: no weight of {mg.name} has a number format; quantize it first")
    report: dict[str, Any] = {}
    data = given.get("data")
    known: tuple[Node, Tensor] | None = None
    for node, values in walk(mg, [mg.example_inputs] if data is None else data):
        layer = chosen.get(node)
        if layer is None:
            continue
        if known is None or known[0] is not layer.source:
            known = layer.source, gram(values, layer.source)
        report[node.name] = _round_layer(mg, layer, known[1], float(damping))
        if len(report) == len(chosen):
            break
    return mg, {"layers": report}


def _weight_format(node: Node) -> Format | None:
    spec = common(node).operands.get("weight")
    return None if spec is None else spec.format


def _round_layer(mg: MaseGraph, layer: Layer, hessian: Tensor, damping: float) -> dict[str, float]:
    parameter = mg.constant(layer.parameter)
    number_format = _weight_format(layer.node)
    assert number_format is not None
    weight = parameter.detach()
    plain = number_format.round_values(weight)
    chosen = gptq(weight, hessian, number_format, damping)
    # What the graph computes with: a block whose largest number moved may have another scale.
    chosen = number_format.round_values(chosen)
    before, after = (squared_error(weight - item, hessian) for item in (plain, chosen))
    if after > before:
        chosen, after = plain, before
    with torch.no_grad():
        parameter.copy_(chosen)
    scale = squared_error(weight, hessian)
    return {"nearest": before / scale, "gptq": after / scale} if scale else {}


def squared_error(difference: Tensor, hessian: Tensor) -> float:
    """Return the mean squared change of a layer's results when its weights change."""
    rows = difference.double()
    return float(((rows @ hessian) * rows).sum())


def gptq(weight: Tensor, hessian: Tensor, number_format: Format, damping: float) -> Tensor:
    """Return weights that the format has.

    Args:
        weight: `[results, features]`.
        hessian: `X^T X` of the inputs, `[features, features]`, float64.
        number_format: the weights' format, with its scale.
        damping: see `gptq_transform_pass`.
    """
    upper = _inverse_factor(hessian, damping)
    left = weight.double().clone()
    chosen = torch.zeros_like(left)
    rounding = _Rounding(number_format, left)
    features = left.shape[1]
    for start in range(0, features, GROUP):
        end = min(start + GROUP, features)
        errors = torch.zeros(len(left), end - start, dtype=left.dtype)
        for column in range(start, end):
            current = left[:, column]
            rounded = rounding.column(left, column)
            error = (current - rounded) / upper[column, column]
            # Within the group at once, behind it together.
            left[:, column:end] -= error[:, None] * upper[column, column:end]
            chosen[:, column], errors[:, column - start] = rounded, error
        left[:, end:] -= errors @ upper[start:end, end:]
    return chosen.to(weight.dtype)


def _inverse_factor(hessian: Tensor, damping: float) -> Tensor:
    """Return the upper factor of the inverse of a damped Hessian.

    A feature that is zero on the data counts as one by itself: its weights are rounded to nearest.
    """
    damped = hessian.clone()
    diagonal = torch.diagonal(damped)
    dead = diagonal == 0
    diagonal += damping * float(diagonal.mean()) + dead.double()
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
    """Rounds columns of a matrix as its format rounds the whole of it."""

    def __init__(self, number_format: Format, weight: Tensor) -> None:
        fields = number_format.to_dict()
        if number_format.scale_follows_data and fields.get("scale") is None:
            fields = {key: value for key, value in fields.items() if value is not None}
            fields.pop("name")
            number_format = type(number_format).fit_values(weight, **fields)
            fields = number_format.to_dict()
        along_row = fields.get("axis") in (-1, weight.dim() - 1)
        self._size = int(fields["block_size"]) if "block_size" in fields and along_row else 0
        self._format = number_format
        if self._size:
            # A column beside the largest number of its block, which alone decides the scale.
            pair: Any = replace(number_format, block_size=2, axis=-1)  # type: ignore[call-arg]
            self._format = pair
            self._largest = torch.zeros(len(weight), dtype=weight.dtype)

    def column(self, left: Tensor, column: int) -> Tensor:
        """Return a column, rounded."""
        values = left[:, column]
        if not self._size:
            return self._format.round_values(values[:, None])[:, 0]
        if column % self._size == 0:
            block = left[:, column : column + self._size]
            self._largest = block.abs().amax(1)
        bounded = torch.clamp(values, -self._largest, self._largest)
        return self._format.round_values(torch.stack([bounded, self._largest], 1))[:, 0]
