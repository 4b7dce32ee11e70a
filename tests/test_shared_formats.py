"""A tensor with several consumers: the order does not matter, and none pays for another."""

import math

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.graph.nodes import common
from tests.shared_formats import MARGIN_DB, configuration, decibels, oracle, orders, random_network


def _quantized(model, x, config):
    found = mase_hw.quantize(mase_hw.trace(model, (x,)), config)(x)
    return list(found) if isinstance(found, list | tuple) else [found]


@pytest.mark.first(1)
@pytest.mark.parametrize("width", [8, 16])
@pytest.mark.parametrize("seed", [0, 2, 3, 5, 8, 11])
def test_random_models_are_as_good_as_formats_for_each_edge(seed, width):
    network, x = random_network(seed)
    with torch.no_grad():
        exact = network(x)
    best = oracle(mase_hw.trace(network, (x,)), x, width)
    found = [
        _quantized(network.in_order(order), x, configuration(width))
        for order in orders(network, 2, seed)
    ]
    for number, want in enumerate(exact):
        assert all(torch.equal(found[0][number], other[number]) for other in found)
        lost = decibels(want, best[number]) - decibels(want, found[0][number])
        assert lost < MARGIN_DB, f"output {number}: {lost:.1f} dB"


class _Parts(nn.Module):
    """Parts of one result, a hundred times apart in size, each with a consumer of its own."""

    def __init__(self, cut, swapped):
        super().__init__()
        self.layer = nn.Linear(4, 4, bias=False)
        self.cut, self.swapped = cut, swapped
        with torch.no_grad():
            self.layer.weight.copy_(torch.eye(4))
            self.layer.weight[:2] *= 2.0**-7

    def forward(self, x):
        small, large = self.cut(self.layer(x))
        if self.swapped:
            second = large.tanh()
            return small.tanh(), second
        return small.tanh(), large.tanh()


_CUTS = {
    "slice": lambda y: (y[:, :2], y[:, 2:]),
    "chunk": lambda y: y.chunk(2, 1),
    "split": lambda y: y.split([2, 2], 1),
    "unbind": lambda y: y.reshape(-1, 2, 2).unbind(1),
    "select": lambda y: (y.reshape(-1, 2, 2)[:, 0], y.reshape(-1, 2, 2)[:, 1]),
    "permute": lambda y: y.reshape(-1, 2, 2).permute(1, 0, 2)[:, :, :].unbind(0),
    "join": lambda y: torch.cat([y[:, 2:], y[:, :2]], 1).split([2, 2], 1)[::-1],
}


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("cut", _CUTS)
def test_parts_of_a_result_keep_their_own_precision(cut, swapped):
    model = _Parts(_CUTS[cut], swapped).eval()
    x = torch.rand(64, 4, generator=torch.Generator().manual_seed(0)) * 2 - 1
    with torch.no_grad():
        exact = model(x)
    for want, got in zip(exact, _quantized(model, x, configuration(16)), strict=True):
        assert decibels(want, got) >= 60


@pytest.mark.parametrize("low_first", [False, True])
def test_a_few_bits_of_one_consumer_cost_another_nothing(low_first):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.low, self.high = nn.Linear(6, 6), nn.Linear(6, 3), nn.Linear(6, 3)

        def forward(self, x):
            y = self.first(x).tanh()
            if low_first:
                low = self.low(y)
                return low, self.high(y)
            high = self.high(y)
            return self.low(y), high

    torch.manual_seed(0)
    model, x = Model().eval(), torch.randn(64, 6)
    few = {"name": "fixed", "data_in_width": 4, "weight_width": 4, "bias_width": 8}
    config = {**configuration(16), "by": ["name", "type"], "low": {"config": few}}
    assert decibels(model(x)[1], _quantized(model, x, config)[1]) >= 60


def test_consumers_in_blocks_and_in_fixed_point_share_a_result():
    class Model(nn.Module):
        def __init__(self, swapped):
            super().__init__()
            self.first, self.block, self.point = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)
            self.swapped = swapped

        def forward(self, x):
            y = self.first(x)
            if self.swapped:
                point = self.point(y)
                return self.block(y), point
            return self.block(y), self.point(y)

    found = []
    for swapped in (False, True):
        torch.manual_seed(0)
        model, x = Model(swapped).eval(), torch.randn(64, 8)
        blocks = {"name": "mxint", "data_in_width": 6, "data_in_block_size": 4, "weight_width": 8}
        config = {**configuration(16), "by": ["name", "type"], "block": {"config": blocks}}
        graph = mase_hw.quantize(mase_hw.trace(model, (x,)), config)
        found.append(str(common(graph.node("first")).results["data_out_0"].format))
        assert decibels(model(x)[1], graph(x)[1]) >= 60
    assert found[0] == found[1]


def test_an_output_inside_the_model_keeps_its_range():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.low = nn.Linear(6, 6), nn.Linear(3, 3)

        def forward(self, x):
            y = self.first(x) * torch.tensor([1.0, 1.0, 1.0, 200.0, 200.0, 200.0])
            return y, self.low(y[:, :3])

    torch.manual_seed(0)
    model, x = Model().eval(), torch.randn(64, 6)
    exact, found = model(x), _quantized(model, x, configuration(16))
    assert min(decibels(*pair) for pair in zip(exact, found, strict=True)) >= 60


def test_the_widest_format_keeps_the_range():
    class Model(nn.Module):
        def forward(self, x):
            return x[:, :2].sigmoid(), x[:, 2:].tanh()

    x = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
    x[:, :2] *= 1e-9
    graph = mase_hw.quantize(mase_hw.trace(Model(), (x,)), configuration(16))
    given = common(graph.inputs[0]).results["data_out_0"].quantized
    assert given.width == 32
    assert math.isfinite(float(x.abs().max()))
    assert bool(given.in_range(x).all())


@pytest.mark.parametrize("swapped", [False, True])
def test_what_joins_tensors_reaches_as_far_as_all_of_them(swapped):
    """Nothing selects the join itself, which keeps what it is given."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.small, self.large = nn.Linear(6, 4), nn.Linear(6, 4)
            with torch.no_grad():
                self.small.weight *= 0.1
                self.small.bias *= 0.1

        def forward(self, x):
            parts = self.small(x), self.large(x)
            return torch.cat(parts[::-1] if swapped else parts, 1)

    torch.manual_seed(0)
    model, x = Model().eval(), torch.randn(64, 6)
    entry = {"name": "fixed", "data_in_width": 16, "weight_width": 16, "bias_width": 16}
    (found,) = _quantized(model, x, {"by": "type", "linear": {"config": entry}})
    assert decibels(model(x), found) >= 60
