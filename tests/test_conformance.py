"""Every operator of the registry, through capture, quantisation, emission and simulation.

Nobody edits this file to add an operator, a format or a pair of them: it runs `Operator.examples`
in the formats that operators claim, all that are selected side by side in one design, each example
with ports of its own. `-k NAME` selects what is about one operator.
"""

from collections.abc import Iterable
from dataclasses import replace
from itertools import islice

import pytest
import torch
from torch.utils._pytree import tree_leaves

import mase_hw
from mase_hw.emit.preflight import preflight
from mase_hw.emit.project import load_reference
from mase_hw.formats import DEFAULT_FORMAT
from mase_hw.formats._encoding import Family
from mase_hw.graph import common
from mase_hw.graph.quantized import GraphRun
from mase_hw.graph.reference import IntegerReference, spec
from mase_hw.ops import Numeric, Operator, Stateful, Unary, operator_for, operators
from mase_hw.sim.simulate import ENGINES, measured_cycles
from tests._conformance import (
    FIXED,
    Example,
    Part,
    claims,
    cycles_of_parts,
    design,
    further_formats,
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
from tests._tiers import selected
from tests.engines import as_predicted, exact

INFERENCES = 24
FULL = pytest.mark.full


def config(data_in, weight, bias, data_out=(), **result):
    """Return a configuration of widths, with fractions or those of the data."""
    entry = {f"data_out_{key}": value for key, value in result.items()}
    given = {"data_in": data_in, "weight": weight, "bias": bias, "data_out": data_out}
    for operand, sizes in given.items():
        entry |= dict(zip((f"{operand}_width", f"{operand}_frac_width"), sizes, strict=False))
    return {"by": "type", "default": {"config": {"name": "fixed", **entry}}}


CONFIGS = {
    "8 bits": config([8], [8], [8]),
    "narrow and unsigned": config([5, 2], [4], [7], [6, 3], signed=False, rounding="nearest_up"),
    "wide and wrapping": config([14, 9], [11], [16], [9, 5], rounding="floor", overflow="wrap"),
    "steps of two and more": config([8, -3], [8, -1], [8, -2], [9, -1]),
    "fractions beyond the width": config([6, 9], [5, 8], [6, 10], [7, 11]),
    "a coarser result": config([8, 3], [8], [8], [9, -2]),
}


def in_fixed_point(names: Iterable[str]) -> list[Example]:
    chosen = set(names)
    return [
        example
        for example in claims()
        if example.operator in chosen and _has_fixed_point(operators()[example.operator])
    ]


def _has_fixed_point(operator: Operator) -> bool:
    return not operator.formats or DEFAULT_FORMAT in operator.formats


def configured(name: str, operators_: Iterable[str]) -> tuple[mase_hw.MaseGraph, list[Part]]:
    """Return the examples of operators in a configuration; in 8 bits, what has no hardware so."""
    examples = in_fixed_point(operators_)
    graph, entry = side_by_side(tuple(examples)), CONFIGS[name]["default"]["config"]
    refused = {problem.node for problem in preflight(rounded(graph, CONFIGS[name]))}
    numbers = {part_number(node) for node in graph.nodes if node.name in refused}
    assert len(numbers) <= len(examples) / 20, refused
    parts = [
        Part(item, FIXED if place in numbers else entry) for place, item in enumerate(examples)
    ]
    others = {
        node.name: {"config": FIXED}
        for node in graph.nodes
        if node.op == "call_function" and part_number(node) in numbers
    }
    return rounded(graph, {"by": "name", "default": {"config": entry}, **others}), parts


MEMBERS = {name: item for name, item in operators().items() if not isinstance(item, Stateful)}
NAMES = list(MEMBERS)


def _is_composed(operator: Operator) -> bool:
    return isinstance(operator, Unary) and operator.targets[0].startswith("mase.")


@pytest.mark.parametrize("operator", [n for n, item in MEMBERS.items() if not _is_composed(item)])
def test_an_example_uses_it(operator):
    """One of its own, or of an operator that is made of it."""
    for example in sorted(claims(), key=lambda example: example.operator != operator):
        graphs = (traced(example), graph_of(example))
        if any(operator_for(node.target) is MEMBERS[operator] for g in graphs for node in g.nodes):
            return
    pytest.fail("no example uses it")


@pytest.mark.parametrize("operator", [n for n, item in MEMBERS.items() if not item.formats])
def test_an_expression_computes_what_torch_does(operator):
    """The float graph that is made hardware of is the one that was captured, in torch's numbers."""
    for example in claims():
        if example.operator == operator:
            with torch.no_grad():
                computed, expected = (
                    tree_leaves(graph(*example.inputs))
                    for graph in (graph_of(example), traced(example))
                )
            for left, right in zip(computed, expected, strict=True):
                torch.testing.assert_close(left, right, rtol=1e-4, atol=1e-4, msg=str(example))


@pytest.fixture(scope="module")
def differences(request):
    """What the reference computes otherwise than the model, by operator."""
    return differences_of(*configured("8 bits", selected(request, "operator", NAMES)))


@pytest.mark.parametrize("operator", [n for n, item in MEMBERS.items() if _has_fixed_point(item)])
def test_the_reference_is_the_fake_quantized_model(operator, differences):
    assert differences[operator] == []


@FULL
@pytest.mark.parametrize("name", list(CONFIGS)[1:])
def test_the_reference_is_the_fake_quantized_model_in(name):
    assert not any(differences_of(*configured(name, NAMES)).values())


def differences_of(quantized, parts):
    """Return, by the operator of an example, what its nodes compute otherwise than the model does.

    In float64 the decoded codes of every node are what the quantised model makes of those before,
    exactly.
    """
    generator = torch.Generator().manual_seed(1)
    codes = [
        spec(node).quantized.random_codes((INFERENCES, *spec(node).shape), generator)
        for node in quantized.inputs
    ]
    model = quantized.copy().double()
    computed = [node for node in model.nodes if node.op == "call_function"]
    results = IntegerReference(quantized)(codes, [node.name for node in computed])
    values = {
        node: spec(node).quantized.decode(item).reshape(INFERENCES, *spec(node).shape[1:])
        for node, item in zip(model.inputs, codes, strict=True)
    }
    run = GraphRun(model)
    wrong = {part.example.operator: [] for part in parts}
    for node in computed:
        with torch.no_grad():
            output = run.step(node, values)
        decoded = spec(node).quantized.decode(results[node.name]).reshape(output.shape)
        values[node] = decoded
        if not _agrees(node, decoded, output):
            difference = _difference(node, decoded, output)
            wrong[parts[part_number(node)].example.operator].append(difference)
    return wrong


def _agrees(node, decoded, output):
    count = int((decoded != output).sum())
    if not count:
        return True
    step = 2.0 ** -spec(node).quantized.frac_width
    # How many of few elements differ scatters.
    likely = output.numel() * _misses(node)
    return (
        Numeric.of(operators()[common(node).operator]).approximates
        and bool((decoded - output).abs().max() <= _slack(node, step))
        and count <= likely + 2 * likely**0.5
    )


def _difference(node, decoded, output):
    place = tuple((decoded != output).nonzero()[0].tolist())
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


# None, idle inputs, back-pressure, and both.
PRESSURES = (
    {},
    {"stall": 0.4, "stalled": "inputs"},
    {"stall": 0.4, "stalled": "outputs"},
    {"stall": 0.4},
)


def wrong_cycles(project, parts):
    """Simulate a design under every pressure; return the parts that take other cycles by operator.

    The cycles are those without pressure.
    """
    runs, native = [], ENGINES["native"]

    def record(request):
        runs.append((request, native(request)))
        return runs[-1][1]

    reference = load_reference(project.folder)
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setitem(ENGINES, "native", record)
        for options in PRESSURES:
            check = exact if options else as_predicted
            check(project, samples=INFERENCES, seed=7, reference=reference, **options)
    return compared_cycles(*runs[0], parts, cycles_of_parts(project.mg, parts))


def compared_cycles(request, result, parts, predicted):
    summary, wrong = request.summary, {part.example.operator: [] for part in parts}
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
            difference = f"{part.example} {part.entry}: {measured} cycles, not {expected}"
            wrong[part.example.operator].append(difference)
    assert not list(inputs)
    assert not list(outputs)
    return wrong


def emitted(quantized, folder, parallelism):
    return mase_hw.emit_verilog(quantized, output=folder / "all", parallelism=parallelism)


# In 8 bits every operator is simulated in one of its formats, below.
HARDWARE = [(name, 1 + 2 * (turn % 2)) for turn, name in enumerate(list(CONFIGS)[1:])]


@FULL
@pytest.mark.parametrize(("name", "parallelism"), HARDWARE)
def test_fixed_point_equals_the_reference(name, parallelism, tmp_path):
    graph, parts = configured(name, NAMES)
    assert not any(wrong_cycles(emitted(graph, tmp_path, parallelism), parts).values())


# Lanes of every element, lanes that leave a tail, and lanes that do not divide blocks either.
PARALLELISMS = (1, 3, 4)
FORMATS = [
    pytest.param(name, turn, id=f"{name}-{lanes}")
    for name in number_formats()
    for turn, lanes in enumerate(PARALLELISMS)
]


@FULL
@pytest.mark.parametrize(("name", "turn"), FORMATS)
def test_every_operator_in_every_format_that_it_claims(name, turn, tmp_path):
    parts, refused = parts_in(name, turn)
    assert all(refused.values()), [example for example, reasons in refused.items() if not reasons]
    if parts:
        project = emitted(design(parts, name), tmp_path, PARALLELISMS[turn])
        assert not any(wrong_cycles(project, parts).values())


@pytest.fixture(scope="module", params=["first example", pytest.param("others", marks=FULL)])
def simulated(request, tmp_path_factory):
    """The parts that take other cycles than predicted, by operator, of one design."""
    parts = sample(selected(request, "operator", NAMES), first=request.param == "first example")
    return wrong_cycles(emitted(design(parts), tmp_path_factory.mktemp("some"), 3), parts)


@pytest.mark.parametrize("operator", [n for n, item in MEMBERS.items() if further_formats(item)])
def test_hardware_in_some_format(operator, simulated):
    assert simulated.get(operator, []) == []


@pytest.mark.first(2)
@pytest.mark.parametrize("name", number_formats())
def test_no_operator_claims_a_format_in_vain(name):
    assert vain_claims(name) == []


@FULL
def test_a_claim_in_vain_is_found(monkeypatch):
    name, operator = "mxint", operators()["linear"]
    assert name in operator.formats
    monkeypatch.setattr(type(operator), "problems", lambda self, call: ["no"])
    assert vain_claims(name) == ["linear claims mxint: no"]
    monkeypatch.setattr(type(operator), "families", operator.families - {Family.INTEGER_BLOCK})
    assert vain_claims(name) == []


@FULL
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
