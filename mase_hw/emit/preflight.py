"""Everything that stands between a graph and hardware, named at once."""

from __future__ import annotations

import operator
from dataclasses import dataclass

from torch.fx import Node

from mase_hw.errors import UnsupportedError
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.metadata import location, metadata
from mase_hw.ops import operator_for


@dataclass(frozen=True)
class Problem:
    """One reason why a node has no hardware.

    Attributes:
        node: name in the graph.
        module_path: torch module.
        source: the user's source line; the torch module where that is not known.
        reason: what is wrong, and the fix.
    """

    node: str
    module_path: str
    source: str
    reason: str

    def __str__(self) -> str:
        """Return one line."""
        return f"{self.node} ({self.source}): {self.reason}"


def preflight(mg: MaseGraph) -> list[Problem]:
    """Return every problem of a quantised graph, in graph order; empty when there is none."""
    found = []
    for node in mg.nodes:
        found += [
            Problem(node.name, metadata(node).module_path, location(node), reason)
            for reason in _reasons(mg, node)
        ]
    return found


def check(mg: MaseGraph) -> None:
    """Raise one error that lists every problem.

    Raises:
        UnsupportedError: when there is any.
    """
    problems = preflight(mg)
    if problems:
        lines = "\n".join(f"  {problem}" for problem in problems)
        plural = "s" if len(problems) > 1 else ""
        raise UnsupportedError(f"{mg.name} has {len(problems)} problem{plural}:\n{lines}")


def _reasons(mg: MaseGraph, node: Node) -> list[str]:
    if node.op == "call_function":
        if node.target is operator.getitem:
            # What has several results is named itself.
            return []
        if operator_for(node.target) is None:
            return [
                f"{node.target} has no hardware; write it with what `mase-hw operators` lists, or "
                "add an operator (README)"
            ]
        try:
            call = mg.call(node)
        except UnsupportedError as error:
            return [str(error)]
        return call.operator.problems(call)
    if node.op == "placeholder" and not node.users:
        return ["this input is not used; remove it from the model"]
    return _unfit_outputs(mg) if node.op == "output" else []


def _unfit_outputs(mg: MaseGraph) -> list[str]:
    """Return why what the model returns cannot be ports; None is left out of them."""
    found = []
    for name, leaf in mg.returned():
        if isinstance(leaf, Node) and leaf.op == "get_attr":
            found.append(
                f"result {name} is a constant ({leaf.target}): return only what depends on an input"
            )
        elif leaf is not None and not isinstance(leaf, Node):
            found.append(
                f"result {name} is the {type(leaf).__name__} {leaf!r}: return tensors only"
            )
    if not found and not mg.outputs:
        found.append("the model returns no tensor; return what it computes")
    return found
