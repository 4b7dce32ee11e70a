"""Operators of whole numbers: places of maxima, orders of rows, counts, bags of rows."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

import mase_hw
from mase_hw.emit.preflight import preflight
from mase_hw.errors import FormatError
from mase_hw.geometry.window import Axis
from mase_hw.ops import Apply
from mase_hw.ops.pooling.windows import listed, window_index
from tests.engines import as_predicted

pool = nn.functional


def quantized(function, *inputs):
    model = function if isinstance(function, nn.Module) else Apply(function)
    mg = mase_hw.trace(model.eval(), inputs)
    assert mg.batched
    found = mase_hw.quantize(mg)
    assert preflight(found) == []
    return found


@pytest.mark.full
@settings(deadline=None, max_examples=40)
@given(st.data())
def test_places_of_maxima_are_those_of_torch(data):
    kernel, stride = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))
    dilation, padding = data.draw(st.integers(1, 2)), data.draw(st.integers(0, kernel // 2))
    sizes = [data.draw(st.integers(5, 8)) for _ in range(2)]
    # Few values, so that many are equal.
    seed = data.draw(st.integers(0, 99))
    x = torch.randint(0, 3, (2, 2, *sizes), generator=torch.Generator().manual_seed(seed)).float()
    given_to = (kernel, stride, padding, dilation)
    _, expected = pool.max_pool2d(x, *given_to, return_indices=True)
    axes = [
        Axis.sliding(size, kernel, stride, dilation, padding, count)
        for size, count in zip(sizes, expected.shape[2:], strict=True)
    ]
    assert torch.equal(window_index(x, *listed(*axes)), expected)
    mg = quantized(lambda x: pool.max_pool2d(x, *given_to, return_indices=True)[1], x)
    assert torch.equal(mg(x).long(), expected)


@settings(deadline=None, max_examples=15)
@given(st.lists(st.integers(-3, 3), min_size=2, max_size=8), st.booleans())
def test_equal_elements_stay_in_their_order(row, descending):
    x = torch.tensor([row, row[::-1]]).float()
    options = {"dim": -1, "descending": descending, "stable": True}
    values, indices = quantized(lambda x: torch.sort(x, **options), x)(x)
    expected = torch.sort(x, **options)
    assert torch.equal(indices.long(), expected.indices)
    torch.testing.assert_close(values, expected.values, rtol=0, atol=0.02)


def test_whole_numbers_beyond_eight_bits_are_exact():
    numbers = torch.tensor([[299, 0, 150], [151, 298, 7]])
    found = quantized(lambda x: pool.one_hot(x, 300).float(), numbers)(numbers)
    assert torch.equal(found, pool.one_hot(numbers, 300).float())
    x = torch.ones(2, 300)
    x[0, :101] = -1
    counted = quantized(lambda x: (x > 0).sum(-1), x)(x)
    assert counted.flatten().tolist() == [199, 300]


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_of_rows_have_a_free_batch(mode):
    torch.manual_seed(0)
    model, numbers = nn.EmbeddingBag(7, 4, mode=mode).eval(), torch.randint(0, 7, (2, 3))
    mg = mase_hw.trace(model, numbers)
    more = torch.randint(0, 7, (5, 3))
    torch.testing.assert_close(mg(more), model(more))
    assert preflight(mase_hw.quantize(mg)) == []


def test_windows_of_one_inference_are_those_of_all():
    samples = torch.tensor([[[0.2, 0.9], [0.6, 0.4]]])
    model = nn.FractionalMaxPool2d(2, output_size=(2, 3), _random_samples=samples)
    x = torch.randn(1, 2, 5, 6)
    mg = quantized(model, x)
    more = torch.randn(3, 2, 5, 6)
    expected = torch.cat([model(item[None]) for item in more])
    torch.testing.assert_close(mg(more), expected, rtol=0, atol=0.1)


def test_windows_that_are_drawn_are_refused():
    mg = mase_hw.trace(nn.FractionalMaxPool2d(2, output_size=2), torch.randn(2, 2, 5, 6))
    problems = [str(item) for item in preflight(mase_hw.quantize(mg))]
    assert any("its windows are drawn at every call" in item for item in problems)


def test_a_constant_that_is_infinite_is_named():
    model = Apply(lambda x: torch.where(x > 0, x, torch.tensor([float("-inf")])))
    mg = mase_hw.trace(model, torch.randn(2, 3))
    with pytest.raises(FormatError, match=r"where \(.*no finite number"):
        mase_hw.quantize(mg)


class PooledTogether(nn.Module):
    """Two images that are one inference, as code that fixes their number makes them."""

    def forward(self, x):
        pooled = functional.adaptive_avg_pool2d(x, 1)
        return (pooled * 1.5).view(2, -1) + pooled.view(2, -1)


@pytest.mark.first(1)
@pytest.mark.parametrize("parallelism", [3, 4])
def test_each_of_several_images_is_pooled_by_itself(parallelism, tmp_path):
    images = torch.randn(2, 4, 3, 3, generator=torch.Generator().manual_seed(0))
    project = mase_hw.emit_verilog(
        PooledTogether(), images, output=tmp_path / "project", parallelism=parallelism
    )
    as_predicted(project, samples=8)
