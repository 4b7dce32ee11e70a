"""Elements that are written, added or picked at constant places, and constants of every row."""

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.emit.preflight import preflight
from mase_hw.errors import MaseError

TWO, FOUR = torch.tensor([0, 2]), torch.tensor([0, 2, 2, 0])
attention = nn.functional.scaled_dot_product_attention


def rows(x, index):
    return index.expand(x.shape[0], -1)


def written(write):
    def function(x, w):
        y = x.clone()
        write(y, x, w)
        return y

    return function


def assign(y, at, value):
    y[at] = value


def every(x):
    return torch.arange(x.shape[0])


def scaled(y, x, w):
    y[y < 0] *= 0.1


def several(y, x, w):
    kept = y.abs() > 0.5
    y[kept] = torch.where(y[kept] > 1, y[kept].abs().sqrt(), x[kept])
    y[x > 0] += 1


def merged(x, index):
    """The rows that DGCNN takes from the elements of all inferences."""
    rows, length = x.shape[:2]
    index = index + torch.arange(rows).view(-1, 1, 1) * length
    return x.reshape(rows * length, -1)[index.view(-1)].view(rows, *index.shape[1:], -1)


def numbered(index):
    """The rows that PointNet++ repeats for each index."""
    sizes = [-1] + [1] * (index.dim() - 1)
    return torch.arange(index.shape[0]).view(sizes).repeat(1, *index.shape[1:])


def nearest(x):
    return torch.cdist(x, x).topk(2, largest=False)[1]


