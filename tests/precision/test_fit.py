"""Formats that are found keep what was asked on held-out samples, for less hardware."""

import csv
import itertools
import json
import math
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import mase_hw
from mase_hw._config_file import read_formats
from mase_hw.cli._model import Subject, read_config
from mase_hw.emit.flow import canonicalize, lowered
from mase_hw.emit.warnings import warnings
from mase_hw.errors import ConfigError, DataError, MaseError, PrecisionError
from mase_hw.formats import make_format
from mase_hw.graph.nodes import metadata
from mase_hw.graph.quantized import GraphRun
from mase_hw.hardware.estimate import Estimate
from mase_hw.hardware.explore import Explorer, Targets
from mase_hw.passes.canonical.software_metadata import add_software_metadata_analysis_pass
from mase_hw.passes.formats.quantize import quantize_transform_pass
from mase_hw.passes.hardware.problem import Problem
from mase_hw.precision import Fitted, fit_formats, train_formats
from mase_hw.precision.choice import Chooser, Pick, cheapest
from mase_hw.precision.cost import CostTable, cost_of, with_lanes
from mase_hw.precision.evaluation import Goal
from mase_hw.precision.figures import Scorer
from mase_hw.precision.fitting import Fitting
from mase_hw.precision.noise import Measure, NoiseTable, Propagation, Target, measured_options
from mase_hw.precision.report import head, write
from mase_hw.precision.samples import Part, Samples, with_ranges
from mase_hw.precision.space import Option, configuration, operands_of, uniform


def spread(model: nn.Module) -> nn.Module:
    """Scale output channels over three decades, as trained weights are spread."""
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for layer in model.modules():
            if isinstance(layer, nn.Linear):
                scale = 10 ** (3 * torch.rand(len(layer.weight), generator=generator) - 2)
                layer.weight.mul_(scale[:, None])
                layer.bias.mul_(scale)
    return model.eval()


def perceptron(examples: int = 400) -> mase_hw.MaseGraph:
    torch.manual_seed(0)
    model = spread(nn.Sequential(nn.Linear(12, 10), nn.ReLU(), nn.Linear(10, 4)))
    return mase_hw.trace(model, torch.randn(examples, 12), name="net")


