"""How a result is judged: what varies, channel by channel, where operators say channels lie."""

import math
import re

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import mase_hw
from mase_hw import cli
from mase_hw.emit.warnings import check_sqnr, warnings
from mase_hw.errors import ConfigError, EmissionError
from mase_hw.graph.agreement import Closeness, Judgement, Sums, closeness
from mase_hw.graph.judgements import judgements
from mase_hw.passes.formats.expected_agreement import model_agreement
from tests.bench.fidelity_models import entry
from tests.flow.perceptrons import command
from tests.modules import Layers


def oracle(exact, rounded, axis=-1):
    """Return decibels by channel, in numpy."""
    x, y = (np.moveaxis(item.double().numpy(), axis, -1) for item in (exact, rounded))
    x, y = x.reshape(-1, x.shape[-1]), y.reshape(-1, y.shape[-1])
    return 10 * np.log10(((x - x.mean(0)) ** 2).sum(0) / ((x - y) ** 2).sum(0))


def steps(values, step):
    return (values / step).round() * step


@pytest.mark.parametrize("axis", [1, 2, -1])
def test_the_worst_channel_counts_and_parts_add_up(axis):
    torch.manual_seed(axis)
    exact = torch.randn(50, 4, 6) * 10 ** torch.randn(6) + 30 * torch.randn(6)
    rounded = steps(exact, 0.05)
    found = closeness(exact, rounded, Judgement(axis))
    each = oracle(exact, rounded, axis)
    assert found.sqnr_db == pytest.approx(each.min(), abs=1e-4)
    assert found.channel == each.argmin()
    sums = Sums(Judgement(axis))
    for left, right in zip(exact.split(7), rounded.split(7), strict=True):
        sums.add(left, right)
    assert sums.closeness().sqnr_db == pytest.approx(found.sqnr_db, abs=1e-6)
    assert Closeness.from_dict(found.to_dict()).channel == found.channel


def test_an_offset_and_a_large_channel_hide_nothing():
    torch.manual_seed(0)
    near = 100 + 0.1 * torch.randn(200, 1)
    found = closeness(near, near.round())
    assert found.tensor_db > 50
    assert found.sqnr_db < 3
    scales = torch.randn(200, 2) * torch.tensor([1000.0, 1.0])
    found = closeness(scales, steps(scales, 8.0))
    assert (found.sqnr_db, found.channel) == (pytest.approx(0.0, abs=0.2), 1)
    assert "channel 1 is always 0" in found.fewer
    assert closeness(scales, steps(scales, 8.0), Judgement(-1, one_scale=True)).sqnr_db > 45


@pytest.mark.parametrize("scale", [1e-30, 1e-12, 1e12, 1e30])
def test_any_scale_has_the_same_figure(scale):
    torch.manual_seed(0)
    exact = torch.randn(64, 3)
    rounded = steps(exact, 0.1)
    found = closeness(exact * scale, rounded * scale)
    assert found.sqnr_db == pytest.approx(closeness(exact, rounded).sqnr_db, abs=1e-3)


def test_few_values_are_said_and_no_infinity():
    torch.manual_seed(0)
    x = torch.randn(64, 3)
    assert "is always 0" in closeness(x, torch.zeros_like(x)).fewer
    signs = closeness(x, x.sign())
    assert "takes -1 and 1 alone" in signs.fewer
    assert closeness(x.sign(), x.sign()).fewer == ""
    whole = torch.arange(40) % 10
    assert "is always 3" in closeness(whole, torch.full_like(whole, 3)).fewer
    for item in (closeness(x, x), closeness(torch.zeros(8, 2), torch.zeros(8, 2))):
        assert str(item) == "nothing lost"
    assert "inf" not in str(closeness(x, x + math.inf))
    close = closeness(5 + x / 1e4, torch.full_like(x, 5.0)).fewer
    low, high = re.search("varies from (.*) to ([0-9.]*)", close).groups()
    assert float(low) < 5 < float(high)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool])
def test_examples_that_tell_nothing_are_said(dtype):
    unvarying = torch.ones(8, 2, dtype=dtype)
    assert "they tell nothing of it" in closeness(unvarying, unvarying).fewer
    assert closeness(unvarying[:2], unvarying[:2]).fewer == ""
    assert closeness(torch.eye(8, 2).to(dtype), unvarying).fewer != ""