ALL = slice(None)
CASES = {
    "mask": (written(lambda y, x, w: assign(y, y < 0, 0)), (4,)),
    "mask of rows": (written(lambda y, x, w: assign(y, (y > 0).all(-1), 2)), (3, 4)),
    "a row under a mask": (written(lambda y, x, w: assign(y, x.sum(-1) > 0, w[0, :, 0])), (3, 4)),
    "elements under a mask": (written(scaled), (4,)),
    "elements under masks": (written(several), (3, 4)),
    "rows under a mask": (
        written(lambda y, x, w: assign(y, x[..., 0] > 0, x[x[..., 0] > 0] * w[0, :, 0])),
        (3, 4),
    ),
    "every row": (written(lambda y, x, w: assign(y, (every(x), 1), x[:, 0])), (4,)),
    "every row of indices": (
        written(lambda y, x, w: assign(y, (every(x)[:, None], TWO), x[:, 1:3])),
        (4,),
    ),
    "added to every row": (
        lambda x, w: x.index_put((every(x)[:, None], FOUR), x, accumulate=True),
        (4,),
    ),
    "picked of every row": (lambda x, w: x[every(x), 2], (4, 3)),
    "constant mask": (written(lambda y, x, w: assign(y, (ALL, FOUR > 0), 0.5)), (4,)),
    "slice": (written(lambda y, x, w: assign(y, (ALL, slice(1, 3)), x[:, :2])), (4,)),
    "number": (written(lambda y, x, w: assign(y, (ALL, slice(1, 3)), 0)), (4,)),
    "steps": (written(lambda y, x, w: assign(y, (ALL, slice(0, 4, 2)), -x[:, ::2])), (4,)),
    "two dimensions": (
        written(lambda y, x, w: assign(y, (ALL, slice(1, 3), slice(0, 2)), x[:, :2, 1:])),
        (4, 3),
    ),
    "column": (written(lambda y, x, w: assign(y, (..., 0), x.sum(-1))), (4, 3)),
    "constant": (written(lambda y, x, w: assign(y, (ALL, 1), w[0, 0, :3])), (4, 3)),
    "indices": (written(lambda y, x, w: assign(y, (ALL, TWO), x[:, 1:3] * 3)), (4,)),
    "index_copy": (lambda x, w: x.index_copy(1, TWO, x[:, 1:3] * 2), (4, 2)),
    "index_fill": (lambda x, w: x.index_fill(1, TWO, -1.0), (4,)),
    "index_add": (lambda x, w: torch.zeros_like(x)[:, :3].index_add(1, FOUR, x), (4, 2)),
    "index_add to x": (lambda x, w: x.index_add(1, FOUR, x.flip(1)), (4, 2)),
    "scatter": (lambda x, w: torch.zeros(x.shape[0], 6).scatter(1, rows(x, TWO[None]), x), (4,)),
    "scatter of a number": (lambda x, w: x.scatter(1, rows(x, TWO[None]), 7.0), (4,)),
    "scatter_add": (lambda x, w: torch.zeros(x.shape[0], 3).scatter_add(1, rows(x, FOUR), x), (4,)),
    "gather": (lambda x, w: x.gather(1, rows(x, TWO[None])), (4,)),
    "computed, of merged rows": (lambda x, w: merged(x, nearest(x)), (4, 3)),
    "computed, of repeated rows": (lambda x, w: x[numbered(nearest(x)), nearest(x)], (4, 3)),
    "computed, of flat rows": (
        lambda x, w: x[
            every(x)[:, None].repeat(1, 2).flatten(), x[..., 0].topk(2)[1].flatten()
        ].view(x.shape[0], 2, 3),
        (4, 3),
    ),
    "computed, behind a dimension": (lambda x, w: x[every(x), :, x.sum(1).argmax(1)], (4, 3)),
    "computed, of two dimensions": (
        lambda x, w: x[every(x), :, x.sum((1, 2)).argmax(1) - 3, x.sum((1, 3)).argmax(1)],
        (2, 3, 3),
    ),
    "added at computed, of two dimensions": (
        written(
            lambda y, x, w: assign(y, (every(x), x[:, 0].argmax(1), x[:, 1].argmax(1)), x[:, 1, 1])
        ),
        (3, 3),
    ),
    "computed, from the end": (lambda x, w: x[every(x), x[..., 0].argmax(1) - 4], (4, 3)),
    "computed, whole": (lambda x, w: x.argsort(1)[every(x)[:, None], x.topk(2)[1] // 2], (4,)),
    "written at computed": (
        written(lambda y, x, w: assign(y, (every(x), x[..., 0].argmax(1)), w[0, 0])),
        (4, 5),
    ),
    "filled at computed": (written(lambda y, x, w: assign(y, (every(x), x.argmax(1)), 0)), (4,)),
    "affine": (
        lambda x, w: nn.functional.affine_grid(x[:, :, :3], [x.shape[0], 1, 3, 2], True),
        (2, 4),
    ),
    "ones": (lambda x, w: torch.stack([torch.ones_like(x), x], -1), (4,)),
    "zeros": (lambda x, w: torch.cat([torch.zeros_like(x[:, :1]), x], 1), (4,)),
    "homogeneous": (lambda x, w: torch.cat([x, torch.ones(x.shape[0], 4, 1)], -1), (4, 3)),
    "matrix": (lambda x, w: torch.bmm(x, w[:1].expand(x.shape[0], -1, -1)), (3, 4)),
    "matrix before": (lambda x, w: torch.bmm(w[:1].mT.expand(x.shape[0], -1, -1), x), (4, 3)),
    "matrix and sum": (
        lambda x, w: torch.baddbmm(torch.zeros(1), x, w[:1].expand(x.shape[0], -1, -1)),
        (3, 4),
    ),
    "queries": (
        lambda x, w: attention(w[None, :1].expand(x.shape[0], -1, -1, -1), x, x),
        (1, 3, 5),
    ),
    "one row of queries": (lambda x, w: attention(w[None, :1], x, x), (1, 3, 5)),
    "keys": (lambda x, w: attention(x, w[None, :1].expand(x.shape[0], -1, -1, -1), x), (1, 4, 5)),
}


class Model(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function
        self.weight = nn.Parameter(torch.randn(3, 4, 5))

    def forward(self, x):
        return self.function(x, self.weight)


@pytest.mark.first(12)
@pytest.mark.parametrize("name", CASES)
def test_the_batch_is_free_and_everything_has_hardware(name):
    torch.manual_seed(0)
    function, shape = CASES[name]
    model = Model(function)
    mg = mase_hw.trace(model, torch.randn(6, *shape))
    assert mg.batched
    x = torch.randn(7, *shape)
    torch.testing.assert_close(mg(x), model(x))
    assert preflight(mase_hw.quantize(mg)) == []


@pytest.mark.parametrize(
    "compute",
    [
        lambda found, x: found.cumsum(0),
        lambda found, x: found - found.mean(),
        lambda f, x: x[x > 1],
    ],
)
def test_what_elements_under_a_mask_have_of_each_other_is_refused(compute):
    def function(x, w):
        y = x.clone()
        y[x > 0] = compute(y[x > 0], x)
        return y

    try:
        mg = mase_hw.trace(Model(function), torch.tensor([[1.5, -1.0], [-0.5, 2.0]]))
    except MaseError:
        return
    assert preflight(mase_hw.quantize(mg))


def test_what_is_written_to_one_inference_of_a_batch_is_not_written_to_all():
    def first(x, w):
        y = x.clone()
        y[0] = 0
        return y

    mg = mase_hw.trace(Model(first), torch.randn(6, 4))
    assert not mg.batched
    x = torch.randn(6, 4)
    torch.testing.assert_close(mg(x), Model(first)(x))
