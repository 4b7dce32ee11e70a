"""A parallelism for a target: least cost, targets met, and what is said of those that cannot be."""

import itertools
import json
import tomllib
from types import SimpleNamespace

import pytest
import torch
from typer.testing import CliRunner

from mase_hw.cli import build_app
from mase_hw.emit.exploration import explored
from mase_hw.emit.flow import quantize, to_hardware
from mase_hw.errors import ConfigError, ParallelismError
from mase_hw.graph import trace
from mase_hw.hardware.estimate import estimate, estimate_nodes
from mase_hw.hardware.explore import Explorer, Targets, split_targets
from mase_hw.models import perceptron
from tests.flow.perceptrons import layer_file


class Residual(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(6, 6), torch.nn.Linear(6, 6)

    def forward(self, x):
        return x + self.second(torch.relu(self.first(x)))


@pytest.fixture(scope="module")
def graphs():
    torch.manual_seed(0)
    modules = {
        "chain": (perceptron(8, 6, 4), 8),
        "deep": (perceptron(12, 10, 9, 6), 12),
        "residual": (Residual(), 6),
    }
    return SimpleNamespace(
        **{
            name: quantize(trace(module.eval(), torch.randn(16, size), name=name))
            for name, (module, size) in modules.items()
        }
    )


@pytest.fixture(scope="module")
def explorers(graphs):
    return {name: Explorer.of(mg) for name, mg in vars(graphs).items()}


def everything(explorer):
    """Yield (interval, cost, dsp) of every design of an explorer, by enumeration."""
    space = explorer.space
    for values in itertools.product(*space.candidates):
        options = [
            [c for c in items if c.lanes == tuple(values[g] for g in choice.groups)]
            for choice, items in zip(space.choices, explorer.candidates, strict=True)
        ]
        for chosen in itertools.product(*options):
            yield (
                max(c.cycles for c in chosen),
                sum(c.cost.weighed for c in chosen),
                sum(c.cost.dsp for c in chosen),
            )


@pytest.mark.parametrize("name", ["chain", "deep", "residual"])
def test_the_choice_is_the_exhaustive_optimum(name, explorers):
    explorer = explorers[name]
    designs = list(everything(explorer))
    assert len(designs) > (500 if name == "deep" else 10)
    for interval in (12, 18, 36, 48):
        least = min(cost for cycles, cost, _ in designs if cycles <= interval)
        plan = explorer.best(Targets(target_interval=interval))
        assert plan.interval <= interval
        assert plan.cost.weighed == least
        assert plan.gap == 0
    for budget in (3, 5, 9):
        fastest = min(cycles for cycles, _, dsp in designs if dsp <= budget)
        assert explorer.best(Targets(max_dsp=budget)).interval == fastest


def test_the_design_of_a_target_keeps_it(graphs):
    mg = to_hardware(graphs.chain, parallelism={"default": "auto", "target_interval": 12})
    assert estimate_nodes(mg).interval_cycles <= 12
    rate = {"default": "auto", "target_fps": 4e6, "clock": 100}
    assert estimate_nodes(to_hardware(graphs.chain, parallelism=rate)).interval_cycles <= 25
    both = {"default": "auto", "max_lut": 700, "max_dsp": 6}
    found = estimate(to_hardware(graphs.residual, parallelism=both))
    assert found.lut <= 700
    assert found.dsp <= 6


def test_the_same_question_has_the_same_answer(graphs):
    asked = Targets(target_interval=14)
    tables = [Explorer.of(graphs.residual).best(asked).table for _ in range(2)]
    assert tables[0] == tables[1]


def test_the_front_falls(explorers):
    front = explorers["residual"].front(6)
    assert [p.interval for p in front] == sorted((p.interval for p in front), reverse=True)
    assert [p.cost.weighed for p in front] == sorted(p.cost.weighed for p in front)


def test_the_table_is_fed_back(graphs):
    plan, _, count = explored(graphs.chain, parallelism={"target_interval": 18}, points=2)
    table = tomllib.loads(plan.to_toml("chain"))["parallelism"]
    assert table == plan.table
    again = to_hardware(graphs.chain, parallelism=table)
    assert estimate_nodes(again).interval_cycles == plan.interval
    assert count > 30


@pytest.fixture(scope="module")
def wide():
    """A layer whose weights take a block RAM, or many look-up tables."""
    torch.manual_seed(0)
    layer = torch.nn.Linear(64, 16).eval()
    return quantize(trace(layer, torch.randn(8, 64), name="wide"))


def test_memories_are_made_of_what_a_budget_leaves(wide):
    asked = {"target_interval": 128}
    free, _, _ = explored(wide, parallelism=asked, points=2)
    none, _, _ = explored(wide, parallelism={**asked, "max_bram": 0}, points=2)
    assert free.cost.bram > 0 and "memory_style" not in free.table["linear"]
    assert none.cost.bram == 0 and none.table["linear"]["memory_style"] == "logic"
    assert none.cost.lut > free.cost.lut
    table = tomllib.loads(none.to_toml("wide"))["parallelism"]
    assert table == none.table
    made = estimate(to_hardware(wide, parallelism=table))
    assert made.bram == 0
    assert made.lut == pytest.approx(none.cost.lut, rel=0.2)


def test_a_style_that_is_asked_for_stays(wide):
    asked = {"target_interval": 128}
    plans = {
        style: explored(wide, parallelism=asked, memory={"style": style}, points=2)[0]
        for style in ("logic", "block")
    }
    assert plans["logic"].cost.bram == 0 and plans["block"].cost.bram >= 1
    for style, plan in plans.items():
        assert plan.table["linear"]["memory_style"] == style


def test_a_style_in_a_table_is_checked(wide):
    with pytest.raises(ConfigError, match=r"linear.style is 'huge'; allowed: auto, logic"):
        to_hardware(wide, parallelism={"linear": {"memory_style": "huge"}})
    with pytest.raises(ParallelismError, match=r"no node is called 'liner'; did you mean linear\?"):
        to_hardware(wide, parallelism={"liner": {"memory_style": "logic"}})


def test_what_is_fixed_stays(graphs):
    fixed = {"linear_0": {"data_out_0_dim_0": 3}, "target_interval": 24}
    plan, _, _ = explored(graphs.chain, parallelism=fixed, points=2)
    assert plan.table["linear_0"]["data_out_0_dim_0"] == 3


def test_targets_that_no_design_meets_name_what_binds(graphs, explorers):
    narrow = {"linear_0": {"data_in_0_dim_0": 1, "data_out_0_dim_0": 1}}
    with pytest.raises(ParallelismError, match=r"cannot be met: linear_0 binds, .* nearest is 48"):
        Explorer.of(graphs.chain, narrow).best(Targets(target_interval=5))
    for targets, words in (
        (Targets(target_interval=4, max_dsp=2), r"nearest is .* cycles, where linear_0 binds"),
        (Targets(max_lut=10), r"max_lut 10 is too little: .* at least \d+"),
    ):
        with pytest.raises(ParallelismError, match=words):
            explorers["chain"].best(targets)


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"target_fps": 10}, "target_fps is given without clock"),
        ({"clock": 100}, "clock is given without target_fps"),
        ({"target_interval": 10, "target_fps": 1e6, "clock": 100}, "contradict"),
        ({"target_interval": 0}, "positive"),
        ({"max_lut": -1}, "positive"),
        ({"max_dsp": "many"}, "positive"),
        ({"default": 4, "target_interval": 10}, "allowed beside it: auto"),
    ],
)
def test_targets_that_make_no_sense_are_refused(asked, says):
    with pytest.raises(ParallelismError, match=says):
        split_targets(asked)


