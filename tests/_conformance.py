"""Designs of many operators side by side, each example in a number format that it claims.

Nothing here names an operator or a format: both come from their registries, and a configuration
is written from the names of a format's fields.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from itertools import islice, product
from typing import Any

from torch import Tensor, nn
from torch.fx import Node

from mase_hw.emit.flow import canonicalize, quantize, with_ranges
from mase_hw.emit.preflight import preflight
from mase_hw.errors import FormatError, UnsupportedError
from mase_hw.formats import DEFAULT_FORMAT, Format, family_of, formats
from mase_hw.graph import MaseGraph, common, metadata, trace
from mase_hw.graph.reference import output_nodes
from mase_hw.ops import Operator, Removable, Stateful, carried, operators
from mase_hw.passes.canonical.common_metadata import (
    add_common_metadata_analysis_pass,
    init_metadata_analysis_pass,
)
from mase_hw.passes.formats.keep import keep_formats_transform_pass
from mase_hw.passes.formats.quantize import quantize_transform_pass
from mase_hw.passes.formats.whole_numbers import whole_formats
from mase_hw.timing.back_pressure import Network
from mase_hw.timing.prediction import predict

Entry = Mapping[str, Any]

# Inferences that an example has at least.
BATCH = 2
OPERANDS = ("data_in", "weight", "bias")
FIXED: Entry = {"name": DEFAULT_FORMAT, **{f"{operand}_width": 8 for operand in OPERANDS}}
FIXED_BIAS: Entry = {"bias_name": DEFAULT_FORMAT, "bias_width": 8}
FIXED_RESULT: Entry = {"data_out_name": DEFAULT_FORMAT, "data_out_width": 8}
# What a format may be asked for where its defaults are refused; blocks are such that a parallelism
# of 3 divides them, and no size of the examples is a multiple of them.
BLOCK: Entry = {"block_size": 6}
CHOICES: tuple[Entry, ...] = (
    {}, {"width": 6}, {"width": 4}, {"scale": 0.5}, {"exponent_bias_width": 4},
    {"exponent_width": 4},
)  # fmt: skip
# Everything in the format, the operands alone, the result alone.
ARRANGEMENTS = 3


class SideBySide(nn.Module):
    """Runs each module on its own inputs."""

    def __init__(self, modules: Sequence[nn.Module], counts: Sequence[int]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(modules)
        self.counts = counts

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        results, position = [], 0
        for part, count in zip(self.parts, self.counts, strict=True):
            results.append(part(*inputs[position : position + count]))
            position += count
        return tuple(results)


@dataclass(frozen=True)
class Example:
    """One example of an operator."""

    operator: str
    number: int

    def __str__(self) -> str:
        return f"{self.operator} {self.number}"

    @property
    def module(self) -> nn.Module:
        """The module."""
        return _examples(self.operator)[self.number][0]

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """Its inputs."""
        return tuple(value[:BATCH] for value in _examples(self.operator)[self.number][1])


@dataclass(frozen=True)
class Part:
    """An example in number formats."""

    example: Example
    entry: Entry

    @property
    def quantized(self) -> MaseGraph:
        """Its graph alone."""
        return quantize(graph_of(self.example), {"default": {"config": self.entry}})

    def uses(self, name: str) -> bool:
        return any(
            spec.format is not None and spec.format.name == name
            for node in _nodes(self.quantized, self.example.operator)
            for spec in (*common(node).operands.values(), *common(node).results.values())
        )

    @property
    def ports(self) -> tuple[int, int]:
        """The number of its inputs and outputs."""
        graph = graph_of(self.example)
        return len(graph.inputs), len(output_nodes(graph))


@cache
def _examples(operator: str) -> list[tuple[nn.Module, tuple[Tensor, ...]]]:
    return operators()[operator].examples()


@cache
def traced(example: Example) -> MaseGraph:
    return trace(example.module.eval(), example.inputs, name="example")


@cache
def graph_of(example: Example) -> MaseGraph:
    return canonicalize(traced(example))


@cache
def is_wire(example: Example) -> bool:
    mg, _ = init_metadata_analysis_pass(traced(example), {})
    mg, _ = add_common_metadata_analysis_pass(mg, {})
    calls = [mg.call(node) for node in _nodes(mg, example.operator)]
    return bool(calls) and all(
        isinstance(call.operator, Removable) and call.operator.is_identity(call) for call in calls
    )


def number_formats() -> list[str]:
    return sorted(name for name, cls in formats().items() if family_of(cls) is not None)


def claims(name: str | None = None) -> list[Example]:
    """Return every example of the operators that claim a format, or of all.

    What keeps a state has no batch of inferences: `test_states.py` runs its examples.
    """
    return [
        Example(operator.name, number)
        for operator in operators().values()
        if (name is None or name in (*operator.formats, *carried(operator)))
        and not isinstance(operator, Stateful)
        for number in range(len(_examples(operator.name)))
    ]


def part_of(example: Example, name: str, turn: int) -> Part | list[str]:
    """Return an example in a format that its operator claims, or every reason against it."""
    reasons = []
    for entry in _entries(formats()[name], turn):
        part = Part(example, entry)
        try:
            quantized = part.quantized
        except UnsupportedError as error:
            reasons.append(str(error))
            continue
        found = [problem.reason for problem in preflight(quantized)]
        reasons += found
        # Other operators may stand for it, or nothing.
        nodes = _nodes(quantized, example.operator)
        if not found and (part.uses(name) or not nodes):
            return part
        if set(nodes) & whole_formats(quantized).keys():
            reasons.append("it computes with whole numbers")
    return list(dict.fromkeys(reasons))


def _nodes(mg: MaseGraph, operator: str) -> list[Node]:
    return [
        node
        for node in mg.nodes
        if node.op == "call_function" and common(node).operator == operator
    ]


def _entries(cls: type[Format], turn: int) -> Iterator[Entry]:
    if cls.name == DEFAULT_FORMAT:
        yield FIXED
        return
    known = cls.field_names()
    always = {key: value for key, value in BLOCK.items() if key in known}
    choices = [
        {**always, **choice}
        for choice in CHOICES
        if set(choice) <= set(known) and _is_legal(cls, {**always, **choice})
    ]
    for step in range(ARRANGEMENTS):
        arrangement = (turn + step) % ARRANGEMENTS
        for fields, own_bias in product(choices, (True, False)):
            if arrangement == 2:
                if own_bias:
                    yield {**FIXED, "data_out_name": cls.name, **_keys("data_out", fields)}
                continue
            entry: dict[str, Any] = {"name": cls.name}
            for operand in OPERANDS[: 3 if own_bias else 2]:
                entry |= _keys(operand, fields)
            entry |= {} if own_bias else FIXED_BIAS
            yield entry | (FIXED_RESULT if arrangement else {})


def _is_legal(cls: type[Format], fields: Entry) -> bool:
    try:
        cls.fit(-1.0, 1.0, **fields)
    except FormatError:
        return False
    return True


def _keys(operand: str, fields: Entry) -> dict[str, Any]:
    return {f"{operand}_{key}": value for key, value in fields.items()}


def parts_in(name: str, turn: int) -> tuple[list[Part], dict[Example, list[str]]]:
    """Return the examples that have hardware in a format, and the reasons against the others."""
    parts, refused = [], {}
    for example in claims(name):
        found = part_of(example, name, turn)
        if isinstance(found, Part):
            parts.append(found)
        else:
            refused[example] = found
    return parts, refused


def is_absorbed(example: Example) -> bool:
    """Return whether an example becomes the formats of edges, as rounding by the model does."""
    left = keep_formats_transform_pass(graph_of(example))[0]
    nodes = [node for node in left.nodes if node.op == "call_function"]
    return example.operator not in {common(node).operator for node in nodes}


def vain_claims(name: str) -> list[str]:
    """Return the operators none of whose examples can have a format that they claim, and why.

    Identities leave the graph in any format, and so does what becomes a format itself.
    """
    served, reasons = set[str](), dict[str, dict[str, None]]()
    for example in claims(name):
        if example.operator not in served:
            found = part_of(example, name, 0)
            uses = isinstance(found, Part) and found.uses(name)
            if uses or is_wire(example) or is_absorbed(example):
                served.add(example.operator)
            known = reasons.setdefault(example.operator, {})
            known |= dict.fromkeys(found if isinstance(found, list) else ["it is rewritten"])
    return [
        f"{operator} claims {name}: {', '.join(known)}"
        for operator, known in reasons.items()
        if operator not in served
    ]


def further_formats(operator: Operator) -> list[str]:
    """Return the formats that an operator has beside fixed point, or through exact values alone."""
    return [name for name in (*operator.formats, *carried(operator)) if name != DEFAULT_FORMAT]


def sample(names: Collection[str], *, first: bool) -> list[Part]:
    """Return examples of operators in formats of their own choice, fixed point left out.

    Args:
        names: the operators.
        first: the first example of each that has hardware so; else the others, of operators that
            name such a format themselves.
    """
    parts = []
    for name in names:
        operator = operators()[name]
        order = sorted(further_formats(operator), key=lambda other: _draw(name, other))
        found: list[Part] = []
        for example in claims():
            if example.operator == name and not (first and found):
                shift = example.number % len(order)
                chances = (
                    part_of(example, other, example.number)
                    for other in (*order[shift:], *order[:shift])
                )
                found += islice((part for part in chances if isinstance(part, Part)), 1)
        if first:
            parts += found
        elif set(operator.formats) - {DEFAULT_FORMAT}:
            parts += found[1:]
    return parts


def _draw(operator: str, name: str) -> str:
    """Return a number that neither changes with time nor with what else is registered."""
    return sha256(f"{operator} in {name}".encode()).hexdigest()


@cache
def side_by_side(examples: tuple[Example, ...]) -> MaseGraph:
    model = SideBySide(
        [example.module for example in examples], [len(example.inputs) for example in examples]
    )
    inputs = tuple(value for example in examples for value in example.inputs)
    return canonicalize(trace(model.eval(), inputs, name="operators"))


def part_number(node: Node) -> int:
    return int(metadata(node).module_path.split(".")[1])


def rounded(graph: MaseGraph, config: Mapping[str, Any]) -> MaseGraph:
    """Return a captured graph in the formats of a configuration, of which none is widened."""
    return quantize_transform_pass(with_ranges(graph, config)[0], config)[0]


def design(parts: Sequence[Part], name: str = DEFAULT_FORMAT) -> MaseGraph:
    """Return parts as one quantised graph."""
    graph = side_by_side(tuple(part.example for part in parts))
    default = next(_entries(formats()[name], 0))
    config: dict[str, Any] = {"by": "name", "default": {"config": default}}
    # What a model rounds itself becomes formats, and is no node any more.
    left = {node.name for node in keep_formats_transform_pass(graph)[0].nodes}
    for node in graph.nodes:
        if node.op == "call_function" and node.name in left:
            config[node.name] = {"config": parts[part_number(node)].entry}
    return rounded(graph, config)


def cycles_of_parts(mg: MaseGraph, parts: Sequence[Part]) -> list[tuple[int, range]]:
    """Return the latency and the interval predicted for each part of a design.

    Queues lie where the design's own interval asks for them, so that a part may have others alone:
    one that forks may take up to that interval.
    """
    prediction = predict(mg)
    work = prediction.work_cycles
    calls = [node for node in mg.nodes if node.op == "call_function"]
    network = Network(mg, {node: mg.netlist(node) for node in calls})
    network.run({})
    inputs, outputs = iter(mg.inputs), iter(output_nodes(mg))
    found = []
    for part in parts:
        sources, results = part.ports
        first = min(max(0, int(network.departed(node)[0])) for node in islice(inputs, sources))
        ends = list(islice(outputs, results))
        last = max(int(network.offered(node)[-1]) for node in ends)
        origins = _origins(ends)
        least = max(work.get(node.name, 0) for node in origins)
        forks = any(len(node.users) > 1 for node in origins if node.op != "get_attr")
        most = prediction.interval_cycles if forks else least
        found.append((last - first, range(least, most + 1)))
    return found


def _origins(nodes: Sequence[Node]) -> set[Node]:
    found, left = set[Node](), list(nodes)
    while left:
        node = left.pop()
        if node not in found:
            found.add(node)
            left += node.all_input_nodes
    return found
