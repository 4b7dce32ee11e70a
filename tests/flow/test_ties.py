"""Indices that equal elements of the examples leave open are told, and no others."""

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.emit.warnings import warnings

ORDERS = {
    "topk": lambda x: x.topk(3).indices.sort(-1).values,
    "smallest": lambda x: x.topk(2, 1, largest=False)[1].sort(-1).values,
    "sort": lambda x: x.sort(-1, descending=True).indices,
    "argsort": lambda x: x.argsort(-1),
    "kthvalue": lambda x: x.kthvalue(2).indices,
    "median": lambda x: x.median(-1).indices,
}


class Order(nn.Module):
    """Indices in rows, without an order among those that are taken together."""

    def __init__(self, name):
        super().__init__()
        self.name = name

    def forward(self, x):
        return ORDERS[self.name](x)


def told(model, x):
    """Return the warnings of ties, by node."""
    graph = mase_hw.quantize(mase_hw.trace(model, x))
    notes = [note for note in warnings(graph) if "equal elements" in note.text]
    return {note.node: note.text for note in notes}


@pytest.mark.parametrize("name", ORDERS)
def test_open_rows_are_those_that_a_small_change_decides(name):
    torch.manual_seed(0)
    x = torch.randint(0, 9, (64, 5)).float()
    changes = [0.01 * torch.rand_like(x) for _ in range(40)]
    rows = torch.stack([ORDERS[name](x + change).reshape(64, -1) for change in changes])
    count = int((rows != rows[0]).any(0).any(-1).sum())
    assert 0 < count < 64
    (text,) = told(Order(name), x).values()
    assert text.startswith(f"in {count} of 64 rows")


@pytest.mark.parametrize("name", ORDERS)
def test_rows_of_distinct_elements_are_not_told(name):
    torch.manual_seed(0)
    assert told(Order(name), torch.rand(64, 7).argsort(-1).float()) == {}


def test_elements_that_are_read_without_their_indices_are_not_told():
    class Values(nn.Module):
        def forward(self, x):
            return x.topk(2).values + x.sort(stable=True, dim=-1).indices[:, :2]

    assert told(Values(), torch.zeros(16, 4)) == {}