class Block(nn.Module):
    """Several consumers of one tensor, a product of two streams, and a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)
        self.norm = nn.LayerNorm(8)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        a, b = self.first(x), self.second(x)
        scores = (a @ b.transpose(1, 2)).softmax(-1)
        y = x + scores @ a
        return self.norm(y), y


def block() -> mase_hw.MaseGraph:
    torch.manual_seed(1)
    return mase_hw.trace(spread(Block()), torch.randn(200, 4, 8), name="block")


def raw(mg: mase_hw.MaseGraph) -> Measure:
    """Count errors of all outputs by the power of their values."""
    values = GraphRun(mg, only=()).values(mg.example_inputs)
    powers = [(node, values[node.name].detach().square().mean()) for node in mg.outputs]
    return Measure([Target(node, power.rsqrt()) for node, power in powers])


def asked(**goal: object) -> Fitted:
    return fit_formats(perceptron(), **{"formats": ["fixed"], **goal})  # type: ignore[arg-type]


def observed(mg: mase_hw.MaseGraph) -> mase_hw.MaseGraph:
    return add_software_metadata_analysis_pass(canonicalize(mg), {})[0]


def test_the_goal_holds_on_held_out_samples_for_less_than_uniform_formats() -> None:
    for graph, goal in ((perceptron(), 35.0), (block(), 30.0)):
        found = fit_formats(graph, min_sqnr=goal)
        assert found.result.sqnr_db >= goal
        uniform = [item for item in found.front if item.name.startswith("uniform")]
        as_good = list(filter(found.keeps, uniform))
        assert as_good
        assert found.result.cost.weighed < min(item.cost.weighed for item in as_good)


@pytest.mark.full
def test_ranges_reach_over_the_samples_to_compare_on() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4)).eval()
    inputs = torch.randn(200, 6).clamp(-0.9, 0.9)
    inputs[1::2] *= 9
    graph = mase_hw.trace(model, inputs)
    found = fit_formats(graph, min_sqnr=35.0, formats=["fixed"], prepare=False)
    assert found.result.sqnr_db >= 35.0


def test_ranges_reach_as_far_as_samples_to_come() -> None:
    torch.manual_seed(0)
    mg = observed(mase_hw.trace(nn.Linear(4, 3), torch.randn(64, 4)))
    bounded = torch.rand(64, 4)
    bounded[:, 0], bounded[:, 1] = 0.0, 1.0
    for inputs, most in ((torch.randn(64, 4), 6.0), (bounded, 1.0)):
        samples, _ = Samples.of(mg, [inputs])
        reached = metadata(with_ranges(mg, samples).inputs[0]).software.ranges["data_out_0"]
        fresh = torch.randn(10_000, 4) if most > 1 else torch.rand(10_000, 4)
        assert float(fresh.max()) <= reached.maximum <= most
        assert -most <= reached.minimum <= (float(fresh.min()) if most > 1 else 0.0)


@pytest.mark.full
def test_a_configuration_that_was_found_is_taken_back(tmp_path: Path) -> None:
    graph = block()
    found = fit_formats(graph, min_sqnr=30)
    path = write(found, tmp_path)
    config = tomllib.loads(path.read_text())["quantize"]
    again = mase_hw.quantize(graph, config)
    assert formats_of(again) == formats_of(found.graph)
    with (tmp_path / "formats.csv").open() as file:
        assert [row["format"] for row in csv.DictReader(file)] == [r.format for r in found.rows]
    assert (tmp_path / "front.svg").is_file()
    assert 0 < sum(row.cost_share or 0.0 for row in found.rows) <= 1


def formats_of(mg: mase_hw.MaseGraph) -> dict[str, list[str]]:
    calls = {node.name: mg.call(node) for node in mg.nodes if node.op == "call_function"}
    return {
        name: [str(spec.format) for spec in (*call.operands.values(), *call.results.values())]
        for name, call in calls.items()
    }


def test_predicted_noise_is_that_of_each_operand_rounded_alone() -> None:
    mg = observed(block())
    operands = operands_of(mg, ["fixed"])
    table = NoiseTable(mg, operands, raw(mg))
    table.add(mg.example_inputs)
    nodes = [item.node for item in operands]
    part = Propagation(mg, nodes, raw(mg), mg.example_inputs, torch.Generator())
    for place, item in enumerate(operands):
        number = measured_options(item)[4]
        changed = part._changed(item, item.options[number].number_format)
        power = part._directly(item.node, changed)
        for output in range(2):
            real = float(power[output].detach())
            predicted = float(table.power[place][number][output].detach())
            if real > 1e-9 * float(table.signal[output].detach()):
                # 16 random vectors of few examples.
                assert abs(10 * math.log10(predicted / real)) < 3.0


def test_the_solver_finds_what_enumeration_finds() -> None:
    torch.manual_seed(0)
    mg = observed(mase_hw.trace(spread(nn.Sequential(nn.Linear(6, 3))), torch.randn(32, 6)))
    operands = [
        type(item)(item.node, item.name, item.word, item.options[:5])
        for item in operands_of(mg, ["fixed"])
    ]
    table = NoiseTable(mg, operands, raw(mg))
    table.add(mg.example_inputs)
    noise = table.relative()
    reference, _ = quantize_transform_pass(mg, uniform(mg, {"name": "fixed", "width": 16}))
    costs = CostTable(with_lanes(reference, 1))
    chooser = Chooser(operands, noise, costs)

    node, widest = operands[0].node, {item.name: item.options[-1] for item in operands[:2]}

    def priced(**options: Option) -> float:
        estimate = costs.of(node, options)
        assert estimate is not None
        return estimate.weighed

    def cost(numbers: tuple[int, ...]) -> float:
        """The first two operands together, each other one by what it adds to their widest."""
        options = {i.name: i.options[n] for i, n in zip(operands, numbers, strict=True)}
        first = {name: options.pop(name) for name in widest}
        more = [priced(**widest, **{key: value}) for key, value in options.items()]
        return priced(**first) + sum(more) - len(more) * priced(**widest)

    every = list(itertools.product(*(range(len(item.options)) for item in operands)))
    sums = {n: sum(float(noise[p][i][0]) for p, i in enumerate(n)) for n in every}
    bound = sorted(sums.values())[len(sums) // 10]
    best = min(cost(n) for n in every if sums[n] <= bound)
    chosen = chooser.solved(torch.tensor([bound], dtype=torch.float64), {})
    assert chosen is not None
    assert sums[chosen.options] <= bound
    assert cost(chosen.options) <= best * 1.01 + 1


def test_equal_costs_are_told_by_bits_of_memory() -> None:
    """More bits lose less, which nobody asked for."""
    noise = torch.tensor([1e-3, 1e-6], dtype=torch.float64)
    for order in ((0, 1), (1, 0)):
        problem = Problem[Pick]()
        bits = torch.tensor([6.0, 15.0])[list(order)]
        problem.add(
            [
                Pick(((0, number),), Estimate(lut=100, memory_bits=float(many)), noise[None, place])
                for number, (many, place) in enumerate(zip(bits, order, strict=True))
            ]
        )
        picked = cheapest(problem, torch.tensor([1e-2], dtype=torch.float64))
        assert picked is not None
        assert [pick.cost.memory_bits for pick in picked] == [6.0]


def test_what_takes_more_than_a_uniform_format_says_what_it_saves() -> None:
    found = fit_formats(perceptron(), min_sqnr=30, prepare=False)
    uniform = [item for item in found.front if item.name.startswith("uniform")]
    other = min(filter(found.keeps, uniform), key=lambda item: item.cost.order)
    assert found.result.cost.order <= other.cost.order
    (line,) = (text for text in head(found) if text.startswith(f"Beside {other.name}"))
    for name, resource in (("LUT", "lut"), ("BRAM", "bram"), ("bits of memory", "memory_bits")):
        more = getattr(found.result.cost, resource) - getattr(other.cost, resource)
        assert (f"{name} more" in line) == (round(more, 1) >= 0.5)
        assert (f"{name} less" in line) == (round(more, 1) <= -0.5)


def test_accuracy_is_kept_where_it_is_asked_for() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
    inputs = torch.randn(8000, 8)
    labels = model(inputs).argmax(1)
    graph = mase_hw.trace(model, inputs[:16])
    found = fit_formats(graph, data=[inputs], labels=labels, max_drop=2.0, formats=["fixed"])
    assert found.float_accuracy == 1.0
    compared = found.result.compared
    assert compared is not None
    assert compared.assured_drop <= 2.0
    # Of other samples, within two standard errors.
    assert found.result.drop is not None
    assert found.result.drop <= 3.0
    loose = [item for item in found.front if item.name == "uniform fixed 8"]
    assert found.result.cost.weighed < loose[0].cost.weighed


@pytest.mark.full
def test_accuracy_is_counted_on_as_many_samples_as_its_bound_needs() -> None:
    torch.manual_seed(0)
    model, inputs = nn.Linear(8, 3), torch.randn(20_000, 8)
    labels = model(inputs).argmax(1)
    mg = observed(mase_hw.trace(model, inputs[:64]))
    samples = Part([[inputs]], len(inputs), labels)
    worse, better = (quantized(mg, width) for width in (4, 12))
    for limit in (0.5, 20.0):
        scorer = Scorer(mg, samples, limit)
        for graph in (worse, better):
            part = scorer.of(graph)
            whole = scorer.of(graph, part)
            assert len(part.right) < len(whole.right) == 20_000
            assert (part.drop > limit) == (whole.drop > limit)
    exact = float((better(inputs).argmax(1) == labels).double().mean())
    assert whole.accuracy == pytest.approx(exact)
    found = fit_formats(
        mase_hw.trace(model, inputs[:64]),
        data=[inputs],
        labels=labels,
        max_drop=0.5,
        formats=["fixed"],
    )
    assert found.result.scored is not None
    assert len(found.result.scored.right) == 5_000
    assert found.result.drop is not None
    assert found.result.drop <= 0.5


def quantized(mg: mase_hw.MaseGraph, width: int) -> mase_hw.MaseGraph:
    return quantize_transform_pass(mg, uniform(mg, {"name": "fixed", "width": width}))[0]


def test_consumers_are_narrowed_where_no_result_is_as_wide_as_they_ask() -> None:
    class Rows(nn.Module):
        """A norm of rows so long that hardware bounds the width of its result."""

        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.LayerNorm(512)
            self.first, self.second = nn.Linear(512, 3), nn.Linear(512, 3)

        def forward(self, x: Tensor) -> Tensor:
            y = self.norm(x)
            found: Tensor = self.first(y) * self.second(y)
            return found

    torch.manual_seed(0)
    graph = mase_hw.trace(Rows().eval(), torch.randn(40, 512))
    found = fit_formats(graph, min_sqnr=80, formats=["fixed"], prepare=False)
    assert found.result.sqnr_db >= 80
    # Not the narrowest uniform format, to which a choice that fails comes down.
    assert len({row.bits for row in found.rows}) > 2
    as_good = list(filter(found.keeps, found.front))
    assert all(found.result.cost.weighed <= item.cost.weighed for item in as_good)


def test_formats_are_refused_without_the_weights_they_were_found_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    graph = perceptron()
    found = replace(fit_formats(graph, min_sqnr=20, formats=["fixed"]), trained=True)
    path = write(found, tmp_path)
    given = read_config(path)
    with pytest.raises(ConfigError, match=r"model\.mase: with others it keeps less; give"):
        given.settle(Subject(graph))
    own = Subject(mase_hw.MaseGraph.load(tmp_path / "model.mase"))
    assert given.settle(own).quantize == found.config
    assert read_formats(path) == found.config
    assert "with others it keeps less" in caplog.text


class Results(nn.Module):
    """A layer of whose results a function makes outputs."""

    def __init__(self, outputs: Callable[[Tensor], object]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.outputs = nn.Linear(6, 5), outputs

    def forward(self, x: Tensor) -> object:
        return self.outputs(self.layer(x))


def test_outputs_that_are_indices_count_by_equality() -> None:
    graph = mase_hw.trace(Results(lambda y: y.argmax(-1)), torch.randn(80, 6))
    found = fit_formats(graph, max_drop=5.0, formats=["fixed"])
    (equal,) = (item.equal for item in found.result.outputs.values())
    assert equal is not None
    assert equal >= 0.95
    with pytest.raises(ConfigError, match=r"indices or truths.*max_drop"):
        fit_formats(graph, min_sqnr=30)
    # Uniform 8 bits, which take 231, keep all.
    within = fit_formats(graph, max_lut=300, formats=["fixed"])
    assert within.result.cost.lut <= 300
    assert within.result.drop == 0


def test_truths_beside_real_outputs_leave_the_bound_to_those() -> None:
    graph = mase_hw.trace(Results(lambda y: (y > 0, y)), torch.randn(80, 6))
    found = fit_formats(graph, min_sqnr=30, formats=["fixed"])
    assert found.result.sqnr_db >= 30
    assert {item.sqnr_db is None for item in found.result.outputs.values()} == {True, False}


@pytest.mark.full
def test_the_best_agreement_within_a_budget() -> None:
    tight, loose = asked(max_lut=420), asked(max_lut=600)
    assert tight.result.sqnr_db <= loose.result.sqnr_db
    assert tight.result.cost.lut <= 420


@pytest.mark.full
def test_a_run_that_was_stopped_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, int]] = []
    first = asked(min_sqnr=30, output=tmp_path, progress=lambda *pair: seen.append(pair))
    assert seen == sorted(seen)
    assert all(done <= total for done, total in seen)

    def refuse(*_: object) -> None:
        raise AssertionError("measured again")

    monkeypatch.setattr(NoiseTable, "add", refuse)
    second = asked(min_sqnr=30, output=tmp_path)
    assert (second.config, second.rows) == (first.config, first.rows)
    with pytest.raises(AssertionError, match="measured again"):
        asked(min_sqnr=30, seed=1, output=tmp_path)


@pytest.mark.parametrize(
    ("goal", "kind", "message"),
    [
        ({}, ConfigError, "nothing is asked"),
        ({"min_sqnr": 30, "max_drop": 1}, ConfigError, "give one of them"),
        ({"min_sqnr": math.nan}, ConfigError, "min_sqnr is nan"),
        ({"max_lut": -1}, ConfigError, "max_lut is -1"),
        ({"min_sqnr": 400}, PrecisionError, r"the finest formats.* dB.* of linear_. .*limits it"),
        ({"max_lut": 10}, PrecisionError, r"max_lut 10 is too little: net takes \d+"),
        ({"max_bram": 0, "min_sqnr": 100, "max_lut": 300}, PrecisionError, "at once"),
        ({"max_drop": 1}, DataError, "needs labels"),
        ({"min_sqnr": 30, "formats": ["none"]}, ConfigError, "allowed: fixed"),
        ({"min_sqnr": 30, "data": []}, DataError, "no example"),
        ({"min_sqnr": 30, "data": [torch.randn(1, 12)]}, DataError, "none can be held out"),
        ({"min_sqnr": 30, "data": [torch.full((8, 12), math.nan)]}, DataError, "NaN"),
        ({"min_sqnr": 30, "data": [torch.full((8, 12), math.inf)]}, DataError, "infinities"),
        ({"max_drop": 1, "labels": torch.zeros(3)}, DataError, "3 labels of 400 examples"),
    ],
)
def test_what_cannot_be_kept_is_said(
    goal: dict[str, object], kind: type[MaseError], message: str
) -> None:
    with pytest.raises(kind, match=message):
        asked(**goal)


def test_scales_that_are_powers_of_two_lose_little_and_reach_as_far() -> None:
    weight = torch.randn(6, 20, generator=torch.Generator().manual_seed(0))
    weight *= torch.logspace(-3, 0, 6)[:, None]
    errors = {}
    for power in (False, True):
        fields = {"name": "scaled_integer", "channel_axis": 0, "power_of_two": power}
        cls = type(make_format({**fields, "scale": 1.0}))
        made = cls.fit_values(weight, width=8, channel_axis=0, power_of_two=power)
        assert bool(made.in_range(weight).all())
        errors[power] = float((made.round_values(weight) / weight - 1).abs().max())
        if power:
            assert all(math.frexp(scale)[0] == 0.5 for scale in made.scales)  # type: ignore[attr-defined]
    assert errors[False] < errors[True] * 1.5


def test_eight_bits_that_destroy_a_model_name_the_command() -> None:
    torch.manual_seed(0)
    layers = [nn.Linear(16, 16) for _ in range(2)]
    with torch.no_grad():
        layers[0].weight[1:] *= 1e-3
        layers[0].bias.zero_()
        layers[1].bias.zero_()
        layers[1].weight[:, :1] = 0
    graph = mase_hw.trace(nn.Sequential(*layers), torch.randn(32, 16))
    text = "\n".join(map(str, warnings(mase_hw.quantize(graph), configured=False)))
    assert "mase-hw fit MODEL --min-sqnr 30" in text
    assert "mase-hw fit" not in "\n".join(map(str, warnings(mase_hw.quantize(graph))))


def test_configurations_hold_what_is_chosen() -> None:
    mg = observed(perceptron())
    operands = operands_of(mg)
    config = configuration(mg, operands, [len(item.options) - 1 for item in operands])
    json.dumps(config)
    quantized, _ = quantize_transform_pass(mg, config)
    for item in operands:
        specs = quantized.call(quantized.node(item.node.name))
        found = {**specs.operands, **specs.results}[item.name].format
        assert found == item.options[-1].number_format


@pytest.mark.full
def test_formats_and_parallelism_meet_a_rate_together(tmp_path: Path) -> None:
    graph = perceptron()
    asked = {"default": "auto", "target_interval": 40}
    found = fit_formats(graph, min_sqnr=25, parallelism=asked, formats=["fixed"])
    path = write(found, tmp_path)
    tables = tomllib.loads(path.read_text())
    project = mase_hw.emit_verilog(
        graph,
        output=tmp_path / "net",
        config=tables["quantize"],
        parallelism=tables["parallelism"],
    )
    assert project.design.interval_cycles <= 40
    assert found.result.sqnr_db >= 25
    with pytest.raises(ConfigError, match="max_lut and max_bram"):
        fit_formats(graph, min_sqnr=25, parallelism={"default": "auto", "max_dsp": 3})


@pytest.mark.full
def test_formats_and_lanes_are_chosen_in_one_problem(tmp_path: Path) -> None:
    mg, interval = observed(block()), 64
    table = {"default": 1}
    goal, (samples, _) = Goal(min_sqnr=30), Samples.of(mg)
    fitting = Fitting(mg, goal, samples, ["fixed"], table, 0, None, None)
    found = fitting.fitted()
    narrow, _ = quantize_transform_pass(mg, uniform(mg, {"name": "fixed", "width": 8}))
    explorer = Explorer.of(lowered(narrow))
    own = {node.name for node in narrow.nodes}
    # At an interval that one lane does not keep.
    assert explorer.best(Targets(target_interval=10_000)).interval > interval
    dear = replace(found, result=replace(found.result, cost=Estimate(lut=1e9)))
    both = fitting.together(dear, explorer, interval, own)
    assert both is not None
    assert both.result.sqnr_db >= 30
    assert both.parallelism != table
    project = mase_hw.emit_verilog(
        both.graph, parallelism=both.parallelism, output=tmp_path / "net"
    )
    assert project.design.interval_cycles <= interval


@pytest.mark.full
def test_training_brings_cheaper_formats_back() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 24), nn.ReLU(), nn.Linear(24, 3))
    inputs = torch.randn(600, 8)
    labels = model(inputs).argmax(1)
    train, held = (inputs[:400], labels[:400]), (inputs[400:], labels[400:])
    graph = mase_hw.trace(model, inputs[:16])
    found = fit_formats(
        graph, data=[train[0]], held_out=[held[0]], labels=held[1], max_drop=1.0, formats=["fixed"]
    )
    trained = train_formats(found, train, held, epochs=8)
    assert trained.result.drop is not None
    assert trained.result.drop <= 1.0
    assert trained.result.cost.weighed <= found.result.cost.weighed
    formats = {(row.node, row.operand): row.format for row in trained.rows}
    for (node, operand), text in formats.items():
        call = trained.graph.call(trained.graph.node(node))
        assert str({**call.operands, **call.results}[operand].format) == text
    with pytest.raises(DataError, match="labels"):
        train_formats(fit_formats(graph, min_sqnr=20, formats=["fixed"]), train, held, epochs=1)


def test_powers_of_two_of_channels_are_exact_and_have_no_multiplier(tmp_path: Path) -> None:
    torch.manual_seed(0)
    graph = mase_hw.trace(spread(nn.Sequential(nn.Linear(8, 6))), torch.randn(64, 8))
    entry = {"name": "fixed", "data_in_width": 8, "weight_name": "scaled_integer"}
    entry |= {"weight_width": 8, "weight_channel_axis": 0, "bias_width": 12, "data_out_width": 12}
    costs = {}
    for power in (True, False):
        config = {"default": {"config": {**entry, "weight_power_of_two": power}}}
        mg = mase_hw.quantize(graph, config)
        costs[power] = cost_of(with_lanes(mg, 1))
        if power:
            project = mase_hw.emit_verilog(mg, output=tmp_path / "net")
            report = mase_hw.simulate(project, torch.randn(20, 8), stall=0.2)
            assert report.bit_exact, report.first_mismatch
    assert costs[True].dsp < costs[False].dsp
    assert costs[True].lut < costs[False].lut
