"""Configuration keys that mend a loss: each is tried on the examples before it is proposed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.fx import Node
from torch.utils._pytree import tree_leaves

from mase_hw._kinds import Record, Table
from mase_hw.emit.flow import trial_of
from mase_hw.emit.preflight import preflight
from mase_hw.errors import MaseError
from mase_hw.formats import Format
from mase_hw.graph.agreement import Closeness, closeness
from mase_hw.graph.fills import float_run, rounds_itself
from mase_hw.graph.judgements import judgements
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.metadata import ValueRange, common, metadata
from mase_hw.graph.quantized import GraphRun
from mase_hw.graph.streams import consumers, stream_operands
from mase_hw.ops import Numeric, operator_for
from mase_hw.passes.formats.agreement import parts_of
from mase_hw.passes.formats.expected_agreement import model_agreement, precision_db
from mase_hw.passes.formats.widen import own_name

MAX_OCTAVES, MAX_BITS = 64, 16
# What a proposed key gains at least.
GAIN_DB = 3.0
# Keys that are tried for one node.
MOST_TRIED = 3

Keys = Mapping[str, Table]


@dataclass(frozen=True)
class Proposal:
    """Keys that were tried.

    Attributes:
        keys: by node.
        outputs: the outputs' agreement with them, by name.
    """

    keys: Keys
    outputs: Mapping[str, Closeness]


class Adviser:
    """Tries formats for a quantised graph.

    Args:
        mg: what `quantize` returned. Of a graph whose weights have changed since, or that was read
            from a file, nothing can be tried, and nothing is proposed.
    """

    def __init__(self, mg: MaseGraph) -> None:
        self._mg, self._trial = mg, trial_of(mg)

    def mended(self, node: Node, names: Sequence[str], bits: int) -> str:
        """Return the keys that gain most for some outputs, or where those lose without any.

        Args:
            node: where they seem to lose.
            names: of the outputs.
            bits: how many seem to be missing.
        """
        if self._trial is None:
            return ""
        place, figures = self._lost_at(names)
        for item in dict.fromkeys((node, place)):
            found = self._best(item, names, min(max(bits, 1), MAX_BITS))
            if found is not None:
                after = _worst(found.outputs, names)
                return f"{_words(found.keys)}: {_worst(self._outputs, names)} -> {after}"
        before, after = (str(Closeness(ratio, ratio)) for ratio in figures)
        return (
            f"no wider format of one node mends it; rounding up to {own_name(self._mg, place)} "
            f"takes it from {before} to {after}"
        )

    def widths(self, least_db: float) -> tuple[int, Closeness] | None:
        """Return the least width of everything by default that keeps so much, as tried."""
        if self._trial is None:
            return None
        known = _figure(self._outputs, [*self._outputs])
        if not math.isfinite(known):
            known = 0.0
        first = 8 + max(1, math.ceil((least_db - known) / _BIT_DB))
        for width in (first, first + 1, first + 3):
            fields = dict.fromkeys(("data_in_width", "weight_width", "bias_width"), width)
            entry = {"name": "fixed", **fields}
            found = self._try({"default": {"config": entry}})
            if found is not None and _figure(found, [*found]) >= least_db:
                return width, _worst(found, [*found])
        return None

    @property
    def _outputs(self) -> Mapping[str, Closeness]:
        found = model_agreement(self._mg)
        return found.outputs if found else {}

    def _best(self, node: Node, names: Sequence[str], bits: int) -> Proposal | None:
        assert self._trial is not None
        before, tried = _figure(self._outputs, names), list[Proposal]()
        for keys in [*self._candidates(node, bits)][:MOST_TRIED]:
            found = self._try(self._trial.with_keys(keys))
            if found is not None and _figure(found, names) >= before + GAIN_DB:
                tried.append(Proposal(keys, found))
        return max(tried, key=lambda item: _figure(item.outputs, names), default=None)

    def _try(self, config: Mapping[str, object]) -> Mapping[str, Closeness] | None:
        """Return the outputs in a configuration; None where it has no hardware."""
        assert self._trial is not None
        try:
            mg = self._trial.run(config)
            refused = bool(preflight(mg))
        except MaseError:
            return None
        found = model_agreement(mg)
        return None if refused or found is None else found.outputs

    def _candidates(self, node: Node, bits: int) -> Iterator[Keys]:
        """Yield keys: a range that holds, a smaller step, more bits for the result, and for all."""
        assert self._trial is not None
        formats = _formats_of(node)
        known = metadata(node).agreement
        clipped = known.saturated if known else {}
        for name in sorted(clipped, key=lambda item: -clipped[item])[:1]:
            yield from self._for_owner(node, name, _held(node, name, formats[name]))
        if not clipped and formats:
            order = {item: (precision_db(formats[item]), -_largest(node, item)) for item in formats}
            name = min(formats, key=lambda item: order[item])
            yield from self._for_owner(node, name, _refitted(node, name, formats[name]))
        owner, word = _owner(node, "data_out_0")
        if any(user.op == "output" for user in node.users):
            yield from self._wider(owner, [word], bits)
        operands = common(owner).operands if owner.op == "call_function" else {}
        words = {"data_in" if name.startswith("data_in") else name for name in operands}
        yield from self._wider(owner, [*sorted(words), "data_out"], bits)

    def _for_owner(self, node: Node, name: str, fields: Table) -> Iterator[Keys]:
        owner, word = _owner(node, name)
        if fields and self._is_configurable(owner):
            yield {owner.name: {f"{word}_{key}": value for key, value in fields.items()}}

    def _wider(self, node: Node, words: Sequence[str], bits: int) -> Iterator[Keys]:
        assert self._trial is not None
        if not self._is_configurable(node):
            return
        entry = self._trial.with_keys({node.name: {}})[node.name]["config"]
        fields: Record = {}
        for word in words:
            own = _width(node, word)
            if own is not None:
                fields[f"{word}_width"] = own + bits
                fraction = entry.get(f"{word}_frac_width")
                if isinstance(fraction, int):
                    fields[f"{word}_frac_width"] = fraction + bits
        if fields:
            yield {node.name: fields}

    def _is_configurable(self, node: Node) -> bool:
        assert self._trial is not None
        return _has_entry(node) and any(node.name == item.name for item in self._trial.graph.nodes)

    def _lost_at(self, names: Sequence[str]) -> tuple[Node, tuple[float, float]]:
        """Return the node up to which rounding loses what all of it does, by bisection.

        With it the figures of the outputs without its rounding and with it.
        """
        assert self._trial is not None
        mg = self._mg
        inputs = next(parts_of(mg, self._trial.batches))
        known, own = judgements(mg), set(rounds_itself(mg))
        nodes = [node for node in mg.nodes if node.op != "get_attr" and _formats_of(node)]
        places = [place for place, name in enumerate(mg.output_names) if name in names]

        def outputs(run: GraphRun) -> list[Tensor]:
            with torch.no_grad():
                leaves = tree_leaves(run(inputs))
            return [item for item in leaves if isinstance(item, Tensor)]

        exact = outputs(float_run(mg))

        def figure(count: int) -> float:
            only = own | {node.name for node in nodes[:count]}
            rounded = outputs(GraphRun(mg, only=only))
            found = {
                mg.output_names[place]: closeness(
                    exact[place], rounded[place], known.get(mg.output_names[place])
                )
                for place in places
            }
            return _figure(found, names)

        low, high = 0, len(nodes)
        last = figure(high)
        while low + 1 < high:
            middle = (low + high) // 2
            low, high = (low, middle) if figure(middle) <= last + GAIN_DB else (middle, high)
        return nodes[high - 1], (figure(high - 1), figure(high))


_BIT_DB = 20 * math.log10(2)


def _figure(outputs: Mapping[str, Closeness], names: Sequence[str]) -> float:
    """Return the least figure of some outputs: decibels, or of others the share that is equal."""
    known = [outputs[name] for name in names if name in outputs]
    return min(
        (100.0 * (item.equal or 0.0) if item.sqnr_db is None else item.sqnr_db for item in known),
        default=math.inf,
    )


def _worst(outputs: Mapping[str, Closeness], names: Sequence[str]) -> Closeness:
    known = [name for name in names if name in outputs]
    return outputs[min(known, key=lambda name: _figure(outputs, [name]))]


def fact(node: Node) -> str:
    """Return what a format of a node clips; empty where it clips nothing."""
    known = metadata(node).agreement
    clipped = dict(known.saturated) if known else {}
    if not clipped:
        return ""
    name = max(clipped, key=lambda item: clipped[item])
    seen = _range(node, name)
    between = f" (values from {seen.minimum:.3g} to {seen.maximum:.3g})" if seen else ""
    return f"{_formats_of(node)[name]} clips {100 * clipped[name]:.1f} % of {name}{between}"


def _formats_of(node: Node) -> dict[str, Format]:
    known = metadata(node).common
    tensors = {**known.operands, **known.results} if known else {}
    return {name: spec.format for name, spec in tensors.items() if spec.format is not None}


def _width(node: Node, word: str) -> int | None:
    formats = _formats_of(node)
    names = [name for name in formats if name.startswith(word)]
    width = getattr(formats[names[0]], "width", None) if names else None
    return width if isinstance(width, int) else None


def _range(node: Node, name: str) -> ValueRange | None:
    software = metadata(node).software
    if software is None and node.op == "call_function":
        # An inserted node, which carries what is made before it.
        return _range(node.all_input_nodes[0], "data_out_0")
    return software.ranges.get(name) if software else None


def _largest(node: Node, name: str) -> float:
    seen = _range(node, name)
    return max(abs(seen.minimum), abs(seen.maximum)) if seen else 0.0


def _refitted(node: Node, name: str, number_format: Format) -> Table:
    """Return the fields with which a format has smaller steps, and holds all values as it is now.

    Nothing where it is as fine as it can be.
    """
    ends, found = _ends(node, name), None
    if ends is None:
        return {}
    for octaves in range(1, MAX_OCTAVES):
        narrower = number_format.scaled(-octaves)
        if narrower is None or not bool(narrower.in_range(ends).all()):
            break
        found = narrower
    return _changed(number_format, found)


def _held(node: Node, name: str, number_format: Format) -> Table:
    """Return the fields with which a format holds the values that were seen of a tensor."""
    ends = _ends(node, name)
    if ends is None:
        return {}
    if getattr(number_format, "signed", None) is False and bool((ends < 0).any()):
        return {"signed": True}
    for octaves in range(1, MAX_OCTAVES):
        wider = number_format.scaled(octaves)
        if wider is not None and bool(wider.in_range(ends).all()):
            return _changed(number_format, wider)
    return {}


def _ends(node: Node, name: str) -> Tensor | None:
    """Return the least and the largest value that were seen of a tensor."""
    seen = _range(node, name)
    return torch.tensor([seen.minimum, seen.maximum], dtype=torch.float64) if seen else None


def _changed(before: Format, after: Format | None) -> Table:
    """Return the fields in which a format differs from another, and the width."""
    if after is None:
        return {}
    fields = {key: getattr(after, key) for key in after.field_names()}
    return {
        key: value
        for key, value in fields.items()
        if key == "width" or value != getattr(before, key)
    }


def _words(keys: Keys) -> str:
    """Return what to write for which nodes."""
    return "give " + " and ".join(
        f"{name} {', '.join(f'{key} = {_text(value)}' for key, value in fields.items())}"
        for name, fields in keys.items()
    )


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _owner(node: Node, name: str) -> tuple[Node, str]:
    """Return the node whose entry decides the format of a tensor, and its word for it."""
    if _has_entry(node):
        return node, "data_out" if name == "data_out_0" else name
    while _keeps(node):
        node = stream_operands(node)[0][1]
    if _has_entry(node):
        return node, "data_out"
    # An input or a cast has the format that is asked for behind it.
    found = _taker(node)
    if found is None and node.op == "call_function" and stream_operands(node):
        return _owner(stream_operands(node)[0][1], "data_out_0")
    return found or (node, "data_out")


def _taker(node: Node) -> tuple[Node, str] | None:
    """Return the first operand with an entry that takes a result."""
    for user, name in consumers(node):
        found = (user, name) if _has_entry(user) else _taker(user)
        if found is not None:
            return found
    return None


def _has_entry(node: Node) -> bool:
    operator = operator_for(node.target) if node.op == "call_function" else None
    return operator is not None and operator.role is None and not Numeric.of(operator).keeps_format


def _keeps(node: Node) -> bool:
    operator = operator_for(node.target) if node.op == "call_function" else None
    return Numeric.of(operator).keeps_format and bool(stream_operands(node))
