"""`measure_agreement_analysis_pass`: agreement with the float model."""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence

import torch
from torch import Tensor
from torch.fx import Node

from mase_hw.errors import DataError
from mase_hw.formats import Format
from mase_hw.graph.agreement import Agreement, Sums
from mase_hw.graph.captured import batch_size
from mase_hw.graph.fills import as_given, rounds_itself
from mase_hw.graph.judgements import judgements
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.nodes import metadata, update
from mase_hw.graph.quantized import GraphRun
from mase_hw.passes._pass import Result, graph_pass
from mase_hw.passes.canonical.software_metadata import batch_inputs, batches_of

# Examples that are run at most, and at a time.
MAX_EXAMPLES = 512
CHUNK_EXAMPLES = 128


@graph_pass
def measure_agreement_analysis_pass(
    mg: MaseGraph, *, data: Iterable[object] | None = None
) -> Result:
    """Run a graph with its formats and without, side by side, and note how far they are apart.

    The float model is this graph with nothing rounded but what the model rounds itself, and fills
    as the user has them. Sums alone are kept, so that memory holds one part of a batch. A graph
    that keeps a state takes batches as inferences one after another.

    Args:
        mg: a graph with formats.
        data: batches as `add_software_metadata_analysis_pass` takes them, of which the first
            `MAX_EXAMPLES` examples are run; the example inputs when not given.

    Returns:
        The graph, with an `Agreement` at every node and, by output, at its output node; and
        `{"examples": number of examples}`.

    Raises:
        DataError: when there is no example.
    """
    pair = _Pair(mg)
    for inputs in parts_of(mg, [mg.example_inputs] if data is None else data):
        pair.run(inputs)
    if not pair.examples:
        raise DataError("there is no example to compare with the float model; give at least one")
    pair.note(mg)
    return mg, {"examples": pair.examples}


class FirstExamples:
    """Batches that are run over once, of which the first ones are kept.

    Args:
        mg: the graph that takes them.
        data: batches, a generator too.

    Attributes:
        batches: those with the first `MAX_EXAMPLES` examples, once they have been run over.
    """

    def __init__(self, mg: MaseGraph, data: object) -> None:
        self._mg, self._data = mg, batches_of(data)
        self.batches: list[object] = []

    def __iter__(self) -> Iterator[object]:
        left = MAX_EXAMPLES
        for batch in self._data:
            if left > 0:
                self.batches.append(batch)
                left -= examples_in(self._mg, batch_inputs(self._mg, batch))
            yield batch


def parts_of(mg: MaseGraph, data: Iterable[object]) -> Iterator[list[Tensor]]:
    """Yield the inputs of the first examples of batches, a few at a time."""
    left = MAX_EXAMPLES
    for batch in batches_of(data):
        inputs = batch_inputs(mg, batch)
        if not all(value.numel() for value in inputs):
            continue
        count = examples_in(mg, inputs)
        if not mg.batched or mg.keeps_state:
            yield inputs
            left -= count
        else:
            kept = min(count, left)
            yield from split_examples(inputs, count, kept)
            left -= kept
        if left <= 0:
            return


def split_examples(
    inputs: Sequence[Tensor], count: int, kept: int | None = None
) -> Iterator[list[Tensor]]:
    """Yield parts of a batch of `count` examples, of the first `kept` of them or of all."""
    kept = count if kept is None else kept
    for start in range(0, kept, CHUNK_EXAMPLES):
        part = slice(start, min(start + CHUNK_EXAMPLES, kept))
        yield [item[part] if item.dim() and len(item) == count else item for item in inputs]


def examples_in(mg: MaseGraph, inputs: Sequence[Tensor]) -> int:
    """Return how many examples a batch holds."""
    size = batch_size(inputs) if mg.batched else None
    return 1 if size is None else size


def is_measured(mg: MaseGraph) -> bool:
    """True for a measured graph whose parameters and formats have not changed since."""
    (output,) = (node for node in mg.nodes if node.op == "output")
    agreement = metadata(output).agreement
    return agreement is not None and agreement.checksum == checksum(mg)


