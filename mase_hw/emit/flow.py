"""The flow from a model to a project: passes in their order."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import torch

from mase_hw._checks import check_choice
from mase_hw._collection import known_objects_kept
from mase_hw._kinds import Record, Setting, Table
from mase_hw._stages import stage
from mase_hw.emit.preflight import check
from mase_hw.errors import ConfigError, EmissionError, FormatError, ParallelismError
from mase_hw.graph.loops import loops_of
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.nodes import common
from mase_hw.graph.source import naming_units
from mase_hw.hardware.explore import Explorer, fitting, split_targets
from mase_hw.passes.canonical.bound_fills import bound_fills_transform_pass
from mase_hw.passes.canonical.common_metadata import (
    add_common_metadata_analysis_pass,
    init_metadata_analysis_pass,
)
from mase_hw.passes.canonical.decompose import (
    decompose_fused_transform_pass,
    decompose_transform_pass,
)
from mase_hw.passes.canonical.fold import (
    fold_constants_transform_pass,
    fold_into_producer_transform_pass,
)
from mase_hw.passes.canonical.look_up_positions import look_up_positions_transform_pass
from mase_hw.passes.canonical.raise_masks import raise_masks_transform_pass
from mase_hw.passes.canonical.raise_patterns import raise_patterns_transform_pass
from mase_hw.passes.canonical.remove_identity import remove_identity_transform_pass
from mase_hw.passes.canonical.software_metadata import add_software_metadata_analysis_pass
from mase_hw.passes.configuration import Configuration, with_entries
from mase_hw.passes.formats.agreement import (
    FirstExamples,
    is_measured,
    measure_agreement_analysis_pass,
)
from mase_hw.passes.formats.bridge import bridge_formats_transform_pass
from mase_hw.passes.formats.keep import keep_formats_transform_pass
from mase_hw.passes.formats.losses import drop_losses_transform_pass
from mase_hw.passes.formats.lost_roundings import note_replaced
from mase_hw.passes.formats.merge_thresholds import merge_thresholds_transform_pass
from mase_hw.passes.formats.quantize import quantize_transform_pass
from mase_hw.passes.formats.widen import widened
from mase_hw.passes.hardware.hardware_metadata import add_hardware_metadata_analysis_pass
from mase_hw.passes.hardware.options import FOLDED, UNROLLED, Hardware
from mase_hw.passes.hardware.progress import verify_progress_analysis_pass
from mase_hw.passes.hardware.reuse import insert_loops_transform_pass, share_ranges_analysis_pass
from mase_hw.passes.verify import verify_analysis_pass
from mase_hw.timing.memory import external_memory
from mase_hw.unrolled.network import unrolled

_LOG = logging.getLogger(__name__)


def canonicalize(mg: MaseGraph, config: Mapping[str, object] | None = None) -> MaseGraph:
    """Return the graph without nodes that never do anything, constants folded.

    Args:
        mg: a captured graph.
        config: the number formats that it is to have, or the space of a search for them: what
            stands behind weights of a few values, as signs, is not folded into them.
    """
    # The first pass starts metadata anew, which the caller's graph keeps.
    mg, _ = init_metadata_analysis_pass(mg.copy(), {})
    mg, _ = raise_patterns_transform_pass(mg, {})
    # Operators are bound to constants, not to how they were computed.
    mg, _ = fold_constants_transform_pass(mg, {})
    mg, _ = add_common_metadata_analysis_pass(mg, {})
    mg, _ = look_up_positions_transform_pass(mg, {})
    mg, _ = raise_masks_transform_pass(mg, {})
    mg, _ = bound_fills_transform_pass(mg, {})
    mg, _ = decompose_transform_pass(mg, {})
    mg, _ = remove_identity_transform_pass(mg, {"training": True})
    mg, _ = fold_constants_transform_pass(mg, {})
    mg, _ = fold_into_producer_transform_pass(mg, {"config": config})
    mg, _ = add_common_metadata_analysis_pass(mg, {})
    return mg


def with_ranges(
    mg: MaseGraph,
    config: Mapping[str, object],
    data: Iterable[object] | None = None,
    *,
    reuse: bool = False,
) -> tuple[MaseGraph, list[object]]:
    """Return the canonical graph with observed ranges, and the first batches of the data.

    Args:
        mg: a captured graph.
        config: as `quantize` takes it.
        data: as `quantize` takes it.
        reuse: as `quantize` takes it.
    """
    mg, _ = decompose_fused_transform_pass(canonicalize(mg, config), config)
    mg, _ = keep_formats_transform_pass(mg)
    if reuse:
        mg, _ = insert_loops_transform_pass(mg)
    seen = FirstExamples(mg, [mg.example_inputs] if data is None else data)
    mg, _ = add_software_metadata_analysis_pass(mg, {"data": seen})
    if reuse:
        mg, _ = share_ranges_analysis_pass(mg)
    return mg, seen.batches


@naming_units()
@known_objects_kept()
def quantize(
    mg: MaseGraph,
    config: Mapping[str, object] | None = None,
    *,
    data: Iterable[object] | None = None,
    reuse: bool = False,
) -> MaseGraph:
    """Return the canonical graph with number formats, compared with the float model.

    Args:
        mg: a captured graph.
        config: see `quantize_transform_pass`; without one, or with an empty one, 8-bit fixed point
            everywhere with fractions fitted to the observed ranges.
        data: batches of inputs on which ranges are observed, and the first of which are run in
            the formats; the example inputs without.
        reuse: let layers that are alike run on the hardware of one: they get the same formats.

    Raises:
        ConfigError: for what is no graph.
        EmissionError: for `reuse` where no layers are alike.
    """
    if not isinstance(mg, MaseGraph):
        raise ConfigError(
            f"quantize takes a graph, not a {type(mg).__name__}: "
            "quantize(trace(model, example_inputs)); layers of a module are replaced by "
            "mase_hw.nn.quantize_layers"
        )
    stage("number formats")
    config = {} if config is None else config
    trial = Trial(*with_ranges(mg, config, data, reuse=reuse), config, mg)
    mg = trial.run(config)
    _TRIALS[mg] = trial
    return mg


@dataclass(frozen=True)
class Trial:
    """What other formats of a quantised graph are tried on.

    Attributes:
        graph: the canonical graph with ranges.
        batches: the first examples that the ranges are of.
        config: the configuration that it was quantised in.
        captured: the graph with the operators of the model.
    """

    graph: MaseGraph
    batches: Sequence[object]
    config: Mapping[str, object]
    captured: MaseGraph

    def run(self, config: Mapping[str, object]) -> MaseGraph:
        """Return the graph in a configuration, measured."""
        mg, _ = quantize_transform_pass(self.graph, config)
        mg = measured(mg, self.batches)
        return widened(self.graph, config, mg, lambda wider: measured(wider, self.batches))

    def with_keys(self, keys: Mapping[str, Table]) -> Record:
        """Return the configuration with more keys for some nodes, by name."""
        parsed = Configuration.parse(self.config, [node.name for node in self.graph.nodes])
        entries: Record = {}
        for name, fields in keys.items():
            explicit = parsed.for_node(name, common(self.graph.node(name)).operator)
            entries[name] = {"config": {**explicit, **fields}}
        return with_entries(self.config, entries)


# Weights of a graph for which other formats are tried.
MOST_TRIED = 2**24
# Of graphs that `quantize` returned.
_TRIALS: WeakKeyDictionary[MaseGraph, Trial] = WeakKeyDictionary()


def trial_of(mg: MaseGraph) -> Trial | None:
    """Trial of a graph that `quantize` returned.

    None where its weights have changed, or where it has more than `MOST_TRIED` of them, which would
    take minutes.
    """
    trial = _TRIALS.get(mg)
    constants = {node.target: mg.constant(node) for node in mg.nodes if node.op == "get_attr"}
    if trial is None or sum(value.numel() for value in constants.values()) > MOST_TRIED:
        return None
    for node in trial.graph.nodes:
        same = constants.get(node.target) if node.op == "get_attr" else None
        if same is not None and not torch.equal(same.cpu(), trial.graph.constant(node).cpu()):
            return None
    return trial


def measured(mg: MaseGraph, data: Iterable[object] | None = None) -> MaseGraph:
    """Return a quantised graph with its agreement with the float model.

    Args:
        mg: a quantised graph; what was measured of it holds while no parameter has changed.
        data: batches of inputs; without them what was measured, else what it was quantised on, or
            the example inputs.
    """
    if not mg.has_formats or (data is None and is_measured(mg)):
        return mg
    stage("agreement with the float model")
    if data is None and mg in _TRIALS:
        data = _TRIALS[mg].batches
    try:
        return measure_agreement_analysis_pass(mg, {} if data is None else {"data": data})[0]
    except (FormatError, RuntimeError) as error:
        # Preflight says what the graph is refused for.
        _LOG.debug("the agreement of %s is not measured: %s", mg.name, error)
        return mg


def lowered(mg: MaseGraph) -> MaseGraph:
    """Return a quantised graph whose nodes are those of hardware, checked.

    Raises:
        UnsupportedError: with everything that has no hardware.
    """
    # What acts in training alone.
    mg, _ = remove_identity_transform_pass(mg, {})
    mg, _ = drop_losses_transform_pass(mg, {})
    check(mg)
    mg = mg.copy()
    note_replaced(mg)
    if any(node.op == "get_attr" for node in mg.outputs):
        mg.drop_constant_results()
    mg, _ = bridge_formats_transform_pass(mg, {})
    mg, _ = merge_thresholds_transform_pass(mg, {})
    return mg


def with_loops(mg: MaseGraph) -> MaseGraph:
    """Return a quantised graph whose layers that are alike run on the hardware of one.

    Raises:
        EmissionError: where no layers are alike, formats included.
    """
    if loops_of(mg):
        return mg
    try:
        return insert_loops_transform_pass(mg)[0]
    except EmissionError as error:
        raise EmissionError(
            f"{error}, or give quantize reuse=True, which makes formats alike"
        ) from None


@known_objects_kept()
def to_hardware(mg: MaseGraph, **options: Setting) -> MaseGraph:
    """Return a quantised graph with parallelism and hardware metadata, checked.

    Args:
        mg: a quantised graph.
        options: fields of `mase_hw.passes.hardware.options.Hardware`.

    Raises:
        UnsupportedError: with everything that has no hardware.
        EmissionError: when the design would deadlock.
        ParallelismError: for a target that contradicts itself or cannot be met.
    """
    hardware = Hardware(**options)
    check_choice("mode", hardware.mode, (FOLDED, UNROLLED))
    stage("what has hardware")
    mg = lowered(mg)
    if hardware.mode == UNROLLED:
        stage("what becomes logic")
        return unrolled(mg, hardware)
    stage("parallelism and queues")
    lanes, targets = split_targets(hardware.parallelism)
    shared = bool(loops_of(mg))
    if targets is not None and shared:
        raise ParallelismError(
            "parallelism: with reuse no target such as target_interval can be sought; give a "
            "number, auto with a budget of multipliers, or a table"
        )
    if targets is not None:
        explorer = Explorer.of(mg, lanes, hardware.device, hardware.memory)
        lanes = fitting(explorer, mg, targets, hardware.folded).table
    mg, _ = add_hardware_metadata_analysis_pass(mg, {**hardware.folded, "parallelism": lanes})
    stage("that it cannot stop for good")
    # Refuses what a memory cannot hold.
    external_memory(mg)
    mg, _ = verify_analysis_pass(mg, {})
    mg, _ = verify_progress_analysis_pass(mg, {})
    return mg
