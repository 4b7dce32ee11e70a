"""Every operator of the registry, through capture, quantisation, emission and simulation.

Nobody edits this file to add an operator, a format or a pair of them: it runs `Operator.examples`
in the formats that operators claim, all side by side in one design, each example with ports of its
own.
"""

from dataclasses import replace
from itertools import islice

import pytest
import torch
from torch.utils._pytree import tree_leaves

import mase_hw
from mase_hw.emit.preflight import preflight
from mase_hw.emit.project import load_reference
from mase_hw.formats import DEFAULT_FORMAT, family_of, formats
from mase_hw.formats._encoding import Family
from mase_hw.graph import common
from mase_hw.graph.quantized import GraphRun
from mase_hw.graph.reference import IntegerReference, spec
from mase_hw.ops import Numeric, Stateful, Unary, operator_for, operators
from mase_hw.sim.simulate import ENGINES, measured_cycles
from tests._conformance import (
    FIXED,
    Example,
    Part,
    claims,
    cycles_of_parts,
    design,
    graph_of,
    number_formats,
    part_number,
    parts_in,
    rounded,
    sample,
    side_by_side,
    traced,
    vain_claims,
)

INFERENCES = 24
FULL = pytest.mark.full


def config(number_format: dict[str, object]) -> dict[str, object]:
    return {"by": "type", "default": {"config": {"name": "fixed", **number_format}}}


CONFIGS = {
    "8 bits": config({"data_in_width": 8, "weight_width": 8, "bias_width": 8}),
    "narrow and unsigned": config(
        {
            "data_in_width": 5,
            "data_in_frac_width": 2,
            "weight_width": 4,
            "bias_width": 7,
            "data_out_width": 6,
            "data_out_frac_width": 3,
            "data_out_signed": False,
            "data_out_rounding": "nearest_up",
        }
    ),
    "wide and wrapping": config(
        {
            "data_in_width": 14,
            "data_in_frac_width": 9,
            "weight_width": 11,
            "bias_width": 16,
            "data_out_width": 9,
            "data_out_frac_width": 5,
            "data_out_rounding": "floor",
            "data_out_overflow": "wrap",
        }
    ),
    "steps of two and more": config(
        {
            "data_in_width": 8,
            "data_in_frac_width": -3,
            "weight_width": 8,
            "weight_frac_width": -1,
            "bias_width": 8,
            "bias_frac_width": -2,
            "data_out_width": 9,
            "data_out_frac_width": -1,
        }
    ),
    "fractions beyond the width": config(
        {
            "data_in_width": 6,
            "data_in_frac_width": 9,
            "weight_width": 5,
            "weight_frac_width": 8,
            "bias_width": 6,
            "bias_frac_width": 10,
            "data_out_width": 7,
            "data_out_frac_width": 11,
        }
    ),
    "a coarser result": config(
        {
            "data_in_width": 8,
            "data_in_frac_width": 3,
            "weight_width": 8,
            "bias_width": 8,
            "data_out_width": 9,
            "data_out_frac_width": -2,
        }
    ),
}


def in_fixed_point() -> list[Example]:
    """Return every example but those of operators that are for other formats."""
    others = {
        operator.name
        for operator in operators().values()
        if operator.formats and DEFAULT_FORMAT not in operator.formats
    }
    return [example for example in claims() if example.operator not in others]


def everything() -> mase_hw.MaseGraph:
    """Return one graph of all examples."""
    return side_by_side(tuple(in_fixed_point()))


def everything_as(name: str) -> tuple[mase_hw.MaseGraph, list[Part]]:
    """Return `everything` in a configuration, and its parts; in 8 bits, what has no hardware so."""
    graph, entry = everything(), CONFIGS[name]["default"]["config"]
    found = {problem.node for problem in preflight(rounded(graph, CONFIGS[name]))}
    numbers = {part_number(node) for node in graph.nodes if node.name in found}
    examples = in_fixed_point()
    assert len(numbers) < len(examples) / 20, found
    parts = [
        Part(item, FIXED if place in numbers else entry) for place, item in enumerate(examples)
    ]
    others = {
        node.name: {"config": FIXED}
        for node in graph.nodes
        if node.op == "call_function" and part_number(node) in numbers
    }
    return rounded(graph, {"by": "name", "default": {"config": entry}, **others}), parts


