"""Values of every node: one run of the graph that a visitor looks at."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.fx import GraphModule, Interpreter, Node

from mase_hw.errors import MaseError
from mase_hw.graph.captured import CapturedGraph
from mase_hw.graph.nodes import aten_arguments, metadata, spec_of, tensor_arguments
from mase_hw.ops import STATE, Operator, Stateful, TensorSpec, operator_for


class _Visitor(Interpreter):
    """Runs a graph and shows every node's value; errors name the node and the user's line."""

    def __init__(
        self, module: GraphModule, visit: Callable[[Node, object], None], states: dict[str, Tensor]
    ) -> None:
        super().__init__(module)
        self.extra_traceback = False
        self._visit = visit
        self._states = states

    def run_node(self, n: Node) -> object:
        operator = operator_for(n.target) if n.op == "call_function" else None
        try:
            if isinstance(operator, Stateful):
                value = self._step(n, operator, operator)
            else:
                value = super().run_node(n)
        except Exception as error:
            raise MaseError(
                f"node {n.name} ({n.target}) does not run: {str(error).splitlines()[0]} "
                f"(at {metadata(n).source})"
            ) from error
        self._visit(n, value)
        return value

    def _step(self, node: Node, operator: Operator, state: Stateful) -> Tensor:
        arguments, operands = aten_arguments(node), dict[str, Tensor]()
        for name, item in tensor_arguments(node):
            assert isinstance(item, Node)
            operands[name] = self.env[item]
        if node.name not in self._states:
            self._states[node.name] = state.empty(arguments, operands["data_in_0"])
        operands[STATE] = self._states[node.name]
        return operator.compute(node.target, arguments, operands)


def run_with(
    mg: CapturedGraph,
    inputs: Sequence[Tensor],
    visit: Callable[[Node, object], None],
    states: dict[str, Tensor] | None = None,
) -> object:
    """Run the float model on `inputs` without gradients and show `visit` every node's value.

    Args:
        mg: the graph.
        inputs: in the order of its inputs.
        visit: takes a node and its value.
        states: what nodes keep between inferences, by name, which is changed; empty without.

    Raises:
        MaseError: when a node does not run; the message names it.
    """
    with torch.no_grad():
        return _Visitor(mg.model, visit, {} if states is None else states).run(*inputs)


def infer_specs(mg: CapturedGraph) -> dict[Node, dict[str, TensorSpec]]:
    """Return shape and dtype of every node's results for one inference, by result name."""
    specs: dict[Node, dict[str, TensorSpec]] = {}

    def visit(node: Node, value: object) -> None:
        values = value if isinstance(value, list | tuple) else [value]
        if node.op != "output":
            specs[node] = {
                f"data_out_{index}": spec_of(item)
                for index, item in enumerate(values)
                if isinstance(item, Tensor)
            }

    run_with(mg, mg.one_inference(), visit)
    return specs
