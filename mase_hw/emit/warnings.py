"""Warnings where a quantised graph loses much of the float model, with the fix."""

from __future__ import annotations

import math
from collections.abc import Iterator

from torch.fx import Node

from mase_hw.emit.cure import reason
from mase_hw.emit.preflight import Note, Problem
from mase_hw.errors import EmissionError
from mase_hw.graph.agreement import Agreement, decibels, least
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.metadata import common, location, metadata
from mase_hw.passes.formats.expected_agreement import BIT_DB, Loss, harmful, is_real, losses

# Share of elements that a format may clip.
SATURATED = 0.01
# Fewer examples say little of a range.
HANDFUL = 5
# An output that keeps less of the float model is of little use.
DESTROYED_DB = 20.0
UNMEASURED = "the outputs were not compared with the float model: it does not run in its formats"


def warnings(mg: MaseGraph, *, configured: bool = True) -> list[Note]:
    """Warnings of a quantised graph, for its user to read before its hardware is used.

    Named are nodes at which outputs lose more than number formats explain, formats that clip more
    than `SATURATED` of their elements where that is seen behind them, and ranges that come from
    fewer than `HANDFUL` examples, or from inputs that are constant. So is a graph that was not
    compared with the float model. Of formats that nobody configured it is said when outputs keep
    less than `DESTROYED_DB`, and what finds better ones.

    Args:
        mg: what `quantize` returned.
        configured: whether a configuration said which formats.
    """
    found = losses(mg)
    named = {loss.node for loss in found}
    return [
        *([] if configured else _destroyed(mg)),
        *(_note(loss.node, _lost(loss)) for loss in found),
        *_saturated(mg, named),
        *_few(mg),
        *_constant(mg),
    ]


def _destroyed(mg: MaseGraph) -> Iterator[Note]:
    known = _measured(mg)
    ratio = least(known.results.values()) if known else None
    if ratio is not None and ratio < DESTROYED_DB:
        text = (
            f"without a configuration every tensor has 8 bits, which keep {decibels(ratio)} of "
            "this model; `mase-hw fit MODEL --min-sqnr 30` finds formats that keep it for the "
            "least hardware, and `emit-verilog MODEL --formats auto` uses them"
        )
        yield Note("formats", "", "the whole model", text)


def sqnr_problems(mg: MaseGraph, min_sqnr: float | None) -> list[Problem]:
    """Return the outputs that agree with the float model to fewer decibels than asked for.

    A graph that was not compared with the float model does not meet what is asked for.
    """
    known = _measured(mg)
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
            f"example{_plural(known.examples)}; asked for: {min_sqnr:g} dB",
        )
        for name, item in known.results.items()
        if item.sqnr_db is not None and item.sqnr_db < min_sqnr
    ]


def check_sqnr(mg: MaseGraph, min_sqnr: float | None) -> None:
    """Raise where an output agrees with the float model to fewer decibels than asked for.

    Raises:
        EmissionError: naming each of them, what was measured and what was asked for.
    """
    problems = sqnr_problems(mg, min_sqnr)
    if problems:
        raise EmissionError("\n".join(map(str, problems)))


def _note(node: Node, text: str) -> Note:
    return Note(node.name, metadata(node).module_path, location(node), text)


def _lost(loss: Loss) -> str:
    """Message of a loss: at which node, for which output, the cause and the cure."""
    names = list(loss.outputs)
    (first, ratio), others = next(iter(loss.outputs.items())), len(names) - 1
    many = f" and {others} other output{_plural(others)}" if others else ""
    measured = decibels(ratio) if ratio is not None else "wrong elements"
    given, result = loss.drop_db
    bits = math.ceil((given - max(result, 0.0)) / BIT_DB)
    return (
        f"output {first}{many}: {measured} against the float model, where formats explain "
        f"{loss.expected_db:.0f} dB. Lost here, from {decibels(given)} to {decibels(result)}: "
        f"{reason(loss.node, bits)}"
    )


def _saturated(mg: MaseGraph, named: set[Node]) -> Iterator[Note]:
    for node in harmful(mg):
        known = metadata(node).agreement
        share = max(known.saturated.values(), default=0.0) if known else 0.0
        if share > SATURATED and node not in named:
            yield _note(node, reason(node, 1))


def _measured(mg: MaseGraph) -> Agreement | None:
    """Return the agreement of the outputs; None where it was not measured."""
    (output,) = (node for node in mg.nodes if node.op == "output")
    return metadata(output).agreement


def _few(mg: MaseGraph) -> Iterator[Note]:
    known = _measured(mg)
    if known is None:
        yield Note("output", "", "the model's code", UNMEASURED)
    elif known.examples < HANDFUL and not _all_exact(mg):
        text = (
            f"formats are fitted to {known.examples} example{_plural(known.examples)}, and what "
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
