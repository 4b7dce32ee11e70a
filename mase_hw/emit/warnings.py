"""Warnings where a quantised graph loses much of the float model, with the fix."""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Iterator

import torch
from torch.fx import Node

from mase_hw.emit.advice import KEPT_DB, Adviser, adviser_of
from mase_hw.emit.flow import Trial, trial_of
from mase_hw.emit.preflight import Note, Problem, place_of
from mase_hw.errors import EmissionError
from mase_hw.graph.agreement import CHANNEL, FEW, TENSOR, ModelAgreement, check_agreement, decibels
from mase_hw.graph.fills import float_run
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.nodes import common, metadata, stream_operands
from mase_hw.ops import Ranking, operator_for
from mase_hw.passes.canonical.common_metadata import (
    add_common_metadata_analysis_pass,
    init_metadata_analysis_pass,
)
from mase_hw.passes.formats.agreement import parts_of
from mase_hw.passes.formats.expected_agreement import (
    BIT_DB,
    MARGIN_DB,
    Loss,
    expected,
    formats_of,
    harmful,
    is_real,
    losses,
    model_agreement,
    source_of,
)

# Share of elements that a format may clip.
SATURATED = 0.01
# An output that keeps less of the float model is of little use.
DESTROYED_DB = 20.0
# Warnings for which keys are tried.
MOST_ADVISED = 3
UNMEASURED = "the outputs were not compared with the float model: it does not run in its formats"


def warnings(mg: MaseGraph, *, configured: bool = True) -> list[Note]:
    """Warnings of a quantised graph, for its user to read before its hardware is used.

    Named are nodes at which outputs lose more than number formats explain, unless they keep
    `KEPT_DB` and no key gains more, outputs that keep less than `DESTROYED_DB`, or take few values,
    formats that clip more than `SATURATED` of their elements where that is seen behind them, and
    ranges that come from fewer than `FEW` examples, or from inputs that are constant. So is a
    graph that was not compared with the float model. Of formats that nobody configured it is said
    when outputs keep less than `KEPT_DB`, and what keeps it. Keys that are proposed were tried on
    the examples, and gain what is printed.

    Args:
        mg: what `quantize` returned.
        configured: whether a configuration said which formats.
    """
    agreement = model_agreement(mg)
    if agreement is None:
        return [Note("output", "", "the model's code", UNMEASURED), *_constant_inputs(mg)]
    adviser, lost, told = adviser_of(mg), losses(mg), set[str]()
    notes = list[Note]()
    if configured:
        lost += _low(mg, agreement, {name for loss in lost for name in loss.outputs})
    elif agreement.sqnr_db is not None and agreement.sqnr_db < KEPT_DB:
        notes.append(Note("formats", "", "the whole model", _default_formats(agreement, adviser)))
        worst = agreement.worst_of()
        told = {name for name, item in agreement.outputs.items() if item is worst}
    for place, loss in enumerate(lost):
        text = _lost(agreement, loss, adviser if place < MOST_ADVISED else None)
        if text:
            notes.append(Note(*place_of(loss.node), text))
            told.add(loss.outputs[0])
    nodes = dict(zip(mg.output_names, mg.outputs, strict=True))
    notes += [
        Note(*place_of(nodes[name]), f"output {name}: {item.fewer}")
        for name, item in agreement.outputs.items()
        if item.fewer and name not in told
    ]
    notes += [
        Note(*place_of(node), _clipped(node))
        for node in harmful(mg)
        if _share(node) > SATURATED and all(node is not loss.node for loss in lost)
    ]
    trial = trial_of(mg)
    notes += [*_ties(trial)] if trial else []
    return [*notes, *_few_examples(mg, agreement), *_constant_inputs(mg)]


