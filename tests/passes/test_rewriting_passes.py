"""Removing identities and folding: the graph computes what it did, with fewer nodes."""

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.emit.flow import canonicalize
from mase_hw.emit.preflight import preflight
from mase_hw.errors import MaseError
from mase_hw.graph import metadata, trace
from mase_hw.graph.nodes import erase_node
from mase_hw.ops import Apply
from mase_hw.passes.canonical.common_metadata import add_common_metadata_analysis_pass
from mase_hw.passes.canonical.fold import (
    fold_constants_transform_pass,
    fold_into_producer_transform_pass,
)
from mase_hw.passes.canonical.remove_identity import remove_identity_transform_pass
from mase_hw.passes.count import count_parameters_analysis_pass
from mase_hw.passes.verify import verify_analysis_pass
from tests.modules import Layers


def prepared(model, x):
    return add_common_metadata_analysis_pass(trace(model, x))[0]


def names(mg):
    return [node.name for node in mg.nodes if node.op == "call_function"]


class Noop(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.9)
        self.channels = nn.AlphaDropout(0.9)
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        y = self.drop(self.fc(x)).clone().contiguous().detach()
        z = self.channels(y.to(torch.float32))
        return z + y, z.to(torch.float64), z


def test_identities_leave_and_their_uses_follow():
    x = torch.randn(3, 4)
    mg = prepared(Noop(), x)
    before = mg(x)
    after, info = remove_identity_transform_pass(mg)
    assert set(info["removed"]) >= {"drop", "clone", "detach", "channels"}
    assert names(after) == ["fc", "add", "to_1"]
    assert "drop" in names(mg)
    for left, right in zip(before, after(x), strict=True):
        assert torch.equal(left, right)
    verify_analysis_pass(after)


def test_erasing_a_node_in_use_is_refused_with_torchs_reason():
    mg = prepared(Noop(), torch.randn(3, 4))
    with pytest.raises(MaseError, match=r"node drop at .*but it still had 1 users"):
        erase_node(mg.node("drop"))
    assert "drop" in names(mg)


class Constants(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 3))
        self.register_buffer("offset", torch.arange(3.0))

    def forward(self, x):
        table = (torch.arange(3) * 2.0 + self.offset).reshape(1, 3)
        first, second = torch.split(self.offset * 3, [1, 2])
        return x @ self.weight.abs() + table + first, second


def test_constant_expressions_become_buffers():
    x = torch.randn(3, 4)
    mg = prepared(Constants(), x)
    before = mg(x)
    after, info = fold_constants_transform_pass(mg)
    assert names(after) == ["matmul", "add_1", "add_2"]
    assert len(info["folded"]) == 4
    for left, right in zip(before, after(x), strict=True):
        assert torch.equal(left, right)
    verify_analysis_pass(after)
    assert count_parameters_analysis_pass(after)[1]["parameters"] == 0
    folded = next(node for node in after.nodes if node.op == "get_attr")
    assert metadata(folded).source.code


def test_constants_of_parameters_may_stay_trainable():
    mg, _ = fold_constants_transform_pass(
        prepared(Constants(), torch.randn(3, 4)), {"parameters": False}
    )
    assert len(list(mg.model.parameters())) == 1
    assert "abs" in " ".join(names(mg))


def randomized(model):
    """Give batch norms statistics that matter."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm1d):
            nn.init.uniform_(module.running_mean)
            nn.init.uniform_(module.running_var, 0.5, 2.0)
            nn.init.uniform_(module.weight, -2.0, 2.0)
            nn.init.uniform_(module.bias)
    return model


@pytest.mark.parametrize("bias", [True, False])
def test_batch_norm_folds_into_the_layer_before_it(bias):
    torch.manual_seed(3)
    model = nn.Sequential(
        nn.Linear(4, 6, bias=bias), nn.BatchNorm1d(6), nn.Linear(6, 2), nn.BatchNorm1d(2)
    )
    model = randomized(model).double().eval()
    x = torch.randn(5, 4, dtype=torch.float64)
    mg = prepared(model, x)
    after, info = fold_into_producer_transform_pass(mg)
    assert info["folded"] == {"batchnorm1d_1": "linear_0", "batchnorm1d_3": "linear_2"}
    assert names(after) == ["linear_0", "linear_2"]
    torch.testing.assert_close(after(x), model(x), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(mg(x), model(x))
    verify_analysis_pass(after)
    after(x).sum().backward()
    assert all(parameter.grad is not None for parameter in after.model.parameters())
    assert len(list(after.model.parameters())) == 4
    assert not list(after.model.buffers())


def normed(function):
    return randomized(Layers(function, fc=nn.Linear(4, 4), bn=nn.BatchNorm1d(4)))


def test_a_result_with_other_users_is_not_folded():
    x = torch.randn(5, 4)
    mg = prepared(normed(lambda m, x: m.bn(y := m.fc(x)) + y), x)
    after, info = fold_into_producer_transform_pass(mg)
    assert info["folded"] == {}
    assert torch.equal(after(x), mg(x))


def test_folding_into_a_shared_layer_leaves_its_other_use_alone():
    x = torch.randn(5, 4).double()
    model = normed(lambda m, x: m.fc(m.bn(m.fc(x)))).double().eval()
    after, info = fold_into_producer_transform_pass(prepared(model, x))
    assert info["folded"] == {"bn": "fc"}
    torch.testing.assert_close(after(x), model(x), rtol=1e-12, atol=1e-12)


def _viewed_constant(x):
    return x + torch.arange(12.0).reshape(4, 3).t().contiguous().view(2, 6)


VIEWS = {
    "stream": (Apply(lambda x: x.mT.contiguous().view(x.shape[0], -1) + 1), (2, 3, 4)),
    "constant": (Apply(_viewed_constant), (3, 2, 6)),
    "attention": (
        Layers(
            lambda m, x: m.attention(x, x, x, need_weights=False)[0],
            attention=nn.MultiheadAttention(8, 2, batch_first=True),
        ),
        (2, 3, 8),
    ),
}


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_outlives_the_copy_that_it_is_a_view_of(name):
    model, shape = VIEWS[name]
    x = torch.randn(shape)
    after = canonicalize(trace(model, x))
    assert not any("contiguous" in str(node.target) for node in after.nodes)
    torch.testing.assert_close(after(x), model.eval()(x))


def test_a_batch_norm_behind_a_prelu_is_not_taken_for_one_behind_a_layer():
    model = randomized(nn.Sequential(nn.Linear(4, 1), nn.PReLU(), nn.BatchNorm1d(1))).eval()
    x = torch.randn(5, 4)
    mg = canonicalize(trace(model, x))
    assert names(mg) == ["linear_0", "prelu_1", "batchnorm1d_2"]
    torch.testing.assert_close(mg(x), model(x))


def test_what_a_layer_gives_may_be_squared():
    """A product of a result with itself has no constant factor to fold."""
    squared = nn.Sequential(nn.Linear(4, 3), Apply(lambda y: y * y))
    assert preflight(mase_hw.quantize(trace(squared, torch.randn(2, 4)))) == []
