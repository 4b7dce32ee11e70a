"""The fake-quantised model of a graph: real values that its number formats can represent."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import Node

from mase_hw.formats import Format
from mase_hw.graph._rebuild import get_tensor
from mase_hw.graph.calls import aten_arguments, tensor_arguments
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.masks import hold_masks
from mase_hw.graph.metadata import common
from mase_hw.ops import operator_for


class QuantizedModel(nn.Module):
    """Runs a graph with every operand and result rounded to its format, straight through.

    Parameters are the graph's own: training this module trains the graph. Nodes without a format
    compute in the dtype of the values.

    Args:
        mg: a graph with formats.
        only: names of the nodes that round; all when not given.
    """

    def __init__(self, mg: MaseGraph, only: Collection[str] | None = None) -> None:
        super().__init__()
        hold_masks(mg)
        self._only = only
        self.graph_model = mg.model
        self._nodes = [node for node in mg.nodes if node.op in ("placeholder", "call_function")]
        (output,) = (node for node in mg.nodes if node.op == "output")
        returned = output.args[0]
        # A tensor in a tuple by itself is that tensor.
        alone = isinstance(returned, tuple | list) and len(returned) == 1
        self._returned = returned[0] if alone else returned  # type: ignore[index]

    def forward(self, *inputs: Tensor) -> Any:
        """Return the graph's outputs as the model nests them; one in a tuple is returned bare."""
        values = self._run(inputs)
        return self._nested(self._returned, values)

    def _nested(self, returned: Any, values: dict[Node, Tensor]) -> Any:
        if isinstance(returned, Mapping):
            return {key: self._nested(item, values) for key, item in returned.items()}
        if isinstance(returned, tuple | list):
            kind = tuple if isinstance(returned, tuple) else list
            return kind(self._nested(item, values) for item in returned)
        return self._value(returned, values) if isinstance(returned, Node) else returned

    def values(self, *inputs: Tensor) -> dict[str, Tensor]:
        """Return the result of every node by its name."""
        return {node.name: value for node, value in self._run(inputs).items()}

    def _run(self, inputs: Sequence[Tensor]) -> dict[Node, Tensor]:
        values: dict[Node, Tensor] = {}
        given = iter(inputs)
        for node in self._nodes:
            result = next(given) if node.op == "placeholder" else self._compute(node, values)
            number_format = common(node).results["data_out_0"].format
            values[node] = self._rounded(node, "data_out_0", number_format, result)
        return values

    def _rounded(
        self, node: Node, name: str, number_format: Format | None, values: Tensor
    ) -> Tensor:
        """Return a constant operand or the result of a node in its format."""
        if number_format is None or (self._only is not None and node.name not in self._only):
            return values
        return number_format.fake_quantize(values)

    def _compute(self, node: Node, values: dict[Node, Tensor]) -> Tensor:
        operator = operator_for(node.target) if common(node).operator else None
        if operator is None or _is_unformatted(node):
            result: Tensor = node.target(  # type: ignore[operator]
                *torch.fx.map_arg(node.args, lambda item: self._value(item, values)),
                **torch.fx.map_arg(node.kwargs, lambda item: self._value(item, values)),
            )
            return result
        arguments = aten_arguments(node)
        streams: dict[str, Tensor] = {}
        constants: dict[str, Tensor] = {}
        given = dict(tensor_arguments(node, operator.operand_names))
        for name, item in given.items():
            if isinstance(item, Node) and item.op != "get_attr":
                streams[name] = values[item]
            elif isinstance(item, Node):
                constants[name] = self._value(item, values)
        numbers = {name: value for name, value in given.items() if not isinstance(value, Node)}
        constants |= {
            name: _tensor_of(number, [*streams.values(), *constants.values()])
            for name, number in numbers.items()
        }
        constants = operator.prepare(constants, arguments)
        formats = {name: spec.format for name, spec in common(node).operands.items()}
        for name, constant in constants.items():
            constants[name] = self._rounded(node, name, formats.get(name), constant)
        return operator.compute(node.target, arguments, {**streams, **constants})

    def _value(self, item: Node, values: dict[Node, Tensor]) -> Tensor:
        if item.op != "get_attr":
            return values[item]
        return get_tensor(self.graph_model, item.target)


def _is_unformatted(node: Node) -> bool:
    """Return whether a node computes what torch computes, since nothing of it has a format."""
    known = common(node)
    return all(spec.format is None for spec in (*known.operands.values(), *known.results.values()))


def _tensor_of(number: float, beside: Sequence[Tensor]) -> Tensor:
    """Return a Python number in the dtype that torch computes in, given the tensors beside it."""
    floats = [item for item in beside if item.is_floating_point()]
    dtype = torch.result_type((floats or list(beside))[0], number) if beside else None
    return torch.tensor(number, dtype=dtype)