def test_what_does_not_vary_is_compared_by_its_value():
    torch.manual_seed(0)
    exact = torch.stack([torch.randn(64), torch.full((64,), 5.0), torch.zeros(64)], 1)
    rounded = exact.clone()
    rounded[:, 1] += 0.05
    found = closeness(exact, rounded)
    assert (found.sqnr_db, found.channel) == (pytest.approx(40.0, abs=0.1), 1)
    rounded = exact + torch.tensor([0.0, 0.0, 0.01])
    assert closeness(exact, rounded).sqnr_db == pytest.approx(40.0, abs=1.5)
    # Rounding of binary32 is no variation.
    near = 100 + 1e-6 * torch.randn(64, 1)
    assert closeness(near, torch.full_like(near, 100.0)).sqnr_db > 100


def test_rare_and_few_values_are_judged_with_the_others():
    torch.manual_seed(0)
    exact = torch.randn(64, 4)
    exact[:, 3] = 0
    exact[[3, 9], 3] = 0.01
    rounded = steps(exact, 1 / 16)
    found = closeness(exact, rounded)
    assert found.sqnr_db > 25
    assert "channel 3 is always 0" in found.fewer
    one = closeness(exact[:1], rounded[:1])
    assert one.sqnr_db == pytest.approx(one.tensor_db, abs=1e-3)
    assert closeness(exact[:4], rounded[:4]).channel is None


def model(function):
    torch.manual_seed(0)
    dense = {"linear": nn.Linear(4, 6), "one": nn.Linear(6, 1)}
    return Layers(function, **dense, image=nn.Conv2d(3, 5, 3), sequence=nn.Conv1d(4, 5, 1)).eval()


ROWS, IMAGES, TIMES = torch.randn(3, 4), torch.randn(2, 3, 8, 8), torch.randn(2, 4, 7)
JUDGED = {
    "linear": (lambda m, x: m.linear(x), ROWS, Judgement(1)),
    "one number": (lambda m, x: m.one(m.linear(x))[:, 0], ROWS, Judgement(None)),
    "softmax": (lambda m, x: m.linear(x).softmax(-1), ROWS, Judgement(1, True)),
    "moved softmax": (lambda m, x: m.linear(x).softmax(-1)[:, :3, None], ROWS, Judgement(1, True)),
    "log-softmax": (lambda m, x: m.linear(x).log_softmax(-1), ROWS, Judgement(1, True)),
    "softmin, log": (
        lambda m, x: -functional.softmin(m.linear(x), -1).log(), ROWS, Judgement(1, True),
    ),
    "sigmoid": (lambda m, x: m.linear(x).sigmoid(), ROWS, Judgement(1, True)),
    "norm": (lambda m, x: functional.normalize(m.linear(x), dim=-1), ROWS, Judgement(1, True)),
    "own norm": (lambda m, x: (y := m.linear(x).exp()) / y.sum(-1, True), ROWS, Judgement(1, True)),
    "centred": (lambda m, x: (y := m.linear(x)) - y.mean(-1, True), ROWS, Judgement(1)),
    "softmax beside": (
        lambda m, x: torch.cat([(y := m.linear(x)).softmax(-1), y], -1), ROWS, Judgement(1),
    ),
    "image": (lambda m, x: m.image(x), IMAGES, Judgement(1)),
    "pooled": (lambda m, x: functional.max_pool2d(m.image(x).relu(), 2), IMAGES, Judgement(1)),
    "larger": (
        lambda m, x: functional.interpolate(m.image(x), scale_factor=2), IMAGES, Judgement(1),
    ),
    "channels last": (lambda m, x: m.image(x).permute(0, 2, 3, 1), IMAGES, Judgement(3)),
    "tokens": (lambda m, x: m.image(x).flatten(2).transpose(1, 2), IMAGES, Judgement(2)),
    "means": (lambda m, x: m.image(x).mean((2, 3)), IMAGES, Judgement(1)),
    "one channel": (lambda m, x: m.image(x)[:, 0], IMAGES, Judgement(None)),
    "sequence": (lambda m, x: m.sequence(x), TIMES, Judgement(1)),
    "steps": (lambda m, x: m.linear(x.transpose(1, 2)), TIMES, Judgement(2)),
}  # fmt: skip


