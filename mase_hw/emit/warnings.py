"""Warnings where a quantised graph loses much of the float model, with the fix."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence

from torch.fx import Node

from mase_hw.emit.advice import KEPT_DB, Adviser, fact
from mase_hw.emit.preflight import Note, Problem
from mase_hw.errors import EmissionError
from mase_hw.graph.agreement import (
    CHANNEL,
    FEW,
    TENSOR,
    Agreement,
    ModelAgreement,
    check_agreement,
    decibels,
    least,
)
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.metadata import common, location, metadata
from mase_hw.passes.formats.expected_agreement import (
    BIT_DB,
    MARGIN_DB,
    Loss,
    expected,
    harmful,
    is_real,
    losses,
    model_agreement,
    source_of,
)

# Share of elements that a format may clip.
SATURATED = 0.01
# Fewer examples say little of a range.
HANDFUL = FEW
# An output that keeps less of the float model is of little use.
DESTROYED_DB = 20.0
# Warnings for which keys are tried.
MOST_ADVISED = 3
WHOLE = " of the whole tensor"
UNMEASURED = "the outputs were not compared with the float model: it does not run in its formats"


def warnings(mg: MaseGraph, *, configured: bool = True) -> list[Note]:
    """Warnings of a quantised graph, for its user to read before its hardware is used.

    Named are nodes at which outputs lose more than number formats explain, unless they keep
    `KEPT_DB` and no key gains more, outputs that keep less than `DESTROYED_DB`, or take few values,
    formats that clip more than `SATURATED` of their elements where that is seen behind them, and
    ranges that come from fewer than `HANDFUL` examples, or from inputs that are constant. So is a
    graph that was not compared with the float model. Of formats that nobody configured it is said
    when outputs keep less than `KEPT_DB`, and what keeps it. Keys that are proposed were tried on
    the examples, and gain what is printed.

    Args:
        mg: what `quantize` returned.
        configured: whether a configuration said which formats.
    """
    adviser, lost = Adviser(mg), losses(mg)
    named = {loss.node for loss in lost}
    told = {name for loss in lost for name in loss.outputs}
    low = [*_low(mg, lost)] if configured else []
    return [
        *([] if configured else _destroyed(mg, adviser)),
        *(
            _note(loss.node, text)
            for place, loss in enumerate(lost)
            if (text := _lost(mg, loss, adviser if place < MOST_ADVISED else None))
        ),
        *(
            _note(node, _low_text(mg, name, node, adviser if place < MOST_ADVISED else None))
            for place, (name, node) in enumerate(low, start=len(lost))
        ),
        *_fewer(mg, told | {name for name, _ in low}, configured),
        *_saturated(mg, named),
        *_few(mg),
        *_constant(mg),
    ]


def _destroyed(mg: MaseGraph, adviser: Adviser) -> Iterator[Note]:
    known = model_agreement(mg)
    ratio = known.sqnr_db if known else None
    if known is None or ratio is None or ratio >= KEPT_DB:
        return
    wide = adviser.widths(KEPT_DB)
    width = (
        f"{wide[0]} bits everywhere keep {wide[1]} (data_in_width, weight_width and bias_width = "
        f"{wide[0]}), and "
        if wide
        else ""
    )
    text = (
        f"without a configuration every tensor has 8 bits, which keep {_figures(known)} of this "
        f"model; {width}`mase-hw fit MODEL --min-sqnr {KEPT_DB:g}` finds formats that keep it for "
        "the least hardware, and `emit-verilog MODEL --formats auto` uses them"
    )
    yield Note("formats", "", "the whole model", text)


def _figures(known: ModelAgreement) -> str:
    worst = min(
        (item for item in known.outputs.values() if item.sqnr_db is not None),
        key=lambda item: item.sqnr_db or 0.0,
    )
    return f"{worst}{f' ({worst.fewer})' if worst.fewer else ''}"


def _low(mg: MaseGraph, lost: Sequence[Loss]) -> Iterator[tuple[str, Node]]:
    """Yield outputs that keep little of what varies, although their formats are fine enough."""
    known = _measured(mg)
    told = {name for loss in lost for name in loss.outputs}
    explained = expected(mg)
    for name, node in zip(mg.output_names, mg.outputs, strict=True):
        item = known.results.get(name) if known else None
        if item is None or item.sqnr_db is None or name in told:
            continue
        if item.sqnr_db < min(DESTROYED_DB, explained[node] - MARGIN_DB):
            yield name, node


def _low_text(mg: MaseGraph, name: str, node: Node, adviser: Adviser | None) -> str:
    known = _measured(mg)
    assert known is not None
    item = known.results[name]
    bits = math.ceil((KEPT_DB - max(item.sqnr_db or 0.0, -10.0)) / BIT_DB) + 1
    advice = adviser.mended(node, [name], bits)[1] if adviser else ""
    said = (f"output {name} keeps {item} of what varies", item.fewer, advice)
    return "; ".join(filter(None, said))


def _fewer(mg: MaseGraph, told: Collection[str], configured: bool) -> Iterator[Note]:
    """Yield outputs that take few values and are not named for it."""
    known = _measured(mg)
    nodes = dict(zip(mg.output_names, mg.outputs, strict=True))
    for name, item in known.results.items() if known else ():
        said = not configured and (item.sqnr_db or 0.0) < KEPT_DB
        if item.fewer and name not in told and not said:
            yield _note(nodes[name], f"output {name}: {item.fewer}")


def sqnr_problems(mg: MaseGraph, min_sqnr: float | None, agreement: str = CHANNEL) -> list[Problem]:
    """Return the outputs that agree with the float model to fewer decibels than asked for.

    Args:
        mg: a quantised graph.
        min_sqnr: the decibels; None for none.
        agreement: whose: `channel`, the worst channel's, or `tensor`, the whole tensor's.

    A graph that was not compared with the float model does not meet what is asked for.
    """
    known = _measured(mg)
    check_agreement(agreement)
    if min_sqnr is None:
        return []
    if known is None:
        return [
            Problem("output", "", "the model's code", f"{UNMEASURED}; {min_sqnr:g} dB asked for")
        ]
    nodes = dict(zip(mg.output_names, mg.outputs, strict=True))
    return [
        Problem(
            nodes[name].name,
            metadata(nodes[name]).module_path,
            location(nodes[name]),
            f"output {name} agrees with the float model to {item} on {known.examples} "
            f"example{_plural(known.examples)}{f'; {item.fewer}' if item.fewer else ''}; "
            f"asked for: {min_sqnr:g} dB{WHOLE if agreement == TENSOR else ''}",
        )
        for name, item in known.results.items()
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


def _note(node: Node, text: str) -> Note:
    node = source_of(node)
    return Note(node.name, metadata(node).module_path, location(node), text)


def _lost(mg: MaseGraph, loss: Loss, adviser: Adviser | None) -> str:
    """Message of a loss: for which output, where, what is clipped, and what was tried.

    Empty where enough is kept and nothing gains more.
    """
    names = list(loss.outputs)
    known, others = _measured(mg), len(names) - 1
    assert known is not None
    many = f" and {others} other output{_plural(others)}" if others else ""
    before, result = loss.drop_db
    bits = math.ceil((before - max(result, 0.0)) / BIT_DB)
    gains, advice = adviser.mended(loss.node, names, bits) if adviser else (None, "")
    kept = least(known.results[name] for name in names)
    if gains is False and kept is not None and kept >= KEPT_DB:
        return ""
    place = f"Lost here, from {decibels(before)} to {decibels(result)} of the tensor"
    return (
        f"output {names[0]}{many}: {known.results[names[0]]} against the float model, where "
        f"formats explain {loss.expected_db:.0f} dB. "
        f"{': '.join(filter(None, (place, fact(loss.node))))}{'; ' if advice else ''}{advice}"
    )


def _saturated(mg: MaseGraph, named: set[Node]) -> Iterator[Note]:
    for node in harmful(mg):
        known = metadata(node).agreement
        share = max(known.saturated.values(), default=0.0) if known else 0.0
        if share > SATURATED and node not in named:
            yield _note(node, fact(node))


def _measured(mg: MaseGraph) -> Agreement | None:
    """Return the agreement of the outputs; None where it was not measured."""
    (output,) = (node for node in mg.nodes if node.op == "output")
    return metadata(output).agreement


def _few(mg: MaseGraph) -> Iterator[Note]:
    known = _measured(mg)
    if known is None:
        yield Note("output", "", "the model's code", UNMEASURED)
        return
    observed = [item.examples for node in mg.inputs if (item := metadata(node).software)]
    count = max(observed, default=0) or known.examples
    if count < HANDFUL and not _all_exact(mg):
        text = (
            f"formats are fitted to {count} example{_plural(count)}, and what "
            f"is larger saturates; trace the model with {HANDFUL} or more, or give quantize data"
        )
        yield Note("data", "", "the example inputs", text)


def _all_exact(mg: MaseGraph) -> bool:
    """True if no format is fitted: the model says all of them."""
    nodes = [node for node in mg.nodes if node.op == "call_function"]
    return all(metadata(node).exact or not metadata(node).asked for node in nodes) and any(
        metadata(node).exact for node in nodes
    )


def _constant(mg: MaseGraph) -> Iterator[Note]:
    for node in mg.inputs:
        software = metadata(node).software
        seen = software.ranges.get("data_out_0") if software else None
        spec = common(node).results["data_out_0"]
        if seen is None or spec.format is None or not is_real(spec.dtype):
            continue
        if seen.minimum == seen.maximum:
            yield _note(
                node,
                f"it is {seen.minimum:g} in every element of all examples, so that formats are "
                "fitted to nothing; give examples like those that will come",
            )


def _plural(count: int) -> str:
    return "" if count == 1 else "s"
