"""The integer reference of a whole graph: codes in, codes of every asked node out."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.fx import Node

from mase_hw.errors import MaseError, UnsupportedError
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.nodes import common, location, stream_operands
from mase_hw.ops import Call, Reference, Stateful, TensorSpec

# Elements of the widest tensor that one pass over the graph handles: small enough for a cache.
CHUNK_ELEMENTS = 1 << 16


class IntegerReference:
    """The specification of a quantised graph, in vectorised integers.

    Constants are encoded once, here; calls are cheap and take any number of inferences. What an
    operator keeps between inferences is empty at the beginning of every call, as after reset.

    Args:
        mg: a quantised graph with common metadata on every node.
        kept: false to encode the constants of one node at a time, in every call: a large model then
            takes the memory of its largest node.

    Raises:
        UnsupportedError: when a node has no operator or no number format.
    """

    def __init__(self, mg: MaseGraph, *, kept: bool = True) -> None:
        self.inputs = mg.inputs
        self.outputs = output_nodes(mg)
        # An input that all inferences share in torch is one of each inference here.
        self._batched = mg.batched and all(spec(node).shape[:1] == (1,) for node in mg.inputs)
        nodes = [node for node in mg.nodes if node.op == "call_function"]
        sizes = [spec(node).elements for node in (*self.inputs, *nodes)]
        self._chunk = max(1, CHUNK_ELEMENTS // max(sizes)) if self._batched else 1
        size = self._chunk if self._batched else sys.maxsize
        self._steps = [self._step(mg, node, None if kept else size) for node in nodes]
        if self._batched and not kept:
            # One node takes all inferences, before the next one is made.
            self._chunk = sys.maxsize

    @staticmethod
    def _step(
        mg: MaseGraph, node: Node, once: int | None
    ) -> tuple[Node, list[Node], Callable[..., Tensor]]:
        call = mg.call(node)
        problems = call.operator.problems(call)
        if problems:
            raise UnsupportedError(f"{node.name} at {location(node)}: {problems[0]}")
        producers = [producer for _, producer in stream_operands(node)]
        operator = call.operator
        if isinstance(operator, Stateful):
            return node, producers, _WithState(call, operator, operator.reference(call))
        return node, producers, _Once(call, once) if once else operator.reference(call)

    def __call__(self, inputs: Sequence[Tensor], probes: Sequence[str] = ()) -> dict[str, Tensor]:
        """Return codes by node name: those of the outputs and of `probes`.

        Args:
            inputs: for each graph input, int64 codes `[inferences, *shape of one inference]`.
            probes: names of further nodes.
        """
        wanted = {*(node.name for node in self.outputs), *probes}
        count = len(inputs[0])
        for _, _, compute in self._steps:
            if isinstance(compute, _WithState):
                compute.reset()
        parts = [
            self._run([codes[start : start + self._chunk] for codes in inputs], wanted)
            for start in range(0, count, self._chunk)
        ]
        return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}

    def _run(self, inputs: Sequence[Tensor], wanted: set[str]) -> dict[str, Tensor]:
        values: dict[Node, Tensor] = {}
        for node, codes in zip(self.inputs, inputs, strict=True):
            # One inference's leading dimension of 1 becomes the batch.
            shape = spec(node).shape
            values[node] = codes.reshape(-1, *shape[1:]) if self._batched else codes.reshape(shape)
        known = {node.name for node in (*self.inputs, *(node for node, _, _ in self._steps))}
        missing = wanted - known
        if missing:
            raise MaseError(f"no node is called {sorted(missing)[0]!r}")
        last = {item: node for node, producers, _ in self._steps for item in producers}
        for node, producers, compute in self._steps:
            values[node] = compute(*(values[producer] for producer in producers))
            # What nobody reads any more gives its memory back.
            for item in {*producers, node}:
                if last.get(item, node) is node and item.name not in wanted:
                    values.pop(item, None)
        return {
            node.name: codes.long().reshape(-1, *spec(node).shape)
            for node, codes in values.items()
            if node.name in wanted
        }


class _Once:
    """The reference of one call, which is made when it is called and then forgotten.

    Its results take the least bytes that hold them.

    Args:
        call: the call.
        size: inferences at a time.
    """

    def __init__(self, call: Call, size: int) -> None:
        self._call, self._size = call, size

    def __call__(self, *codes: Tensor) -> Tensor:
        compute = self._call.operator.reference(self._call)
        # A tensor in which inferences and something else are one dimension is not cut.
        specs = (*self._call.streams.values(), self._call.result)
        if any(item.shape[:1] != (1,) for item in specs):
            return _packed(compute(*(item.long() for item in codes)))
        parts = zip(*(torch.split(item, max(1, self._size)) for item in codes), strict=True)
        return torch.cat([_packed(compute(*(item.long() for item in part))) for part in parts])


def _packed(codes: Tensor) -> Tensor:
    low, high = (int(bound) for bound in torch.aminmax(codes)) if codes.numel() else (0, 0)
    for dtype in (torch.int8, torch.int16, torch.int32):
        held = torch.iinfo(dtype)
        if held.min <= low and high <= held.max:
            return codes.to(dtype)
    return codes


class _WithState:
    """The reference of an operator that keeps a state, with the state."""

    def __init__(self, call: Call, operator: Stateful, compute: Reference) -> None:
        self._call, self._operator, self._compute = call, operator, compute
        self.reset()

    def reset(self) -> None:
        self._state: Tensor | None = None

    def __call__(self, first: Tensor, *others: Tensor) -> Tensor:
        """Return the codes of one inference's result."""
        given = [item.long() for item in (first, *others)]
        if self._state is None:
            self._state = self._operator.empty(self._call.attributes, given[0])
        return self._compute(*given, self._state)


def spec(node: Node) -> TensorSpec:
    """Return the first result of a node."""
    return common(node).results["data_out_0"]


def output_nodes(mg: MaseGraph) -> list[Node]:
    """Return the nodes whose results leave the graph, in order, from wherever they are nested."""
    return mg.outputs
