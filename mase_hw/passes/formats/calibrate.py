"""`calibrate_analysis_pass`: choose what a configuration leaves open from observed values."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from torch import Tensor
from torch.fx import Node

from mase_hw._kinds import Table
from mase_hw.errors import ConfigError, DataError, FormatError
from mase_hw.formats import Format
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.nodes import common, consumers, keeps_format, metadata, shares_format
from mase_hw.passes._pass import Result, graph_pass
from mase_hw.passes.canonical.software_metadata import run_batches, tensors_of
from mase_hw.passes.configuration import Configuration
from mase_hw.passes.formats import quantize
from mase_hw.passes.formats._observers import OBSERVERS, Observer, Sample, check_percentile
from mase_hw.passes.formats._signs import with_sign
from mase_hw.registry import nearest

Observations = Mapping[str, Mapping[str, Sample]]


def observe(mg: MaseGraph, data: Iterable[object]) -> Observations:
    """Run the float model on batches and keep values of every operand and result.

    Args:
        mg: a graph with common metadata.
        data: batches, as `add_software_metadata_analysis_pass` takes them.

    Returns:
        Samples by node name and by operand or result name.

    Raises:
        DataError: when there is no batch, or no sample in any of them, or one that is not finite.
    """
    results: dict[Node, Sample] = defaultdict(Sample)

    def visit(node: Node, value: object) -> None:
        if not isinstance(value, Tensor) or not value.is_floating_point() or node.op == "output":
            return
        if node.op == "placeholder" and not bool(value.isfinite().all()):
            raise DataError(
                f"calibration data for {node.name} holds infinities; give finite numbers"
            )
        results[node].add(value)

    run_batches(mg, data, visit)
    if not results:
        raise DataError("calibration data is empty; give at least one batch with one sample")
    return {
        node.name: {
            **({"data_out_0": results[node]} if node in results else {}),
            **tensors_of(mg, node, results.get, Sample),
        }
        for node in mg.nodes
    }


@graph_pass
def calibrate_analysis_pass(
    mg: MaseGraph,
    *,
    config: Mapping[str, object] | None = None,
    data: Iterable[object] | None = None,
    observations: Observations | None = None,
    observer: str = "minmax",
    weight_observer: str = "minmax",
    percentile: float = 99.9,
) -> Result:
    """Resolve a configuration: every field of every operand is given, by node name.

    Args:
        mg: a graph with common metadata, as `mase_hw.emit.flow.canonicalize` returns it.
        config: the configuration of `quantize_transform_pass`.
        data: batches; the example inputs when not given.
        observations: what `observe` returned, in place of data.
        observer: of streams (`minmax`, `percentile`, `mse`, `entropy`).
        weight_observer: of constants.
        percentile: the share of values that the observer `percentile` keeps.

    Returns:
        The graph, and `{"config": the resolved configuration}`, which `quantize_transform_pass`
        takes and which no longer depends on data.

    Raises:
        ConfigError: for an unknown observer, or a bad configuration.
        DataError: when the data is empty.
    """
    of_streams, of_constants = _observer(observer), _observer(weight_observer)
    share = check_percentile(percentile)
    seen = observations
    if seen is None:
        seen = observe(mg, [mg.example_inputs] if data is None else data)
    nodes = [node for node in mg.nodes if node.op == "call_function"]
    parsed = Configuration.parse(config or {}, [node.name for node in nodes])
    entries = quantize.entries_of(mg, parsed)
    configured = {node for node, entry in entries.items() if entry.get("name") is not None}
    default = {key: value for key, value in parsed.default.items() if value is not None}
    resolved: dict[str, object] = {"by": "name", "default": {"config": default}}
    for node, entry in entries.items():
        quantize.check_keys(node, entry)
        chosen: dict[str, Format] = {}
        for name, groups, words in _open_tensors(node, entry, configured, parsed):
            constant = mg.call(node).constants.get(name)
            cls, unsigned = quantize.open_format(mg, node, name, groups, words)
            fields: Any = unsigned
            said = quantize.said_of_sign(node, name, groups, words)
            try:
                if constant is None:
                    sample = seen[node.name].get(name, Sample(-1.0, 1.0))
                    if not math.isfinite(sample.minimum):
                        raise FormatError(
                            "none of its values on the data is a finite number, so no format can "
                            "be fitted to them; give other data"
                        )
                    fields = with_sign(cls, fields, sample.minimum, said)
                    chosen[name] = of_streams(sample, partial(cls.fit, **fields), share)
                else:
                    fields = with_sign(cls, fields, float(constant.min()), said)
                    number = _of_constant(constant, cls, fields, of_constants, share)
                    chosen[name] = quantize.rounded_best(number, constant, fields, groups, words)
            except FormatError as error:
                where = f"{name} of {node.name} ({metadata(node).source})"
                raise FormatError(f"{where}: {error}") from error
        resolved[node.name] = {"config": quantize.entry_of(chosen)}
    return mg, {"config": resolved}


def _observer(name: str) -> Observer:
    if name not in OBSERVERS:
        raise ConfigError(f"no observer is called {name!r}; {nearest(name, OBSERVERS)}")
    return OBSERVERS[name]


def _of_constant(
    values: Tensor, cls: type[Format], fields: Table, observer: Observer, share: float
) -> Format:
    """Format that an observer chooses for constants, each channel by itself."""
    axis = fields.get("channel_axis")
    explicit = any(isinstance(field, list | tuple) for field in fields.values())
    if axis is not None and not explicit and -values.dim() <= axis < values.dim():
        rows = values.detach().movedim(axis, 0)
        alone = {**fields, "channel_axis": None}
        return cls.of_channels(
            [_of_constant(row, cls, alone, observer, share) for row in rows], **fields
        )

    def fit(low: float, high: float) -> Format:
        return cls.fit_values(values.clamp(low, high), **fields)

    sample = Sample()
    sample.add(values)
    return observer(sample, fit, share)


def _open_tensors(
    node: Node, entry: Mapping[str, object], configured: set[Node], config: Configuration
) -> list[tuple[str, tuple[str, ...], Mapping[str, object]]]:
    """Tensors of a node that need a format of their own, with their words and entry."""
    if node not in configured:
        return []
    if shares_format(node):
        return [("data_out_0", quantize.SHARED, entry)]
    tensors = [(name, quantize.words_for(name), entry) for name in common(node).operands]
    if quantize.mentions(entry, quantize.RESULT):
        tensors.append(("data_out_0", (quantize.RESULT, "data_out_0"), entry))
    elif not _feeds(node, configured):
        tensors.append(("data_out_0", *quantize.words_for_result(node, entry, config)))
    return tensors


def _feeds(node: Node, configured: set[Node]) -> bool:
    return any(
        user in configured or (keeps_format(user) and _feeds(user, configured))
        for user, _ in consumers(node)
    )