def _default_formats(agreement: ModelAgreement, adviser: Adviser | None) -> str:
    wide, worst = adviser.widths(KEPT_DB) if adviser else None, agreement.worst_of()
    width = (
        f"{wide[0]} bits everywhere keep {wide[1]} (data_in_width, weight_width and bias_width = "
        f"{wide[0]}), and "
        if wide
        else ""
    )
    return (
        f"without a configuration every tensor has 8 bits, which keep {worst}"
        f"{f' ({worst.fewer})' if worst.fewer else ''} of this model; {width}`mase-hw fit MODEL "
        f"--min-sqnr {KEPT_DB:g}` finds formats that keep it for the least hardware, and "
        "`emit-verilog MODEL --formats auto` uses them"
    )


def _low(mg: MaseGraph, agreement: ModelAgreement, told: set[str]) -> list[Loss]:
    """Return the outputs that keep little of what varies, although formats are fine enough."""
    explained = expected(mg)
    return [
        Loss([name], explained[node], node)
        for name, node in zip(mg.output_names, mg.outputs, strict=True)
        if name not in told and name in agreement.outputs
        if (ratio := agreement.outputs[name].sqnr_db) is not None
        if ratio < min(DESTROYED_DB, explained[node] - MARGIN_DB)
    ]


def _lost(agreement: ModelAgreement, loss: Loss, adviser: Adviser | None) -> str:
    """Message of a loss: for which output, where, what is clipped, and what was tried.

    Empty where enough is kept and nothing gains more.
    """
    name, *others = loss.outputs
    worst = agreement.worst_of(loss.outputs)
    high, low = loss.drop_db or (KEPT_DB + BIT_DB, worst.score)
    bits = math.ceil((high - max(low, -10.0)) / BIT_DB)
    gains, advice = adviser.mended(loss.node, loss.outputs, bits) if adviser else (True, "")
    if not gains and worst.sqnr_db is not None and worst.sqnr_db >= KEPT_DB:
        return ""
    many = f" and {len(others)} other output{_plural(len(others))}" if others else ""
    explained = f", where formats explain {loss.expected_db:.0f} dB" if loss.drop_db else ""
    here = (
        f"lost here, from {decibels(high)} to {decibels(low)} of the tensor" if loss.drop_db else ""
    )
    first = f"{agreement.outputs[name]} against the float model{explained}"
    parts = (first, agreement.outputs[name].fewer, here, _clipped(loss.node), advice)
    return f"output {name}{many}: {'; '.join(filter(None, parts))}"


def sqnr_problems(mg: MaseGraph, min_sqnr: float | None, agreement: str = CHANNEL) -> list[Problem]:
    """Return the outputs that agree with the float model to fewer decibels than asked for.

    Args:
        mg: a quantised graph.
        min_sqnr: the decibels; None for none.
        agreement: whose: `channel`, the worst channel's, or `tensor`, the whole tensor's.

    A graph that was not compared with the float model does not meet what is asked for.
    """
    measured = model_agreement(mg)
    check_agreement(agreement)
    if min_sqnr is None:
        return []
    if measured is None:
        return [
            Problem("output", "", "the model's code", f"{UNMEASURED}; {min_sqnr:g} dB asked for")
        ]
    nodes = dict(zip(mg.output_names, mg.outputs, strict=True))
    return [
        Problem(
            *place_of(nodes[name]),
            f"output {name} agrees with the float model to {item} on {measured.examples} "
            f"example{_plural(measured.examples)}{f'; {item.fewer}' if item.fewer else ''}; "
            f"asked for: {min_sqnr:g} dB{' of the whole tensor' if agreement == TENSOR else ''}",
        )
        for name, item in measured.outputs.items()
        if (ratio := item.decibels(agreement)) is not None and ratio < min_sqnr
    ]


def check_sqnr(mg: MaseGraph, min_sqnr: float | None, agreement: str = CHANNEL) -> None:
    """Raise where an output agrees with the float model to fewer decibels than asked for.

    Raises:
        EmissionError: naming each of them, what was measured and what was asked for.
    """
    problems = sqnr_problems(mg, min_sqnr, agreement)
    if problems:
        raise EmissionError("\n".join(map(str, problems)))


