"""Networks as logic: equal to the integer reference on every bit, one inference a cycle."""

import numpy as np
import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.emit.exploration import explored
from mase_hw.emit.flow import lowered
from mase_hw.errors import ConfigError, EmissionError, UnsupportedError
from mase_hw.graph.reference import IntegerReference, spec
from mase_hw.hardware.estimate import estimate
from mase_hw.ops import operators
from mase_hw.unrolled.adders import Adders, Operand
from mase_hw.unrolled.logic import Logic
from mase_hw.unrolled.network import logic_of, program_of
from mase_hw.unrolled.proof import prove
from tests.rtl_bench import lint_top

SAMPLES = 64


class Residual(nn.Module):
    """A sum of two branches, and two results."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(6, 8), nn.Linear(8, 6)

    def forward(self, x, y):
        z = x + self.second(self.first(x).relu()) - y
        return z.argmax(1), torch.where(y > 0, z, x * y).clamp(-2, 2)


def fixed(**fields):
    return {"by": "type", "default": {"config": {"name": "fixed", **fields}}}


FLOOR = fixed(data_in_width=6, weight_width=5, bias_width=6, data_out_rounding="floor")
NETWORKS = {
    "perceptron": (nn.Sequential(nn.Linear(7, 9), nn.ReLU(), nn.Linear(9, 4)), [(7,)], None),
    "floor": (nn.Sequential(nn.Linear(7, 9), nn.ReLU6(), nn.Linear(9, 4)), [(7,)], FLOOR),
    "residual": (Residual(), [(6,), (6,)], None),
    "image": (
        nn.Sequential(
            nn.Conv2d(2, 3, 3, padding=1), nn.BatchNorm2d(3), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(3, 4, 2), nn.AvgPool2d(2, 1), nn.Flatten(), nn.Linear(4, 3),
        ),
        [(2, 6, 6)],
        None,
    ),
    "signal": (nn.Sequential(nn.Conv1d(2, 4, 3), nn.GELU(), nn.AvgPool1d(3)), [(2, 8)], None),
    "tables": (nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 3), nn.Sigmoid()), [(5,)],
               FLOOR),
    "ternary": (
        nn.Sequential(nn.Linear(8, 6, bias=False), nn.ReLU(), nn.Linear(6, 3)),
        [(8,)],
        {"by": "name", "default": {"config": {"name": "fixed"}},
         "linear_0": {"config": {"name": "fixed", "weight_name": "ternary", "weight_scale": 0.25}}},
    ),
}  # fmt: skip


def graph(name):
    torch.manual_seed(0)
    model, shapes, config = NETWORKS[name]
    inputs = tuple(torch.randn(32, *shape) for shape in shapes)
    return mase_hw.quantize(mase_hw.trace(model.eval(), inputs), config)


def random_codes(mg, count=SAMPLES):
    generator = torch.Generator().manual_seed(1)
    return [
        spec(node).quantized.random_codes((count, *spec(node).shape), generator)
        for node in mg.inputs
    ]


def evaluated(mg):
    """Return results of a graph and of its program."""
    codes = random_codes(mg)
    reference = IntegerReference(mg)(codes)
    program = program_of(mg)
    results = program.evaluate([item.reshape(SAMPLES, -1).numpy() for item in codes])
    return [reference[node.name].reshape(SAMPLES, -1).numpy() for node in mg.outputs], results


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in ("linear", "argmax", "avg_pool2d", "gelu")
                  else pytest.mark.full) for name in operators()],
)  # fmt: skip
def test_every_operator_is_exact_or_refused_by_name(name):
    for module, inputs in operators()[name].examples():
        try:
            mg = lowered(mase_hw.quantize(mase_hw.trace(module, inputs)))
        except mase_hw.errors.MaseError:
            continue
        try:
            expected, results = evaluated(mg)
        except UnsupportedError as error:
            nodes = [node.name for node in mg.nodes]
            assert any(node in str(error) for node in nodes)
            assert "leave the mode folded" in str(error) or "fixed point" in str(error)
            continue
        for one, other in zip(expected, results, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("levels", [1, 3])
@pytest.mark.first("1-floor", "3-residual", "3-image")
def test_the_hardware_equals_the_reference(name, levels, tmp_path):
    project = mase_hw.emit_verilog(
        graph(name), output=tmp_path / "p", mode="unrolled", levels=levels
    )
    lint_top(tmp_path / "p")
    assert project.design.memories == () and project.design.interval_cycles == 1
    assert mase_hw.simulate(project, samples=300).is_right
    assert mase_hw.simulate(project, samples=100, stall=0.4, seed=3).bit_exact
    # Verilator takes no line of many thousand words.
    sources = (tmp_path / "p" / "rtl").glob("unrolled*.sv")
    assert max(len(line.split()) for item in sources for line in item.read_text().splitlines()) < 99


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.first(2)
def test_shared_sums_are_the_rows_of_the_matrix(seed):
    random = np.random.default_rng(seed)
    size = random.integers(2, 24, 2)
    matrix = random.integers(-200, 200, size) * (random.random(size) < 0.7)
    adders = Adders()
    for _ in range(size[1]):
        adders.leaf(int(random.integers(1, 300)), int(random.integers(0, 3)))
    rows = [{place: int(item) for place, item in enumerate(row) if item} for row in matrix]
    digits = adders.rows([row for row in rows if row])
    values = [random.integers(0, high + 1) for high in adders.highs[: size[1]]]
    for number, (first, second) in sorted(adders.sums.items()):
        total = 0
        for item in (first, second):
            mask = (1 << adders.width(item.number)) - 1
            value = values[item.number]
            total += int(value ^ mask if item.complemented else value) << item.shift
        assert total <= adders.highs[number]
        values.append(total)
    linear = adders.linear()
    for row, digit in zip([row for row in rows if row], digits, strict=True):
        constant = linear[digit.number][-1]
        total = digit.sign * (values[digit.number] - constant) << digit.shift
        assert total == sum(factor * values[place] for place, factor in row.items())


def test_sharing_saves_adders():
    matrix = np.random.default_rng(0).integers(-31, 32, (16, 16))
    adders = Adders()
    for _ in range(16):
        adders.leaf(127, 0)
    adders.rows([{place: int(item) for place, item in enumerate(row) if item} for row in matrix])
    digits = sum(bin(abs(int(item)) ^ abs(3 * int(item))).count("1") for item in matrix.flatten())
    assert len(adders.sums) < 0.7 * (digits - 16)


def test_a_wrong_sum_is_found():
    logic = logic_of(lowered(graph("perceptron")), 2)
    assert prove(logic) > 10
    number, (first, second) = next(iter(logic.adders.sums.items()))
    logic.adders.sums[number] = first, Operand(second.number, second.shift + 1)
    with pytest.raises(EmissionError):
        prove(logic)


def test_a_stage_holds_as_many_adders_as_asked():
    logics = [logic_of(lowered(graph("perceptron")), levels) for levels in (1, 2, 4)]
    assert [logic.stages for logic in logics] == sorted(
        (logic.stages for logic in logics), reverse=True
    )
    for levels, logic in zip((1, 2, 4), logics, strict=True):
        assert longest_path(logic) <= levels


def longest_path(logic: Logic):
    """Return the most adders between two registers."""
    depths = {}
    for signal in logic.signals:
        same = [item for item in signal.operands if item.stage == signal.stage]
        depths[signal.name] = max((depths[item.name] for item in same), default=0) + (
            signal.text.count(" + ") + signal.text.count(" - ")
        )
    return max(depths.values())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"levels": 0}, "levels is 0; a stage holds at least one adder"),
        ({"parallelism": 4}, "parallelism has no meaning in unrolled logic"),
        ({"memory": "external"}, "memory has no meaning"),
        ({"mode": "unfolded"}, "mode"),
    ],
)
def test_options_without_meaning_are_refused(options, words, tmp_path):
    with pytest.raises(ConfigError, match=words):
        mase_hw.emit_verilog(
            graph("perceptron"), output=tmp_path / "p", **{"mode": "unrolled", **options}
        )
    assert not (tmp_path / "p").exists()


def test_what_has_no_logic_is_refused_by_name(tmp_path):
    model = nn.Sequential(nn.Linear(4, 5), nn.LayerNorm(5))
    with pytest.raises(UnsupportedError, match=r"layernorm_1 .* no unrolled logic.*mode folded"):
        mase_hw.emit_verilog(model, torch.randn(8, 4), output=tmp_path / "p", mode="unrolled")


def test_what_is_too_large_is_refused_with_its_nodes(tmp_path, monkeypatch):
    monkeypatch.setattr("mase_hw.unrolled.network.MOST_TABLES", 100)
    with pytest.raises(UnsupportedError, match=r"about [\d,]+ look-up tables.*linear_0 \(\d+\)"):
        mase_hw.emit_verilog(graph("perceptron"), output=tmp_path / "p", mode="unrolled")


def test_a_large_network_is_refused_before_it_is_unrolled(tmp_path):
    model = nn.Sequential(nn.Linear(600, 500), nn.Linear(500, 10))
    with pytest.raises(UnsupportedError, match=r"too large to unroll.*linear_0 \([\d,]+\)"):
        mase_hw.emit_verilog(model, torch.randn(8, 600), output=tmp_path / "p", mode="unrolled")


def test_the_front_of_exploration_ends_with_logic():
    _, front, _ = explored(graph("perceptron"), points=3)
    assert front[-1].interval == 1 and "unrolled" in front[-1].slowest
    assert front[-1].cost.dsp == 0 < front[-1].cost.lut


def test_an_estimate_is_that_of_the_logic():
    mg = mase_hw.emit.flow.to_hardware(graph("perceptron"), mode="unrolled")
    assert 200 < estimate(mg).lut < 2000 and estimate(mg).dsp == estimate(mg).bram == 0