def checksum(mg: MaseGraph) -> int:
    """Return a number that changes with parameters and formats."""
    crc = 0
    for node in mg.nodes:
        if node.op == "get_attr":
            # A copy: what torch.export loads may not be looked into where it lies.
            value = mg.constant(node).detach().cpu().contiguous().clone()
            crc = zlib.crc32(value.reshape(-1).view(torch.uint8).numpy().data, crc)
        tensors = metadata(node).common
        if tensors is not None:
            specs = {**tensors.operands, **tensors.results}
            formats = [str(item.format) for item in specs.values()]
            crc = zlib.crc32(" ".join(formats).encode(), crc)
    return crc


class _CountingRun(GraphRun):
    """A run that counts what formats clip: `[elements, clipped]` by node and tensor.

    Args:
        mg: the graph.
        own: names of nodes whose formats are the model's own, which clips where it is meant to.
    """

    def __init__(self, mg: MaseGraph, own: Collection[str]) -> None:
        super().__init__(mg)
        self._own = own
        self.counts: dict[str, dict[str, list[int]]] = defaultdict(
            lambda: defaultdict(lambda: [0, 0])
        )

    def _rounded(
        self, node: Node, name: str, number_format: Format | None, values: Tensor
    ) -> Tensor:
        counted = number_format is not None and node.name not in self._own
        if number_format is not None and counted and values.is_floating_point():
            count = self.counts[node.name][name]
            count[0] += values.numel()
            count[1] += number_format.clipped(values)
        return super()._rounded(node, name, number_format, values)


class _Pair:
    """Two runs of a graph in step, exact and rounded, and sums over their results."""

    def __init__(self, mg: MaseGraph) -> None:
        training = mg.training
        mg.eval()
        exact_mg = as_given(mg)
        own = rounds_itself(mg)
        self._exact, self._rounded = GraphRun(exact_mg, only=own), _CountingRun(mg, own)
        mg.train(training)
        self._mg = mg
        self._nodes = _computing(mg)
        self._own = dict(zip(self._nodes, _computing(exact_mg), strict=True))
        self._ends = _ends(self._nodes)
        self._sums: dict[str, Sums] = defaultdict(Sums)
        judged = judgements(mg)
        self._outputs = {name: Sums(judged.get(name)) for name in mg.output_names}
        self._names = [*zip(mg.output_names, mg.outputs, strict=True)]
        self.examples = 0

    def run(self, inputs: Sequence[Tensor]) -> None:
        """Add one part of a batch."""
        self.examples += examples_in(self._mg, inputs)
        values, exact, rounded = iter(inputs), dict[Node, Tensor](), dict[Node, Tensor]()
        with torch.no_grad():
            for node in self._nodes:
                value = next(values) if node.op == "placeholder" else None
                own = self._own[node]
                exact[own] = self._exact.step(own, exact, value)
                rounded[node] = self._rounded.step(node, rounded, value)
                if isinstance(exact[own], Tensor):
                    self._sums[node.name].add(exact[own], rounded[node])
                    for name in (name for name, output in self._names if output is node):
                        self._outputs[name].add(exact[own], rounded[node])
                for dead in self._ends[node]:
                    del exact[self._own[dead]], rounded[dead]

    def note(self, mg: MaseGraph) -> None:
        """Keep what was measured in the metadata of a graph."""
        results = {name: sums.closeness() for name, sums in self._sums.items()}
        for node in self._nodes:
            measured = {"data_out_0": results[node.name]} if node.name in results else {}
            counts = self._rounded.counts[node.name].items()
            shares = {name: clipped / count for name, (count, clipped) in counts if clipped}
            update(node, agreement=Agreement(measured, shares, self.examples))
        (output,) = (node for node in mg.nodes if node.op == "output")
        outputs = {
            name: self._outputs[name].closeness()
            for name, node in self._names
            if node.name in results
        }
        update(output, agreement=Agreement(outputs, {}, self.examples, checksum(mg)))


def _computing(mg: MaseGraph) -> list[Node]:
    return [node for node in mg.nodes if node.op not in ("get_attr", "output")]


def _ends(nodes: Sequence[Node]) -> dict[Node, list[Node]]:
    place = {node: number for number, node in enumerate(nodes)}
    ends: dict[Node, list[Node]] = {node: [] for node in nodes}
    for node in nodes:
        last = max((place.get(user, -1) for user in node.users), default=-1)
        ends[nodes[max(last, place[node])]].append(node)
    return ends