def _share(node: Node) -> float:
    agreement = metadata(node).agreement
    return max(agreement.saturated.values(), default=0.0) if agreement else 0.0


def _clipped(node: Node) -> str:
    """Text of the format and the operand that clip most at a node; empty for none."""
    agreement = metadata(node).agreement
    if agreement is None or not agreement.saturated:
        return ""
    name = max(agreement.saturated, key=lambda item: agreement.saturated[item])
    # An inserted node carries what is computed before it.
    software = metadata(node).software or metadata(source_of(node)).software
    seen = software.ranges.get(name) if software else None
    between = f" (values from {seen.minimum:.3g} to {seen.maximum:.3g})" if seen else ""
    share = 100 * agreement.saturated[name]
    return f"{formats_of(node)[name]} clips {share:.1f} % of {name}{between}"


def _ties(trial: Trial) -> Iterator[Note]:
    """Yield the nodes of the model whose indices equal elements of the examples leave open."""
    mg = trial.captured
    names = {node.name for node in mg.nodes if isinstance(operator_for(node.target), Ranking)}
    if not names:
        return
    mg, _ = init_metadata_analysis_pass(mg.copy(), {})
    mg, _ = add_common_metadata_analysis_pass(mg, {})
    run, rows, tied = float_run(mg), Counter[Node](), Counter[Node]()
    nodes = [node for node in mg.nodes if node.name in names and _gives_indices(node)]
    for inputs in parts_of(mg, trial.batches):
        with torch.no_grad():
            values = run.values(inputs)
        for node in nodes:
            kind = operator_for(node.target)
            assert isinstance(kind, Ranking)
            (_, source), *_ = stream_operands(node)
            open_rows = kind.tied(mg.call(node), values[source.name])
            rows[node] += open_rows.numel()
            tied[node] += int(open_rows.sum())
    for node in nodes:
        if tied[node]:
            yield Note(
                *place_of(node),
                f"in {tied[node]} of {rows[node]} rows of the examples equal elements stand where "
                "it cuts the order: torch leaves open which of them it takes, hardware takes the "
                "first in the row; break ties in the model, or do not rely on their indices",
            )


def _gives_indices(node: Node) -> bool:
    """True for a node whose indices are read: its second result, or its only one."""
    places = [user.args[1] for user in node.users if user.target is operator.getitem]
    return 1 in places or not places


def _few_examples(mg: MaseGraph, agreement: ModelAgreement) -> Iterator[Note]:
    observed = [item.examples for node in mg.inputs if (item := metadata(node).software)]
    count = max(observed, default=0) or agreement.examples
    if count < FEW and not _all_exact(mg):
        text = (
            f"formats are fitted to {count} example{_plural(count)}, and what "
            f"is larger saturates; trace the model with {FEW} or more, or give quantize data"
        )
        yield Note("data", "", "the example inputs", text)


def _all_exact(mg: MaseGraph) -> bool:
    """True if no format is fitted: the model says all of them."""
    nodes = [node for node in mg.nodes if node.op == "call_function"]
    return all(metadata(node).exact or not metadata(node).asked for node in nodes) and any(
        metadata(node).exact for node in nodes
    )


def _constant_inputs(mg: MaseGraph) -> Iterator[Note]:
    for node in mg.inputs:
        software = metadata(node).software
        seen = software.ranges.get("data_out_0") if software else None
        spec = common(node).results["data_out_0"]
        if seen is None or spec.format is None or not is_real(spec.dtype):
            continue
        if seen.minimum == seen.maximum:
            yield Note(
                *place_of(node),
                f"it is {seen.minimum:g} in every element of all examples, so that formats are "
                "fitted to nothing; give examples like those that will come",
            )


def _plural(count: int) -> str:
    return "" if count == 1 else "s"