def test_a_table_without_targets_is_left_alone():
    assert split_targets(8) == (8, None)
    assert split_targets({"default": 2}) == ({"default": 2}, None)


def test_a_table_of_another_model_is_refused(graphs):
    entry = {"data_in_0_dim_0": 2, "memory_style": "logic"}
    other = {"relu_1": {"data_out_0_dim_0": 1}, "conv_1": entry, "conv_2": entry}
    says = "made for another model: no node is called 'conv_1', nor 1 more .*known: linear_0, "
    for default in (1, "auto"):
        table = {"default": default, "target_interval": 100, **other}
        if default == 1:
            del table["target_interval"]
        with pytest.raises(ParallelismError, match=says):
            to_hardware(graphs.chain, parallelism=table)


@pytest.fixture
def factory(tmp_path):
    return layer_file(tmp_path)


def test_the_command_writes_a_table_and_a_figure(factory, tmp_path):
    runner, folder = CliRunner(), tmp_path / "out"
    options = ["--target-interval", "8", "-o", str(folder), "--json", "--points", "4"]
    done = runner.invoke(build_app(), ["explore", factory, *options])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["interval"] <= 8
    assert (folder / "front.svg").read_text().startswith("<?xml")
    table = str(folder / "parallelism.toml")
    again = runner.invoke(build_app(), ["estimate", factory, "--json", "--parallelism", table])
    assert json.loads(again.stdout)["interval_cycles"] == found["interval"]


def test_targets_of_the_command_line_need_auto(factory):
    options = ["--parallelism", "4", "--max-lut", "100"]
    done = CliRunner().invoke(build_app(), ["estimate", factory, *options])
    assert isinstance(done.exception, ConfigError)
    assert "--max-lut chooses the parallelism" in str(done.exception)