def test_every_operator_has_an_example():
    graphs = [graph(example) for example in claims() for graph in (traced, graph_of)]
    used = {operator_for(node.target) for graph in graphs for node in graph.nodes}
    for operator in operators().values():
        composed = isinstance(operator, Unary) and operator.targets[0].startswith("mase.")
        if not composed and not isinstance(operator, Stateful):
            assert operator in used, f"no example of {operator.name} uses it"


def test_every_expression_computes_what_torch_does():
    """The float graph that is made hardware of is the one that was captured, in torch's numbers."""
    for example in claims():
        if operators()[example.operator].formats:
            continue
        with torch.no_grad():
            found, expected = (
                tree_leaves(graph(*example.inputs))
                for graph in (graph_of(example), traced(example))
            )
        for left, right in zip(found, expected, strict=True):
            torch.testing.assert_close(left, right, rtol=1e-4, atol=1e-4, msg=str(example))


CONFIGURED = [pytest.param(name, marks=FULL) if name != "8 bits" else name for name in CONFIGS]


@pytest.fixture(scope="module", params=CONFIGURED)
def quantized(request):
    return everything_as(request.param)[0]


def test_reference_is_the_fake_quantized_model(quantized):
    """In float64 the decoded codes of every node are what the quantised model makes of those
    before, exactly.
    """
    generator = torch.Generator().manual_seed(1)
    codes = [
        spec(node).quantized.random_codes((INFERENCES, *spec(node).shape), generator)
        for node in quantized.inputs
    ]
    model = quantized.copy().double()
    computed = [node for node in model.nodes if node.op == "call_function"]
    found = IntegerReference(quantized)(codes, [node.name for node in computed])
    values = {
        node: spec(node).quantized.decode(item).reshape(INFERENCES, *spec(node).shape[1:])
        for node, item in zip(model.inputs, codes, strict=True)
    }
    run = GraphRun(model)
    for node in computed:
        with torch.no_grad():
            output = run.step(node, values)
        decoded = values[node] = spec(node).quantized.decode(found[node.name]).reshape(output.shape)
        wrong = (decoded != output).nonzero()
        if len(wrong):
            missed = _difference(node, decoded, output, wrong)
            assert Numeric.of(operators()[common(node).operator]).approximates, missed
            step = 2.0 ** -spec(node).quantized.frac_width
            assert (decoded - output).abs().max() <= _slack(node, step), missed
            likely = output.numel() * _misses(node)
            # How many of few elements they are scatters.
            assert len(wrong) <= likely + 2 * likely**0.5, missed


def _difference(node, decoded, output, wrong):
    place = tuple(wrong[0].tolist())
    return f"{common(node).operator} {node.name}{place}: {decoded[place]} is not {output[place]}"


def _operands(node):
    return [item for item in common(node).operands.values() if item.format is not None]


def _misses(node):
    """A table is right where float64 rounds a product to a tie, which is rare; wide inputs miss
    often where a small negative value is rounded down. What is made of several tables is a small
    part of a step off, and misses where that part has a boundary in it.
    """
    wide = any(item.quantized.bits_per_element > 12 for item in _operands(node))
    if wide or isinstance(operators()[common(node).operator], Unary):
        return 1.0 if wide else 0.03
    return 0.1


def _slack(node, step):
    """A nonlinear function may miss by a step, and wrap where that crosses the range's end."""
    number_format = spec(node).quantized
    whole = 2.0**number_format.width * step
    return whole if number_format.overflow == "wrap" else step


PRESSURES = {
    "none": {},
    "idle input": {"stall": 0.4, "stalled": "inputs"},
    "back-pressure": {"stall": 0.4, "stalled": "outputs"},
    "both": {"stall": 0.4},
}


def check_hardware(project, parts, monkeypatch):
    """Simulate a design under every pressure; without any, each part takes its cycles."""
    runs, native = [], ENGINES["native"]

    def record(request):
        runs.append((request, native(request)))
        return runs[-1][1]

    monkeypatch.setitem(ENGINES, "native", record)
    reference = load_reference(project.folder)
    for pressure, options in PRESSURES.items():
        report = mase_hw.simulate(
            project, samples=INFERENCES, seed=7, reference=reference, **options
        )
        assert report.bit_exact, (pressure, report.first_mismatch or report.violations)
        assert report.elements > 0
        if not options:
            assert report.interval_cycles == report.predicted_interval_cycles
            assert report.latency_cycles == report.predicted_latency_cycles
    check_cycles(*runs[0], parts, cycles_of_parts(project.mg, parts))