@pytest.mark.parametrize("name", JUDGED)
def test_channels_and_scales_are_those_of_operators(name):
    function, x, wanted = JUDGED[name]
    graph = mase_hw.quantize(mase_hw.trace(model(function), x))
    (found,) = judgements(graph).values()
    assert (found.axis, found.one_scale) == (wanted.axis, wanted.one_scale)
    assert model_agreement(graph).sqnr_db is not None


def regression(scale, offset):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2)).eval()
    with torch.no_grad():
        model[2].weight[0] *= scale
        model[2].bias += offset
    return model, torch.randn(200, 8)


@pytest.mark.parametrize(("scale", "offset"), [(1000.0, 0.0), (1.0, 100.0)])
def test_a_hidden_loss_is_told_and_gated(scale, offset):
    model, x = regression(scale, offset)
    for config in (None, entry(8)):
        graph = mase_hw.quantize(mase_hw.trace(model, x), config)
        (item,) = model_agreement(graph).outputs.values()
        assert item.sqnr_db < 10 < 30 < item.tensor_db
        told = [note.text for note in warnings(graph, configured=config is not None)]
        assert any(str(item) in text for text in told), told
        with pytest.raises(EmissionError, match="asked for: 30 dB"):
            check_sqnr(graph, 30)
        check_sqnr(graph, 30, "tensor")
        assert warnings(mase_hw.quantize(mase_hw.trace(model, x), entry(20))) == []


def test_what_keeps_30_decibels_is_told_where_nobody_configured():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 3)
    )
    x = torch.randn(64, 6)
    graph = mase_hw.quantize(mase_hw.trace(model.eval(), x))
    assert 20 < model_agreement(graph).sqnr_db < 30
    (text,) = [note.text for note in warnings(graph, configured=False)]
    width = int(text.split(" bits everywhere keep ")[0].rsplit(" ", 1)[1])
    wide = model_agreement(mase_hw.quantize(mase_hw.trace(model, x), entry(width)))
    assert wide.sqnr_db >= 30
    assert f"{width} bits everywhere keep {wide.outputs['output']}" in text
    assert warnings(graph) == []


def test_another_kind_of_agreement_is_refused(tmp_path, monkeypatch, capsys):
    model, x = regression(1.0, 0.0)
    with pytest.raises(ConfigError, match="agreement is 'nonsense'; allowed: channel"):
        mase_hw.emit_verilog(model, x, output=tmp_path / "net", agreement="nonsense")
    assert not (tmp_path / "net").exists()
    (tmp_path / "net.py").write_text(
        "from tests.passes.test_judgement import regression\n"
        "def factory():\n    model, x = regression(1.0, 100.0)\n    return model, (x,)\n"
    )
    monkeypatch.chdir(tmp_path)
    emit = ("emit-verilog", "net.py:factory", "-o", "net", "--min-sqnr", "30")
    for kind, expected in (("nonsense", 1), ("channel", 1), ("tensor", 0)):
        status, text = command(monkeypatch, capsys, *emit, "--agreement", kind)
        assert status == expected, text
    monkeypatch.setattr(
        "sys.argv", ["mase-hw", *emit, "--agreement", "tensor", "--formats", "auto"]
    )
    with pytest.raises(SystemExit):
        cli.main()
    assert "finds formats by the worst channel" in " ".join(capsys.readouterr().err.split())
    report = mase_hw.simulate(tmp_path / "net", x[:20], min_sqnr=30)
    assert report.bit_exact
    assert report.agrees is False
    assert mase_hw.simulate(tmp_path / "net", x[:20], min_sqnr=30, agreement="tensor").is_right


@pytest.mark.parametrize("config", [None, entry(8)])
def test_each_output_of_few_values_is_said(config):
    torch.manual_seed(0)
    two = Layers(lambda m, x: (0.1 * (y := m.layer(x)) + 100, 0.1 * y - 200), layer=nn.Linear(4, 1))
    graph = mase_hw.quantize(mase_hw.trace(two.eval(), torch.randn(64, 4)), config)
    few = [name for name, item in model_agreement(graph).outputs.items() if item.fewer]
    assert len(few) == 2
    told = " ".join(note.text for note in warnings(graph, configured=config is not None))
    assert all(item.fewer in told for item in model_agreement(graph).outputs.values()), told
