"""Configuration keys that mend a loss: each is tried on the examples before it is proposed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import torch
from torch.fx import Node

from mase_hw._kinds import Record, Table
from mase_hw.emit.flow import Trial, trial_of
from mase_hw.emit.preflight import preflight
from mase_hw.errors import FormatError, MaseError
from mase_hw.graph.agreement import Closeness, ModelAgreement, closeness, decibels
from mase_hw.graph.fills import float_run, rounds_itself
from mase_hw.graph.judgements import judgements
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.nodes import common, consumers, metadata, shares_format
from mase_hw.graph.quantized import GraphRun
from mase_hw.passes.configuration import DEFAULT_ENTRY
from mase_hw.passes.formats.agreement import parts_of
from mase_hw.passes.formats.expected_agreement import (
    BIT_DB,
    formats_of,
    model_agreement,
    producers,
    rounds,
    source_of,
)
from mase_hw.passes.formats.quantize import RESULT, SHARED, fitted_format, words_for

MAX_BITS = 16
# An output that keeps so much is of full use.
KEPT_DB = 30.0
# What a proposed key gains at least: for an output that keeps less, and for others.
GAIN_DB, FULL_GAIN_DB = 3.0, 6.0
# Above an output's figure: what leaves so much is not where it is lost.
MOST_DB = 10.0

Keys = Mapping[str, Table]


def adviser_of(mg: MaseGraph) -> Adviser | None:
    """Adviser of a graph that `quantize` returned.

    None where nothing can be tried: weights have changed since, or it was read from a file.
    """
    trial, agreement = trial_of(mg), model_agreement(mg)
    return Adviser(mg, trial, agreement) if trial and agreement else None


class Adviser:
    """Tries formats for a quantised graph.

    Args:
        mg: the graph.
        trial: what other formats are tried on.
        agreement: of the graph with the float model.
    """

    def __init__(self, mg: MaseGraph, trial: Trial, agreement: ModelAgreement) -> None:
        self._mg, self._trial, self._agreement = mg, trial, agreement

    def mended(self, node: Node, names: Sequence[str], bits: int) -> tuple[bool, str]:
        """Whether keys gain, and the text of those that gain most for some outputs.

        Where none gain, the text names the node up to which the outputs lose.

        Args:
            node: where they seem to lose.
            names: of the outputs.
            bits: how many seem to be missing.
        """
        place, figures = self._lost_at(names)
        before = self._agreement.worst_of(names)
        least = before.score + (GAIN_DB if before.score < KEPT_DB else FULL_GAIN_DB)
        for item in dict.fromkeys((node, place)):
            tried = []
            for more in (0, min(max(bits, 1), MAX_BITS)):
                keys = self._keys(item, more)
                agreement = self._try(self._trial.with_keys(keys)) if keys else None
                if agreement and agreement.worst_of(names).score >= least:
                    tried.append((agreement.worst_of(names), keys))
            if tried:
                after, keys = max(tried, key=lambda pair: pair[0].score)
                return True, f"{_words(keys)}: {before} -> {after}"
        return False, (
            f"no wider format of one node mends it; rounding up to {source_of(place).name} "
            f"takes it from {decibels(figures[0])} to {decibels(figures[1])}"
        )

    def widths(self, least_db: float) -> tuple[int, Closeness] | None:
        """Return the least width of everything by default that keeps so much, as tried."""
        score = self._agreement.worst_of().score
        first = 8 + max(1, math.ceil((least_db - max(score, -40.0)) / BIT_DB))
        for width in (first, first + 1, first + 3):
            widths = (key for key in DEFAULT_ENTRY if key.endswith("_width"))
            entry = {**DEFAULT_ENTRY, **dict.fromkeys(widths, width)}
            agreement = self._try({"default": {"config": entry}})
            if agreement and agreement.worst_of().score >= least_db:
                return width, agreement.worst_of()
        return None

    def _try(self, config: Mapping[str, object]) -> ModelAgreement | None:
        try:
            mg = self._trial.run(config)
            return None if preflight(mg) else model_agreement(mg)
        except MaseError:
            return None

    def _keys(self, node: Node, bits: int) -> Keys:
        """Keys of more bits for what a node takes and for its result, by node.

        Fractions that the configuration says are fitted to the values; those alone for no more
        bits.
        """
        keys: dict[str, Record] = {}
        nodes = {item.name: item for item in self._trial.graph.nodes}
        for owner, name in dict.fromkeys(_owners(source_of(node))):
            number_format = formats_of(owner).get(name)
            width = getattr(number_format, "width", None)
            if number_format is None or not isinstance(width, int) or owner.name not in nodes:
                continue
            entry = self._trial.with_keys({owner.name: {}})[owner.name]["config"]
            word, tensor, groups = _words_of(owner, name)
            open_keys = {f"{group}_{key}": key for group in groups for key in number_format.fitted}
            explicit = sorted({open_keys[key] for key in {*open_keys} & {*entry}})
            entry = {key: value for key, value in entry.items() if key not in open_keys}
            entry |= {f"{group}_width": width + bits for group in groups}
            try:
                fitted = fitted_format(self._trial.graph, nodes[owner.name], tensor, groups, entry)
            except FormatError:
                # As wide as it may be.
                continue
            if bits or any(getattr(fitted, key) != getattr(number_format, key) for key in explicit):
                fields = {f"{word}_{key}": getattr(fitted, key) for key in ("width", *explicit)}
                keys.setdefault(owner.name, {}).update(fields)
        return keys

    def _lost_at(self, names: Sequence[str]) -> tuple[Node, tuple[float, float]]:
        """Return the node up to which rounding loses what all of it does, by bisection.

        With it the figures of the outputs without its rounding and with it.
        """
        mg = self._mg
        inputs = next(parts_of(mg, self._trial.batches))
        judged, own = judgements(mg), set(rounds_itself(mg))
        nodes = [node for node in mg.nodes if node.op != "get_attr" and formats_of(node)]
        outputs = dict(zip(mg.output_names, mg.outputs, strict=True))
        with torch.no_grad():
            exact = float_run(mg).values(inputs)

        def score(count: int) -> float:
            run = GraphRun(mg, only=own | {node.name for node in nodes[:count]})
            with torch.no_grad():
                rounded = run.values(inputs)
            places = {name: outputs[name].name for name in names if outputs[name].name in exact}
            scores = [
                closeness(exact[place], rounded[place], judged[name]).score
                for name, place in places.items()
            ]
            return min(scores, default=math.inf)

        low, high = 0, len(nodes)
        last = score(high)
        while low + 1 < high:
            middle = (low + high) // 2
            low, high = (low, middle) if score(middle) <= last + MOST_DB else (middle, high)
        return nodes[high - 1], (score(high - 1), score(high))


def _words(keys: Keys) -> str:
    return "give " + " and ".join(
        f"{name} {', '.join(f'{key} = {value}' for key, value in fields.items())}"
        for name, fields in keys.items()
    )


def _words_of(node: Node, name: str) -> tuple[str, str, tuple[str, ...]]:
    """Return a tensor's word in a configuration, its own name, and all words that mean it."""
    if shares_format(node):
        return "data_in", "data_out_0", SHARED
    if name == "data_out_0":
        return RESULT, name, (RESULT, name)
    alone = name == "data_in_0" and "data_in_1" not in common(node).operands
    return "data_in" if alone else name, name, words_for(name)


def _owners(node: Node) -> Iterator[tuple[Node, str]]:
    """Yield the tensors whose keys decide a node's formats.

    A result that no key names has the format that its consumers ask for, as an input does.
    """
    source = node
    while not rounds(source) and producers(source):
        source = producers(source)[0]
    takers = list(_takers(node))
    if rounds(source):
        yield from ((source, name) for name in common(source).operands)
        if metadata(source).asked or not takers:
            yield source, "data_out_0"
            return
    yield from takers


def _takers(node: Node) -> Iterator[tuple[Node, str]]:
    """Yield the operands with keys that take a result."""
    for user, name in consumers(node):
        if rounds(user):
            yield user, name
        else:
            yield from _takers(user)
