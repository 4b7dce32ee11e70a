"""Configuration keys that mend a loss: each is tried on the examples before it is proposed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor
from torch.fx import Node

from mase_hw._kinds import Record, Table
from mase_hw.emit.flow import trial_of
from mase_hw.emit.preflight import preflight
from mase_hw.errors import MaseError
from mase_hw.formats import Format
from mase_hw.graph.agreement import Closeness, closeness, decibels
from mase_hw.graph.fills import float_run, rounds_itself
from mase_hw.graph.judgements import judgements
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.metadata import ValueRange, common, metadata
from mase_hw.graph.quantized import GraphRun
from mase_hw.graph.streams import consumers, stream_operands
from mase_hw.ops import Numeric, operator_for
from mase_hw.passes.configuration import DEFAULT_ENTRY
from mase_hw.passes.formats.agreement import parts_of
from mase_hw.passes.formats.expected_agreement import (
    BIT_DB,
    model_agreement,
    precision_db,
    source_of,
)
from mase_hw.passes.formats.shared_formats import shares_format

MAX_OCTAVES, MAX_BITS = 64, 16
# An output that keeps so much is of full use.
KEPT_DB = 30.0
# What a proposed key gains at least: for an output that keeps less, and for others.
GAIN_DB, FULL_GAIN_DB = 3.0, 6.0
# Above an output's figure: what leaves so much is not where it is lost.
MOST_DB = 10.0
# Keys that are tried for one node.
MOST_TRIED = 5

Keys = Mapping[str, Table]
Owners = Sequence[tuple[Node, str]]


class Adviser:
    """Tries formats for a quantised graph.

    Args:
        mg: what `quantize` returned. Of a graph whose weights have changed since, or that was read
            from a file, nothing can be tried, and nothing is proposed.
    """

    def __init__(self, mg: MaseGraph) -> None:
        self._mg, self._trial = mg, trial_of(mg)

    def mended(self, node: Node, names: Sequence[str], bits: int) -> tuple[bool | None, str]:
        """Keys that gain most for some outputs, as text, else the node up to which they lose.

        Before the text stands whether keys gain; None where nothing was tried.

        Args:
            node: where they seem to lose.
            names: of the outputs.
            bits: how many seem to be missing.
        """
        if self._trial is None:
            return None, ""
        place, figures = self._lost_at(names)
        for item in dict.fromkeys((node, place)):
            found = self._best(item, names, min(max(bits, 1), MAX_BITS))
            if found is not None:
                keys, outputs = found
                before, after = _worst(self._outputs, names), _worst(outputs, names)
                return True, f"{_words(keys)}: {before} -> {after}"
        return False, (
            f"no wider format of one node mends it; rounding up to {source_of(place).name} "
            f"takes it from {decibels(figures[0])} to {decibels(figures[1])}"
        )

    def widths(self, least_db: float) -> tuple[int, Closeness] | None:
        """Return the least width of everything by default that keeps so much, as tried."""
        if self._trial is None:
            return None
        known = _figure(self._outputs, [*self._outputs])
        if not math.isfinite(known):
            known = 0.0
        first = 8 + max(1, math.ceil((least_db - known) / BIT_DB))
        for width in (first, first + 1, first + 3):
            widths = (key for key in DEFAULT_ENTRY if key.endswith("_width"))
            entry = {**DEFAULT_ENTRY, **dict.fromkeys(widths, width)}
            found = self._try({"default": {"config": entry}})
            if found is not None and _figure(found, [*found]) >= least_db:
                return width, _worst(found, [*found])
        return None

    @property
    def _outputs(self) -> Mapping[str, Closeness]:
        found = model_agreement(self._mg)
        return found.outputs if found else {}

    def _best(
        self, node: Node, names: Sequence[str], bits: int
    ) -> tuple[Keys, Mapping[str, Closeness]] | None:
        assert self._trial is not None
        before, tried = _figure(self._outputs, names), []
        least = before + (GAIN_DB if before < KEPT_DB else FULL_GAIN_DB)
        for keys in [*self._candidates(node, bits)][:MOST_TRIED]:
            found = self._try(self._trial.with_keys(keys))
            if found is not None and _figure(found, names) >= least:
                tried.append((keys, found))
        return max(tried, key=lambda item: _figure(item[1], names), default=None)

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
        """Yield keys: a range that holds, a smaller step, more bits, and more bits for all."""
        formats = _formats_of(node)
        known = metadata(node).agreement
        clipped = known.saturated if known else {}
        if formats:
            if clipped:
                name = max(clipped, key=lambda item: clipped[item])
                fields = _held(node, name, formats[name])
            else:
                name = min(formats, key=lambda item: _fineness(node, item))
                fields = _refitted(node, name)
            owners = sorted(_owners(node, name), key=lambda item: _fineness(*item))
            yield from self._keys(owners[:1], fields)
            yield from self._wider(owners[:1], bits)
            if len(owners) > 1:
                yield from self._keys(owners, fields)
        owner = _owners(node, "data_out_0")[0][0] if not _has_entry(node) else node
        operands = common(owner).operands if owner.op == "call_function" else {}
        words = {"data_in" if name.startswith("data_in") else name for name in operands}
        every = [(owner, word) for word in sorted(words)] + [*_owners(node, "data_out_0")]
        yield from self._wider(list(dict.fromkeys(every)), bits)

    def _keys(self, owners: Owners, fields: Table) -> Iterator[Keys]:
        found: dict[str, Record] = {}
        for owner, word in owners:
            if fields and self._is_configurable(owner):
                keys = {f"{word}_{key}": value for key, value in fields.items()}
                found.setdefault(owner.name, {}).update(keys)
        if found:
            yield found

    def _wider(self, owners: Owners, bits: int) -> Iterator[Keys]:
        assert self._trial is not None
        found: dict[str, Record] = {}
        for node, word in owners:
            width = _width(node, word) if self._is_configurable(node) else None
            if width is None:
                continue
            entry = self._trial.with_keys({node.name: {}})[node.name]["config"]
            fields = found.setdefault(node.name, {})
            fields[f"{word}_width"] = width + bits
            general = "data_in" if word.startswith("data_in") else word
            fraction = entry.get(f"{word}_frac_width", entry.get(f"{general}_frac_width"))
            if isinstance(fraction, int):
                fields[f"{word}_frac_width"] = fraction + bits
        if found:
            yield found

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
        outputs = dict(zip(mg.output_names, mg.outputs, strict=True))
        with torch.no_grad():
            exact = float_run(mg).values(inputs)

        def figure(count: int) -> float:
            run = GraphRun(mg, only=own | {node.name for node in nodes[:count]})
            with torch.no_grad():
                rounded = run.values(inputs)
            found = {
                name: closeness(exact[place], rounded[place], known[name])
                for name in names
                if (place := outputs[name].name) in exact
            }
            return _figure(found, names)

        low, high = 0, len(nodes)
        last = figure(high)
        while low + 1 < high:
            middle = (low + high) // 2
            low, high = (low, middle) if figure(middle) <= last + MOST_DB else (middle, high)
        return nodes[high - 1], (figure(high - 1), figure(high))


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
    """Text of the format and the operand that clip most at a node; empty for none."""
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


def _refitted(node: Node, name: str) -> Table:
    """Return the fields with which a format has smaller steps, and holds all values as it is now.

    Nothing where it is as fine as it can be.
    """
    number_format, octaves = _formats_of(node)[name], _spare_octaves(node, name)
    return _changed(number_format, number_format.scaled(-octaves)) if octaves else {}


def _spare_octaves(node: Node, name: str) -> int:
    number_format, ends = _formats_of(node)[name], _ends(node, name)
    if ends is None or not bool(ends.any()):
        return 0
    for octaves in range(1, MAX_OCTAVES):
        narrower = number_format.scaled(-octaves)
        if narrower is None or not bool(narrower.in_range(ends).all()):
            return octaves - 1
    return 0


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
    return "give " + " and ".join(
        f"{name} {', '.join(f'{key} = {_text(value)}' for key, value in fields.items())}"
        for name, fields in keys.items()
    )


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _owners(node: Node, name: str) -> Owners:
    """Return the nodes whose entries decide the format of a tensor, and their words for it.

    A result that no entry names has the format that its consumers ask for, as an input does.
    """
    if _has_entry(node) and name != "data_out_0":
        return [(node, "data_in" if shares_format(node) else name)]
    source = node
    while _keeps(source):
        source = stream_operands(source)[0][1]
    if _has_entry(source) and metadata(source).asked:
        return [(source, "data_out")]
    takers = list(dict.fromkeys(_takers(node)))
    if takers:
        return takers
    if _has_entry(source) or not stream_operands(source):
        return [(source, "data_out")]
    return _owners(stream_operands(source)[0][1], "data_out_0")


def _takers(node: Node) -> Iterator[tuple[Node, str]]:
    """Yield the operands with an entry that take a result."""
    for user, name in consumers(node):
        if _has_entry(user):
            yield user, "data_in" if shares_format(user) else name
        else:
            yield from _takers(user)


def _fineness(node: Node, word: str) -> float:
    """Decibels that a format explains, less those of its range beyond the values."""
    formats = _formats_of(node)
    name = next((item for item in formats if item.startswith(word)), None)
    if name is None:
        return math.inf
    return precision_db(formats[name]) - BIT_DB * _spare_octaves(node, name)


def _has_entry(node: Node) -> bool:
    operator = operator_for(node.target) if node.op == "call_function" else None
    return operator is not None and operator.role is None and not Numeric.of(operator).keeps_format


def _keeps(node: Node) -> bool:
    operator = operator_for(node.target) if node.op == "call_function" else None
    return Numeric.of(operator).keeps_format and bool(stream_operands(node))
