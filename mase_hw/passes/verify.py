"""`verify_analysis_pass`: the two ends of every edge agree."""

from __future__ import annotations

from collections.abc import Iterator

from torch.fx import Node

from mase_hw.errors import MaseError
from mase_hw.graph import MaseGraph, common, metadata
from mase_hw.graph.nodes import returned, stream_spec, tensor_arguments
from mase_hw.graph.shapes import infer_specs
from mase_hw.ops import TensorSpec
from mase_hw.passes._pass import Result, graph_pass

_ASPECTS = ("shape", "dtype", "format", "parallelism")


@graph_pass
def verify_analysis_pass(mg: MaseGraph) -> Result:
    """Check the graph, its recorded shapes, and that every edge has one shape, format, parallelism.

    Args:
        mg: the graph, with common metadata.

    Returns:
        The graph, and `{"edges": number of edges checked}`.

    Raises:
        MaseError: listing every disagreement with both ends.
    """
    mg.fx_graph.lint()
    found = list(_stale(mg))
    edges = 0
    for node in mg.nodes:
        for operand, producer, given, taken in _edges(node):
            edges += 1
            for aspect in _ASPECTS:
                left, right = getattr(given, aspect), getattr(taken, aspect)
                if left != right:
                    found.append(
                        f"{aspect} of {producer.name} ({metadata(producer).source}) is {left}, "
                        f"but {node.name}.{operand} ({metadata(node).source}) takes {right}"
                    )
    if found:
        raise MaseError(f"{mg.name} does not hold together:\n" + "\n".join(found))
    return mg, {"edges": edges}


def _edges(node: Node) -> Iterator[tuple[str, Node, TensorSpec, TensorSpec]]:
    """Yield (operand, producer, what it gives, what the node takes) of every streaming operand."""
    known = common(node)
    if node.op == "output":
        leaves = [leaf for _, leaf in returned(node) if isinstance(leaf, Node)]
        pairs = [(f"data_in_{index}", producer) for index, producer in enumerate(leaves)]
    elif node.op == "call_function":
        named = tensor_arguments(node)
        pairs = [(name, value) for name, value in named if isinstance(value, Node)]
    else:
        pairs = []
    for name, producer in pairs:
        if producer.op != "get_attr" and name in known.operands:
            yield name, producer, stream_spec(node, producer), known.operands[name]


def _stale(mg: MaseGraph) -> Iterator[str]:
    for node, results in infer_specs(mg).items():
        for name, spec in results.items():
            noted = common(node).results.get(name)
            if noted is None or (noted.shape, noted.dtype) != (spec.shape, spec.dtype):
                recorded = f"{noted.dtype}{list(noted.shape)}" if noted else "not recorded"
                yield (
                    f"{node.name}.{name} ({metadata(node).source}) is "
                    f"{spec.dtype}{list(spec.shape)}, but its metadata says {recorded}"
                )
