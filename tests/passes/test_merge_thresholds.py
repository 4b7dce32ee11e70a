"""Chains of element-wise nodes that become thresholds, against the chains themselves."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import mase_hw
from mase_hw.emit.flow import quantize
from mase_hw.graph import trace
from mase_hw.graph.nodes import common
from mase_hw.graph.reference import IntegerReference, spec
from mase_hw.ops import Apply
from mase_hw.passes.formats.bridge import bridge_formats_transform_pass
from mase_hw.passes.formats.merge_thresholds import merge_thresholds_transform_pass

WIDE = {"name": "fixed", "data_in_width": 20, "weight_width": 12, "bias_width": 20}
BINARY = {"name": "binary"}
TERNARY = {
    "name": "ternary",
    **{f"{operand}_scale": 0.5 for operand in ("data_in", "weight", "bias", "data_out")},
}


def norm(channels, dimensions=1, seed=0):
    """Return a batch normalisation with scales of both signs, none of them zero."""
    torch.manual_seed(seed)
    made = (nn.BatchNorm1d if dimensions == 1 else nn.BatchNorm2d)(channels).eval()
    with torch.no_grad():
        made.weight.uniform_(-2, 2)
        made.bias.uniform_(-1, 1)
        made.running_mean.uniform_(-1, 1)
        made.running_var.uniform_(0.25, 2)
    return made


class Last(nn.Module):
    """A layer in few codes, behind what is merged."""

    def __init__(self, *chain, width=6):
        super().__init__()
        torch.manual_seed(1)
        self.chain = nn.Sequential(*chain)
        self.last = nn.Linear(width, 3)

    def forward(self, x):
        return self.last(self.chain(x))


def sign():
    return Apply(lambda x: torch.where(x >= 0, 1.0, -1.0))


SCALES = torch.linspace(-1, 1.5, 6)


def graph(module, last, shape=(6,), width=7):
    torch.manual_seed(2)
    config = {
        "by": "type",
        "default": {"config": WIDE},
        "linear": {"config": last},
        "batch_norm": {"config": {**WIDE, "data_in_width": width}},
        "sigmoid": {"config": {**WIDE, "data_in_width": 8}},
        "mul": {"config": {**WIDE, "data_in_width": width}},
    }
    mg = quantize(trace(module, torch.randn(16, *shape)), config)
    return bridge_formats_transform_pass(mg, {})[0]


def fixed(width, **fields):
    return {**WIDE, "data_in_width": width, **{f"data_in_{k}": v for k, v in fields.items()}}


CHAINS = {
    "a sign behind a normalisation": (Last(norm(6), sign()), BINARY),
    "a format of signs alone": (Last(norm(6)), BINARY),
    "two bits": (Last(norm(6)), fixed(2)),
    "two bits without sign, behind a rectifier": (Last(norm(6), nn.ReLU()), fixed(2, signed=False)),
    "four bits, rounded down": (Last(norm(6), nn.Hardtanh()), fixed(4, rounding="floor")),
    "ternary": (Last(norm(6)), TERNARY),
    "a sigmoid": (Last(norm(6), nn.Sigmoid()), fixed(3, signed=False)),
    "constants of each place": (Last(Apply(lambda x: x * SCALES + 0.25), sign()), BINARY),
}


def results_of_every_code(mg, merged):
    """Check that two graphs give the same results, and return them."""
    number = spec(mg.inputs[0]).quantized
    every = torch.arange(number.minimum_code, number.maximum_code + 1)[:, None].expand(-1, 6)
    (found,) = IntegerReference(merged)([every]).values()
    (expected,) = IntegerReference(mg)([every]).values()
    assert torch.equal(found, expected)
    return found


@pytest.mark.parametrize("name", CHAINS)
def test_thresholds_equal_the_chain_for_every_code(name):
    module, last = CHAINS[name]
    mg = graph(module.eval(), last)
    merged, info = merge_thresholds_transform_pass(mg)
    assert len(info["merged"]) == 1
    names = [common(node).operator for node in merged.nodes if node.op == "call_function"]
    assert names == ["thresholds", "linear"]
    assert results_of_every_code(mg, merged).unique().numel() > 1


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 1000), width=st.integers(3, 10), bits=st.integers(2, 4))
def test_thresholds_equal_any_normalisation(seed, width, bits):
    mg = graph(Last(norm(6, seed=seed)).eval(), fixed(bits), width=width)
    merged, info = merge_thresholds_transform_pass(mg)
    assert info["merged"]
    results_of_every_code(mg, merged)


@pytest.mark.parametrize(
    ("module", "last", "width"),
    [(Last(norm(6)), fixed(8), 7), (Last(norm(6)), fixed(2), 18), (Last(nn.ReLU()), fixed(3), 7)],
    ids=["too many results", "too many codes", "nothing is saved"],
)
def test_other_chains_stay(module, last, width):
    mg = graph(module.eval(), last, width=width)
    merged, info = merge_thresholds_transform_pass(mg)
    assert info == {"merged": {}}
    assert merged is mg


def test_what_falls_and_rises_stays():
    mg = graph(Last(norm(6), nn.Threshold(0.25, 1.0), sign()).eval(), BINARY)
    _, info = merge_thresholds_transform_pass(mg)
    assert info == {"merged": {}}


def test_truths_stay_truths(tmp_path):
    class Counted(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = norm(6)

        def forward(self, x):
            return torch.where(self.norm(x) > 0.5, x, 0.25), (self.norm(x) > 0).sum(-1)

    mg = graph(Counted().eval(), BINARY)
    merged, info = merge_thresholds_transform_pass(mg)
    assert info == {"merged": {}}
    assert mase_hw.emit_verilog(mg, output=tmp_path / "design").mg.name == merged.name


def test_what_something_else_reads_stays():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.last = norm(6), nn.Linear(6, 3)

        def forward(self, x):
            x = self.norm(x)
            return self.last(x), x

    mg = graph(Twice().eval(), fixed(2))
    merged, info = merge_thresholds_transform_pass(mg)
    assert all("batch_norm" not in name for names in info["merged"].values() for name in names)
    codes = spec(mg.inputs[0]).quantized.random_codes((20, 6), torch.Generator().manual_seed(0))
    for found, expected in zip(
        IntegerReference(merged)([codes]).values(),
        IntegerReference(mg)([codes]).values(),
        strict=True,
    ):
        assert torch.equal(found, expected)


@pytest.mark.parametrize(
    ("module", "last", "shape"),
    [
        (Last(norm(6), sign()), BINARY, (6,)),
        (Last(nn.BatchNorm2d(2), norm(2, 2, 3), nn.Flatten(), width=18), fixed(3), (2, 3, 3)),
    ],
    ids=["a bit", "three bits in channels"],
)
def test_thresholds_on_the_rtl(module, last, shape, tmp_path):
    mg = graph(module.eval(), last, shape)
    project = mase_hw.emit_verilog(mg, output=tmp_path / "design", parallelism=2)
    assert "mase_thresholds" in (tmp_path / "design" / "top.sv").read_text()
    report = mase_hw.simulate(project, stall=0.4)
    assert report.bit_exact
    assert mase_hw.simulate(project).as_predicted


def test_what_stands_behind_truths_stays(tmp_path):
    class Masked(nn.Module):
        def forward(self, x):
            return torch.where((x > 0.25) == (x < 0.75), 1.0, -1.0)

    mg = graph(Last(Masked()).eval(), BINARY)
    merged, info = merge_thresholds_transform_pass(mg)
    assert info == {"merged": {}}
    assert mase_hw.emit_verilog(mg, output=tmp_path / "design").mg.name == merged.name