def check_cycles(request, result, parts, predicted):
    summary, wrong = request.summary, []
    inputs, outputs = iter(summary.inputs), iter(summary.outputs)
    for part, (latency, intervals) in zip(parts, predicted, strict=True):
        counts = part.ports
        own = replace(
            summary,
            inputs=tuple(islice(inputs, counts[0])),
            outputs=tuple(islice(outputs, counts[1])),
        )
        measured = measured_cycles(replace(request, summary=own), result)
        if measured[0] != latency or not intervals[0] <= (measured[1] or 0) <= intervals[-1]:
            expected = f"{latency}, {intervals[0]} to {intervals[-1]}"
            wrong.append(f"{part.example} {part.entry}: {measured} cycles, not {expected}")
    assert not list(inputs)
    assert not list(outputs)
    assert not wrong, "\n".join(wrong)


# The first is every operator in fixed point, below.
HARDWARE = [(name, 1 + 2 * (turn % 2)) for turn, name in enumerate(list(CONFIGS)[1:])]


@FULL
@pytest.mark.parametrize(("name", "parallelism"), HARDWARE)
def test_fixed_point_equals_the_reference(name, parallelism, tmp_path, monkeypatch):
    graph, parts = everything_as(name)
    project = emit(graph, tmp_path, parallelism)
    check_hardware(project, parts, monkeypatch)


def emit(quantized, folder, parallelism):
    return mase_hw.emit_verilog(quantized, output=folder / "all", parallelism=parallelism)


# Lanes of every element, lanes that leave a tail, and lanes that do not divide blocks either.
PARALLELISMS = (1, 3, 4)
FORMATS = [
    pytest.param(name, turn, id=f"{name}-{lanes}")
    for name in number_formats()
    for turn, lanes in enumerate(PARALLELISMS)
]


@FULL
@pytest.mark.parametrize(("name", "turn"), FORMATS)
def test_every_operator_in_every_format_that_it_claims(name, turn, tmp_path, monkeypatch):
    parts, refused = parts_in(name, turn)
    assert all(refused.values()), [example for example, reasons in refused.items() if not reasons]
    if parts:
        project = emit(design(parts, name), tmp_path, PARALLELISMS[turn])
        check_hardware(project, parts, monkeypatch)


@pytest.mark.parametrize("half", [0, 1])
def test_every_operator_in_some_format(half, tmp_path, monkeypatch):
    parts = sample()[half::2]
    check_hardware(emit(design(parts), tmp_path, 3), parts, monkeypatch)


def one_of_each_family():
    """Return every format; those that are not the first of their family are full."""
    first = {family_of(formats()[name]): name for name in reversed(number_formats())}
    return [
        pytest.param(name, marks=[] if name in first.values() else FULL)
        for name in number_formats()
    ]


@pytest.mark.parametrize("name", one_of_each_family())
def test_no_operator_claims_a_format_in_vain(name):
    assert vain_claims(name) == []


@pytest.mark.full
def test_a_claim_in_vain_is_found(monkeypatch):
    name, operator = "mxint", operators()["linear"]
    assert name in operator.formats
    monkeypatch.setattr(type(operator), "problems", lambda self, call: ["no"])
    assert vain_claims(name) == ["linear claims mxint: no"]
    monkeypatch.setattr(type(operator), "families", operator.families - {Family.INTEGER_BLOCK})
    assert vain_claims(name) == []


@pytest.mark.full
@pytest.mark.parametrize("name", number_formats())
def test_cycles_and_multipliers_are_the_same_for_all_constants(name):
    """Of nodes that differ only in the values of their constants a search measures one."""
    graph, seen = design(parts_in(name, 0)[0], name), 0
    for node in graph.nodes:
        call = graph.call(node) if node.op == "call_function" else None
        if call is None or not call.constants or call.operator.problems(call):
            continue
        others = {key: torch.zeros_like(value) for key, value in call.constants.items()}
        other = replace(call, constants=others, _known={})
        found = [item.operator.hardware(item) for item in (call, other)]
        assert found[0].multipliers == found[1].multipliers, call.name
        assert found[0].busy_cycles == found[1].busy_cycles, call.name
        seen += 1
    assert seen > 3 or name not in operators()["linear"].formats
