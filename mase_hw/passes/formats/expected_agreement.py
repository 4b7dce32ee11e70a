"""Expected quantisation noise of the formats, and nodes that lose more."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import torch
from torch.fx import Node

from mase_hw.errors import FormatError
from mase_hw.formats import Format
from mase_hw.graph.agreement import ModelAgreement
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.nodes import casts, common, consumers, keeps_format, metadata, operator_at
from mase_hw.graph.rebuild import reached

# Decibels that a model may lose beyond the sum of its roundings. See `mase_hw/formats/README.md`.
MARGIN_DB = 15.0
# Decibels of one bit.
BIT_DB = 20 * math.log10(2)
_SAMPLE = 64, 64
_LAYOUT = {"channel_axis": None, "axis": -1}
_EXACT_DB = 300.0


@dataclass(frozen=True)
class Loss:
    """Outputs that are farther from the float model than their formats explain.

    Attributes:
        outputs: their names.
        expected_db: what the formats on the way to the first of them explain.
        node: where the loss arises: of the nodes on the way that lost too much, the one with the
            largest drop from its operands to its result.
        drop_db: ratios of its operands, the least, and of its result; None where the tensor as a
            whole keeps what formats explain, and a channel does not.
    """

    outputs: Sequence[str]
    expected_db: float
    node: Node
    drop_db: tuple[float, float] | None = None


def losses(mg: MaseGraph) -> list[Loss]:
    """Losses that the formats of a graph do not explain, by the node where they arise.

    Args:
        mg: a graph whose agreement with the float model was measured.
    """
    ways = _Ways(mg)
    names: dict[Node, list[str]] = {}
    explained: dict[Node, float] = {}
    for name, output in zip(mg.output_names, mg.outputs, strict=True):
        region = ways.lossy_before(output)
        if region:
            node = max(region, key=ways.drop)
            names.setdefault(node, []).append(name)
            explained.setdefault(node, ways.expected[output])
    return [
        Loss(outputs, explained[node], node, (ways.operands_db(node), ratio(node) or -math.inf))
        for node, outputs in names.items()
    ]


def expected(mg: MaseGraph) -> Mapping[Node, float]:
    """Decibels of a tensor's power that the formats on the way to it explain, by node."""
    return _Ways(mg).expected


def harmful(mg: MaseGraph) -> list[Node]:
    """Return the nodes at which more is lost than formats explain, and seen behind them.

    Args:
        mg: a graph whose agreement with the float model was measured.
    """
    ways = _Ways(mg)
    return [
        node
        for node in mg.nodes
        if ways.is_lossy(node)
        and ways.drop(node) > BIT_DB
        and any(ways.is_lossy(user) or user.op == "output" for user in node.users)
    ]


def model_agreement(mg: MaseGraph) -> ModelAgreement | None:
    """Measured agreement of a whole graph; None where nothing was measured."""
    (output,) = (node for node in mg.nodes if node.op == "output")
    measured = metadata(output).agreement
    if measured is None or not measured.results:
        return None
    nodes = {
        node: replace(agreement, examples=0)
        for node in mg.nodes
        if node is not output and (agreement := metadata(node).agreement) is not None
    }
    hidden = unseen(mg)
    seen = {node: own for node in nodes if (own := ratio(node)) is not None and node not in hidden}
    worst = min(seen, key=lambda node: seen[node], default=None)
    if worst is not None and seen[worst] == math.inf:
        worst = None
    return ModelAgreement(
        measured.examples,
        measured.results,
        source_of(worst).name if worst else None,
        seen[worst] if worst else None,
        nodes={node.name: item for node, item in nodes.items()},
    )


def unseen(mg: MaseGraph) -> set[Node]:
    """Return the nodes whose loss no output shows, as that of a fill value before a softmax."""
    ways = _Ways(mg)
    seen = {item for node in mg.outputs for item in ways.lossy_before(node)}
    return {node for node in mg.nodes if ways.is_lossy(node) and node not in seen}


def ratio(node: Node) -> float | None:
    """Return the whole tensor's ratio of a node's result, decibels, where it was measured."""
    agreement = metadata(node).agreement
    return None if agreement is None or node.op == "output" else agreement.tensor_db


def precision_db(number_format: Format) -> float:
    """Return the signal over error of normally distributed numbers to which a format is fitted."""
    cls = type(number_format)
    fields = {key: getattr(number_format, key) for key in cls.field_names()}
    fields = {key: value for key, value in fields.items() if key not in cls.fitted}
    # Of the sample, which has no channels, and rows of a whole number of blocks.
    fields |= {key: value for key, value in _LAYOUT.items() if key in fields}
    return _precision_db(cls, tuple(fields.items()))


