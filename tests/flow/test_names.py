"""Layers may be called as they like: what SystemVerilog or the top uses is renamed or refused."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import mase_hw
from mase_hw.emit.project import Project
from mase_hw.errors import EmissionError
from tests.engines import exact

LEGAL = ("begin", "data_in_0", "data_out_0", "clk", "mase_pkg", "Fixed8x5", "größe", "top")
RELATED = ("a", "a_b", "a_weight", "a_inst", "a_weight_source_0", "a_data_out_0", "data_in_a")


class Named(nn.Module):
    """A chain of small layers with the given names."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.names = names
        for name in names:
            self.add_module(name, nn.Linear(3, 3))

    def forward(self, x: Tensor) -> Tensor:
        for name in self.names:
            x = getattr(self, name)(x)
        return x


def emitted(names: Sequence[str], folder: Path) -> Project:
    return mase_hw.emit_verilog(Named(names), torch.randn(4, 3), output=folder)


@pytest.mark.first(1)
@pytest.mark.parametrize("names", [LEGAL, RELATED])
def test_any_names(names, tmp_path):
    exact(emitted(names, tmp_path / "project"), samples=3)


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        (
            ("a", "a_replay"),
            "an instance of a_replay and an instance of a are both called a_replay_inst in the "
            "top; rename a layer",
        ),
        (("z" * 300,), "has 30. characters, at most 200 are allowed; rename the layer"),
    ],
)
def test_a_name_that_is_refused(names, problem, tmp_path):
    with pytest.raises(EmissionError, match=problem) as error:
        emitted(names, tmp_path / "project")
    assert len(str(error.value)) < 250
    assert not list(tmp_path.iterdir())
