"""Learned steps: quantisation-aware training in which formats move their scale.

The step of a tensor is `s = s_0 * 2**a`, and `a` is trained beside the weights. A format is the
same set of numbers at every scale, `Q_s(v) = s Q_1(v / s)`, so that with the straight-through
gradient `dQ/dv = 1` where nothing saturates and 0 elsewhere

    dQ/da = ln 2 * (Q(v) - v dQ/dv),

which is the learned step size of Esser et al. (2020, arXiv:1902.08153) in the logarithm, as Jain
et al. (2020, arXiv:1903.08066) take it for steps that are powers of two: there `a` is rounded,
straight through. Streams that meet without a cast share one `a`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import Node

from mase_hw._kinds import Record, Table
from mase_hw.errors import ConfigError
from mase_hw.formats import Format
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.nodes import common, stream_operands
from mase_hw.graph.quantized import GraphRun
from mase_hw.ops import Numeric, operators
from mase_hw.passes.formats import quantize

# Octaves of a step per unit of its parameter: a rate that suits weights, which are small, would
# hardly move a logarithm.
GAIN = 16.0
RESULT = "data_out_0"
Tensors = dict[tuple[str, str], Format]


class _Rounding(torch.autograd.Function):
    """Forward: the quantised values at a moved scale. Backward: to the values and to the move."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, octaves: Tensor, number_format: Format) -> Tensor:
        moved = _moved(number_format, octaves)
        rounded = moved.round_values(values)
        ctx.save_for_backward(values, rounded, moved.in_range(values))
        return rounded

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        values, rounded, inside = ctx.saved_tensors
        passed = gradients[0] * inside
        move = math.log(2.0) * (gradients[0] * rounded - passed * values).sum()
        return passed, move, None


class LearnedStepModel(nn.Module):
    """A quantised graph whose formats move their scales while it is trained.

    Args:
        mg: a graph that `config` quantised.
        config: number formats with every field given, by node, as `calibrate_analysis_pass`
            resolves them.

    Raises:
        ConfigError: when no format has a scale to learn.
    """

    def __init__(self, mg: MaseGraph, config: Mapping[str, object]) -> None:
        super().__init__()
        self.graph_model = mg
        self._config = config
        groups = _groups(mg, set(_entries(mg, config)))
        chosen = dict.fromkeys(groups[tensor] for tensor in _configured(mg, config))
        formats = _formats(mg)
        fixed = {groups[tensor] for tensor, item in formats.items() if item.scaled(0.0) is None}
        learned = [group for group in chosen if group not in fixed | _own(mg, groups)]
        if not learned:
            raise ConfigError("learned steps: no format of the graph has a scale to learn")
        self.moves = nn.ParameterList(nn.Parameter(torch.zeros(())) for _ in learned)
        number = {group: index for index, group in enumerate(learned)}
        self._numbers = {
            tensor: number[group] for tensor, group in groups.items() if group in number
        }

    def forward(self, *args: Tensor, **kwargs: Tensor) -> object:
        """Run the graph at the steps as they are now."""
        run = _MovedRun(self.graph_model, self._numbers, self.moves)
        return self.graph_model.through(run, *args, **kwargs)

    def config(self) -> Record:
        """Return the configuration with the steps as they are now."""
        found = dict(self._config)
        formats = _formats(self.graph_model)
        for name, tensors in _entries(self.graph_model, self._config).items():
            chosen = {
                tensor: self._learned(name, tensor, formats[name, tensor]) for tensor in tensors
            }
            found[name] = {"config": quantize.entry_of(chosen)}
        return found

    def _learned(self, node: str, name: str, number_format: Format) -> Format:
        index = self._numbers.get((node, name))
        if index is None:
            return number_format
        return _moved(number_format, GAIN * self.moves[index].detach())


class _MovedRun(GraphRun):
    """A run whose formats are moved.

    Args:
        mg: the graph.
        numbers: which move a tensor takes, by node and operand or result.
        moves: octaves over `GAIN`.
    """

    def __init__(
        self, mg: MaseGraph, numbers: Mapping[tuple[str, str], int], moves: nn.ParameterList
    ) -> None:
        super().__init__(mg)
        self._numbers, self._moves = numbers, moves

    def _rounded(
        self, node: Node, name: str, number_format: Format | None, values: Tensor
    ) -> Tensor:
        index = self._numbers.get((node.name, name))
        if index is None or number_format is None:
            return super()._rounded(node, name, number_format, values)
        result: Tensor = _Rounding.apply(  # type: ignore[no-untyped-call]
            values, GAIN * self._moves[index], number_format
        )
        return result


def _moved(number_format: Format, octaves: Tensor) -> Format:
    found = number_format.scaled(float(octaves))
    assert found is not None
    return found


def _entries(mg: MaseGraph, config: Table) -> dict[str, list[str]]:
    """Return the tensors that a resolved configuration gives formats to, by node."""
    found = {}
    for node in mg.nodes:
        entry = config.get(node.name, {}).get("config", {})
        if entry.get("name") is not None:
            result = [RESULT] if quantize.mentions(entry, RESULT) else []
            found[node.name] = [*common(node).operands, *result]
    return found


def _configured(mg: MaseGraph, config: Mapping[str, object]) -> list[tuple[str, str]]:
    return [(name, item) for name, items in _entries(mg, config).items() for item in items]


def _formats(mg: MaseGraph) -> Tensors:
    return {
        (node.name, name): spec.format
        for node in mg.nodes
        if node.op in ("placeholder", "call_function")
        for name, spec in {**common(node).operands, **common(node).results}.items()
        if spec.format is not None
    }


def _groups(mg: MaseGraph, configured: set[str]) -> dict[tuple[str, str], tuple[str, str]]:
    """Representative of each tensor: those of one format for good share it."""
    found = {tensor: tensor for tensor in _formats(mg)}

    def join(one: tuple[str, str], other: tuple[str, str]) -> None:
        if one in found and other in found:
            old, new = found[one], found[other]
            found.update({tensor: new for tensor, group in found.items() if group == old})

    for node in mg.nodes:
        if node.op != "call_function":
            continue
        for name, producer in stream_operands(node):
            join((node.name, name), (producer.name, RESULT))
            operator = operators().get(str(common(node).operator))
            if operator and Numeric.of(operator).keeps_format and node.name not in configured:
                join((node.name, name), (node.name, RESULT))
    return found


def _own(mg: MaseGraph, groups: Mapping[tuple[str, str], tuple[str, str]]) -> set[tuple[str, str]]:
    """Return the groups of results whose format the operator chooses."""
    found = set()
    for node in mg.nodes:
        operator = operators().get(str(common(node).operator))
        if node.op != "call_function" or operator is None:
            continue
        if Numeric.of(operator).result_format(mg.call(node)):
            found.add(groups.get((node.name, RESULT), (node.name, RESULT)))
    return found
