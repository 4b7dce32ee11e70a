"""A batch that becomes part of one inference is said, with the user's line."""

import logging

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.emit.preflight import batch_notes, notes, preflight
from mase_hw.ops import Apply


class Squeezed(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(6, 3)

    def forward(self, x):
        x = x.mean(1, keepdim=True)
        return self.head(x.squeeze())


class Merged(Squeezed):
    def forward(self, x):
        return self.head(x.reshape(-1, 6))


class Kept(Squeezed):
    def forward(self, x):
        return self.head(x.mean(1, keepdim=True).squeeze(1))


class Counted(Squeezed):
    def forward(self, x):
        return self.head(x.reshape(len(x), 18)[:, :6])


class Positions(Squeezed):
    def __init__(self):
        super().__init__()
        self.positions = nn.Parameter(torch.randn(9, 3, 6))

    def forward(self, x):
        return self.head(x + self.positions[: x.shape[0]])


def said(model, batch=4):
    mg = mase_hw.quantize(mase_hw.trace(model.eval(), torch.randn(batch, 3, 6)))
    assert not preflight(mg)
    return [str(note) for note in notes(mg)]


@pytest.mark.parametrize(
    ("model", "line", "text"),
    [
        (Squeezed, "self.head(x.squeeze())", "name the dimension, such as squeeze(1)"),
        (Merged, "self.head(x.reshape(-1, 6))", "moves, cuts or merges dimension 0, of size 4"),
        (Positions, "x + self.positions", "it takes a constant of 4 rows"),
        (Counted, "x.reshape(len(x), 18)", "say x.shape[0]"),
    ],
)
def test_a_batch_that_becomes_hardware_is_said(model, line, text):
    (note,) = said(model())
    assert "test_fixed_batch.py" in note
    assert line in note
    assert text in note
    assert "all 4 rows of the example inputs are one inference" in note


def test_nothing_is_said_of_a_batch_that_is_free_or_of_one_or_of_one_vector():
    assert said(Kept()) == []
    assert said(Merged(), batch=1) == []
    mg = mase_hw.quantize(mase_hw.trace(nn.Linear(3, 3), torch.tensor([0.5, -1.0, 2.0])))
    assert batch_notes(mg) == []


def test_a_constant_that_is_returned_leaves_the_batch_free():
    class Constants(Squeezed):
        def forward(self, x):
            return self.head(x), self.head.weight, self.head.weight * 2

    mg = mase_hw.trace(Constants().eval(), torch.randn(4, 6))
    assert mg.batched
    assert [item.shape[0] for item in mg(torch.randn(7, 6))] == [7, 3, 3]


@pytest.mark.parametrize(
    ("model", "numbers"),
    [
        (nn.Embedding(5, 3), torch.tensor([1, 4, 0])),
        (nn.ReLU(), torch.tensor([0.5, -1.0, 2.0])),
        (nn.Sequential(nn.Unflatten(0, (3, 1)), nn.Linear(1, 4)), torch.tensor([0.5, -1.0, 2.0])),
    ],
)
def test_numbers_of_one_dimension_are_one_inference_and_that_is_said(model, numbers):
    mg = mase_hw.quantize(mase_hw.trace(model, numbers))
    (note,) = [str(note) for note in batch_notes(mg)]
    assert "all 3 numbers of the example are one inference" in note
    assert "take [3, 1] and squeeze(1) it" in note


@pytest.mark.full
def test_a_number_for_each_example_is_simulated_with_the_inputs_of_the_capture(tmp_path):
    """Beside an input that has a batch, as the time of a diffusion step, or by itself."""
    beside = Apply(lambda x, t, w: x @ w + t[:, None], torch.randn(3, 4))
    inputs = torch.randn(6, 3), torch.rand(6)
    for model, given in ((beside, inputs), (nn.ReLU(), inputs[1])):
        project = mase_hw.emit_verilog(model, given, output=tmp_path / "project")
        assert mase_hw.simulate(project, given).bit_exact


def test_emission_says_it_too(tmp_path, caplog):
    with caplog.at_level(logging.WARNING):
        mase_hw.emit_verilog(Squeezed().eval(), torch.randn(4, 3, 6), output=tmp_path / "p")
    # One inference is few examples, which is said behind it.
    assert ["squeeze(1)" in record.message for record in caplog.records] == [True, False]
    assert "formats are fitted to 1 example" in caplog.records[1].message
