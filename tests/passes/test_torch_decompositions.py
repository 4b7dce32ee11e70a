"""What no operator covers is written as torch writes it, where operators cover all of that."""

import operator

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.emit.flow import canonicalize, quantize
from mase_hw.emit.preflight import preflight
from mase_hw.ops import Apply, operator_for

DECOMPOSED = {
    "norm": lambda x: x.norm(dim=-1),
    "normalize": lambda x: torch.nn.functional.normalize(x, dim=-1),
    "addcmul": lambda x: torch.addcmul(x, x, x.flip(-1), value=0.5),
    "triu": lambda x: torch.triu(x, 1),
    "cross": lambda x: torch.cross(x[..., :3], x[..., 3:], dim=-1),
    "tensordot": lambda x: torch.tensordot(x, torch.arange(12.0).reshape(6, 2), 1),
    "repeat_interleave": lambda x: x.transpose(1, 2).repeat_interleave(2, -1),
    "trapezoid": lambda x: torch.trapezoid(x, dx=0.5),
    "diff": torch.diff,
    "aminmax": lambda x: torch.aminmax(x, dim=-1)[1],
    "rot90": lambda x: torch.rot90(x, 1, (1, 2)),
}


@pytest.mark.parametrize("name", DECOMPOSED)
def test_decomposition_computes_the_same_for_any_batch(name):
    torch.manual_seed(0)
    model = Apply(DECOMPOSED[name])
    mg = canonicalize(mase_hw.trace(model, (torch.randn(4, 6, 6),)))
    calls = [node for node in mg.nodes if node.op == "call_function"]
    assert all(node.target is operator.getitem or operator_for(node.target) for node in calls)
    for batch in (1, 5):
        given = torch.randn(batch, 6, 6)
        torch.testing.assert_close(mg(given), model(given), rtol=1e-5, atol=1e-5)
    assert not preflight(quantize(mase_hw.trace(model, (torch.randn(4, 6, 6),))))


def test_constants_of_a_decomposition_are_the_parameters_of_the_model():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.randn(6))

        def forward(self, x):
            return torch.addcmul(x, x, self.scale)

    mg = canonicalize(mase_hw.trace(Model(), (torch.randn(4, 6),)))
    assert [node.target for node in mg.nodes if node.op == "get_attr"] == ["scale"]


@pytest.mark.parametrize(
    "function", [torch.linalg.pinv, torch.polygamma, lambda x: torch.nextafter(x, x + 1)]
)
def test_a_part_without_hardware_leaves_the_node_whole(function):
    call = (lambda x: function(1, x)) if function is torch.polygamma else function
    mg = canonicalize(mase_hw.trace(Apply(call), (torch.rand(4, 3, 3),)))
    missing = [
        node
        for node in mg.nodes
        if node.op == "call_function" and operator_for(node.target) is None
    ]
    assert len(missing) == 1
    problems = preflight(quantize(mg, {}))
    assert any(str(missing[0].target) in str(problem) for problem in problems)


def test_what_counts_the_batch_stays_whole():
    model = Apply(lambda x: torch.nn.functional.normalize(x, dim=0))
    mg = mase_hw.trace(model, (torch.randn(4, 6),))
    assert preflight(quantize(mg))


@pytest.mark.parametrize("reduction", ["none", "mean"])
def test_a_decomposition_that_is_wrong_is_not_taken(reduction):
    """That of torch counts targets behind the first -1."""
    torch.manual_seed(0)
    model = nn.MultiLabelMarginLoss(reduction=reduction)
    targets = torch.tensor([[2, 0, -1, 1, 1, 1], [5, -1, 0, 0, 0, 0], [1, 2, 3, -1, 0, 0]])
    mg = canonicalize(mase_hw.trace(model, (torch.randn(3, 6), targets)))
    given = torch.randn(3, 6)
    torch.testing.assert_close(mg(given, targets), model(given, targets))