@cache
def _precision_db(cls: type[Format], fields: tuple[tuple[str, object], ...]) -> float:
    settings = dict(fields)
    sample = torch.randn(_SAMPLE, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    if not settings.get("signed", True):
        sample = sample.abs()
    try:
        fitted = cls.fit_values(sample, **settings).at_inference()
    except FormatError:
        # As wide as exact results are, and as nobody configures.
        return _EXACT_DB
    noise = float((sample - fitted.round_values(sample)).square().sum())
    return 10 * math.log10(float(sample.square().sum()) / noise) if noise else _EXACT_DB


class _Ways:
    """What leads to every node: roundings, as bits of a number, and what they explain.

    Attributes:
        expected: signal over error by node, decibels, where each rounding on the way to it adds
            its own noise once.
    """

    def __init__(self, mg: MaseGraph) -> None:
        self.expected: dict[Node, float] = {}
        self._lossy: set[Node] = set()
        before: dict[Node, int] = {}
        places: dict[float, int] = {}
        bit = 1
        for node in mg.nodes:
            roundings = 0
            for source in node.all_input_nodes:
                roundings |= before.get(source, 0)
            for precision in _precisions(node):
                places[precision] = places.get(precision, 0) | bit
                roundings |= bit
                bit <<= 1
            before[node] = roundings
            noise = sum(
                (roundings & mask).bit_count() * 10 ** (-precision / 10)
                for precision, mask in places.items()
            )
            explained = -10 * math.log10(noise) if noise else self._given_db(node)
            self.expected[node] = explained

            own = ratio(node)
            if own is not None:
                lossy = own < self.expected[node] - MARGIN_DB
            else:
                # What is not real is as wrong as what it comes from.
                lossy = any(map(self.is_lossy, producers(node)))
            if lossy:
                self._lossy.add(node)

    def _given_db(self, node: Node) -> float:
        """Decibels explained where nothing but inputs was rounded."""
        explained = [self.expected[item] for item in node.all_input_nodes if item in self.expected]
        return min([*explained, _own_db(node)])

    def is_lossy(self, node: Node) -> bool:
        """True for a node that lost more than its formats explain."""
        return node in self._lossy

    def lossy_before(self, node: Node) -> list[Node]:
        """Return the lossy nodes from which such alone lead to a node, itself among them."""
        if not self.is_lossy(node):
            return []
        lossy = reached(node, lambda item: filter(self.is_lossy, producers(item)))
        return [item for item in lossy if ratio(item) is not None]

    def operands_db(self, node: Node) -> float:
        """Return the least ratio of a node's operands; what is explained where there is none."""
        ratios = [before for item in producers(node) if (before := ratio(item)) is not None]
        return min([*ratios, self.expected[node]])

    def drop(self, node: Node) -> float:
        """Return by how much the ratio falls from operands to result."""
        own = ratio(node)
        return self.operands_db(node) - max(-_EXACT_DB, _EXACT_DB if own is None else own)


def _own_db(node: Node) -> float:
    tensors = metadata(node).common if node.op == "placeholder" else None
    number_format = tensors.results["data_out_0"].format if tensors else None
    return precision_db(number_format) if number_format else _EXACT_DB


def producers(node: Node) -> list[Node]:
    """Return the operands of a node without constants."""
    return [item for item in node.all_input_nodes if item.op != "get_attr"]


def _precisions(node: Node) -> Iterator[float]:
    """Yield what each rounding explains that a configuration asks for at a node."""
    if node.op != "call_function" or not rounds(node):
        return
    tensors = common(node)
    for spec in tensors.operands.values():
        if spec.format is not None and is_real(spec.dtype):
            yield precision_db(spec.format)
    result = tensors.results["data_out_0"]
    if result.format is None or not is_real(result.dtype):
        return
    # What others read is rounded there, unless it is made coarser than all of them ask for.
    own, read = precision_db(result.format), list(_read(node))
    if not read or own < min(read):
        yield own


def _read(node: Node) -> Iterable[float]:
    """Yield what roundings explain in which a result is read."""
    for user, name in consumers(node):
        number_format = common(user).operands[name].format
        if not rounds(user):
            yield from _read(user)
        elif number_format is not None:
            yield precision_db(number_format)


def formats_of(node: Node) -> dict[str, Format]:
    """Return the formats of a node's operands and results by name."""
    specs = metadata(node).common
    tensors = {**specs.operands, **specs.results} if specs else {}
    return {name: spec.format for name, spec in tensors.items() if spec.format is not None}


def rounds(node: Node) -> bool:
    """True for a node to which a configuration gives formats of its own."""
    operator = operator_at(node)
    return operator is not None and casts(node) and operator.role is None and not keeps_format(node)


def source_of(node: Node) -> Node:
    """Return the node of the model whose result an inserted node, as a cast, carries."""
    while (operator := operator_at(node)) is not None and operator.role is not None:
        node = producers(node)[0]
    return node


def is_real(dtype: str) -> bool:
    """True for a dtype of reals."""
    return dtype.removeprefix("torch.").startswith(("float", "bfloat"))
