"""Small models that flows of this kind get wrong: each does the right thing here."""

from fractions import Fraction
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import mase_hw
from tests.flow.perceptrons import assert_bit_exact, by_type

LAB = by_type(
    data_in_width=8, data_in_frac_width=3, weight_width=8, weight_frac_width=3, bias_width=8,
    bias_frac_width=3,
)  # fmt: skip


class Sum(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x + y


def nearest_code(value: Fraction, frac_width: int) -> int:
    """Round to nearest, ties to even, and saturate, in exact arithmetic: an oracle of its own."""
    return max(-128, min(127, round(value * 2**frac_width)))


def exact_linear(model: nn.Linear, inputs: Tensor) -> list[list[int]]:
    """Return the codes of the rectified layer in fixed 8.3, computed with fractions."""

    def read(value: float) -> Fraction:
        return Fraction(nearest_code(Fraction(value), 3), 8)

    weight = [[read(item) for item in row] for row in model.weight.tolist()]
    bias = [read(item) for item in model.bias.tolist()]
    rows = []
    for sample in inputs.tolist():
        given = [read(item) for item in sample]
        sums = [
            sum((w * x for w, x in zip(row, given, strict=True)), start)
            for row, start in zip(weight, bias, strict=True)
        ]
        rows.append([max(0, nearest_code(item, 3)) for item in sums])
    return rows


@pytest.mark.parametrize(
    "parallelism",
    [pytest.param(1, marks=pytest.mark.full), 2, pytest.param(4, marks=pytest.mark.full)],
)
def test_the_lab_design_with_negative_stimulus(parallelism: int, tmp_path: Path) -> None:
    torch.manual_seed(0)
    linear = nn.Linear(4, 8)
    with torch.no_grad():
        linear.weight.mul_(4)
    model = nn.Sequential(linear, nn.ReLU()).eval()
    stimulus = 6 * torch.randn(40, 4, generator=torch.Generator().manual_seed(1))
    assert (stimulus < 0).any(dim=1).sum() > 20
    project = mase_hw.emit_verilog(
        model, stimulus[:2], output=tmp_path / "lab", config=LAB, parallelism=parallelism
    )
    report = mase_hw.simulate(project, stimulus, stall=0.2)
    assert_bit_exact(report, 40 * 8)
    expected = exact_linear(linear, stimulus)
    assert report.outputs["data_out_0"].tolist() == expected
    assert {0, 127} < {code for row in expected for code in row}
    top = (project.folder / "top.sv").read_text()
    for words in (
        f"// model_input [1, 4] fixed<8,3>, 1 x {min(parallelism, 4)} elements a beat",
        f"[1, 8] fixed<8,3>, 1 x {parallelism} elements a beat",
        f"input  logic [{min(parallelism, 4) - 1}:0][7:0] data_in_0,",
        f"output logic [{parallelism - 1}:0][7:0] data_out_0,",
    ):
        assert words in top


def test_rank_3_without_bias_and_a_padded_tail(tmp_path: Path) -> None:
    """Ten results at parallelism 4 take three tiles everywhere."""
    model = nn.Sequential(nn.Linear(6, 10, bias=False), nn.ReLU(), nn.Linear(10, 10, bias=False))
    project = mase_hw.emit_verilog(
        model.eval(), torch.randn(2, 3, 6), output=tmp_path / "out", parallelism=4
    )
    (leaving,) = project.design.outputs
    assert (leaving.spec.shape, leaving.spec.beats) == ((1, 3, 10), 9)
    inputs = torch.randn(30, 3, 6, generator=torch.Generator().manual_seed(0))
    report = mase_hw.simulate(project, inputs, stall=0.3)
    assert_bit_exact(report, 30 * 30)
    assert report.values["data_out_0"].shape == (30, 3, 10)
    error = (report.values["data_out_0"] - model(inputs)).abs().max()
    assert error < 0.2
    assert mase_hw.simulate(project, samples=20).interval_cycles == 3 * 3 * 3


def test_five_and_minus_three_are_two(tmp_path: Path) -> None:
    config = by_type(data_in_width=8, data_in_frac_width=4)
    project = mase_hw.emit_verilog(
        Sum(), (torch.zeros(1, 2), torch.zeros(1, 2)), output=tmp_path / "out", config=config
    )
    given = [torch.tensor([[5.0, -5.0]]), torch.tensor([[-3.0, -4.0]])]
    report = mase_hw.simulate(project, given)
    assert_bit_exact(report, 2)
    assert report.values["data_out_0"].tolist() == [[2.0, -8.0]]
