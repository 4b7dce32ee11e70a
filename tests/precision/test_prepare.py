"""Preparation keeps the float model, and lets cheaper formats keep the goal."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import mase_hw
from mase_hw.emit.flow import canonicalize
from mase_hw.errors import ConfigError
from mase_hw.passes import correct_bias_transform_pass
from mase_hw.passes.canonical.software_metadata import add_software_metadata_analysis_pass
from mase_hw.precision import fit_formats
from mase_hw.precision.preparations import CHANGES
from mase_hw.precision.report import head, write


class Outliers(nn.Module):
    """A norm with two channels far larger than the others, of correlated inputs."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.norm, self.first, self.second = nn.LayerNorm(32), nn.Linear(32, 32), nn.Linear(32, 6)
        with torch.no_grad():
            self.norm.weight[:2] *= 30
            self.first.weight[:, :2] /= 30
        self.mixing = torch.randn(4, 32, generator=generator)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.second(self.first(self.norm(x)).relu())
        return found


def outliers() -> mase_hw.MaseGraph:
    torch.manual_seed(0)
    model = Outliers()
    inputs = torch.randn(240, 4) @ model.mixing + 0.1 * torch.randn(240, 32)
    return mase_hw.trace(model.eval(), inputs, name="outliers")


@pytest.mark.parametrize("name", CHANGES)
def test_the_float_model_stays_the_same_function(name: str) -> None:
    base, _ = add_software_metadata_analysis_pass(canonicalize(outliers()), {})
    (x,) = base.example_inputs
    changed = CHANGES[name](base, [[x]])
    assert changed is not None
    with torch.no_grad():
        torch.testing.assert_close(changed(x), base(x), rtol=1e-4, atol=1e-4)


@pytest.mark.full
def test_scaled_channels_make_cheaper_formats_do(tmp_path: Path) -> None:
    graph = outliers()
    plain = fit_formats(graph, min_sqnr=30, formats=["fixed"], prepare=False)
    found = fit_formats(graph, min_sqnr=30, formats=["fixed"])
    assert not plain.tried
    assert found.has_own_weights
    assert found.result.sqnr_db >= 30
    assert found.result.cost.weighed < 0.95 * plain.result.cost.weighed
    assert "Needed with it" in "\n".join(head(found))
    # Against the model that was given, on samples that the choice has not seen.
    (x,) = graph.example_inputs
    with torch.no_grad():
        exact, held = graph(x)[3::4], found.graph(x)[3::4]
    assert 10 * torch.log10(exact.square().sum() / (exact - held).square().sum()) >= 29.5
    write(found, tmp_path)
    loaded = mase_hw.MaseGraph.load(tmp_path / "model.mase")
    with torch.no_grad():
        assert torch.equal(loaded(x), found.graph(x))


@pytest.mark.full
def test_prepared_designs_are_exact(tmp_path: Path) -> None:
    graph = outliers()
    found = fit_formats(graph, min_sqnr=25, formats=["fixed", "scaled_integer"])
    project = mase_hw.emit_verilog(found.graph, output=tmp_path / "net", parallelism=2)
    report = mase_hw.simulate(project, graph.example_inputs[0][:20], stall=0.2)
    assert report.bit_exact, report.first_mismatch


def test_biases_make_up_for_the_mean_error_of_rounding() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv1d(2, 5, 3), nn.ReLU(), nn.Flatten(), nn.Linear(30, 4))
    inputs = torch.randn(300, 2, 8) + 1
    graph = mase_hw.trace(model.eval(), inputs)
    entry = {"name": "fixed", "data_in_width": 8, "weight_width": 3, "bias_width": 14}
    mg = mase_hw.quantize(graph, {"default": {"config": entry}})
    found, info = correct_bias_transform_pass(mg, {"data": [inputs[:200]]})
    assert len(info["layers"]) == 2
    with torch.no_grad():
        exact = graph(inputs[200:])
        before, after = ((exact - item(inputs[200:])).mean(0).norm() for item in (mg, found))
    assert after < 0.5 * before
    for bad, message in (({"nodes": ["no"]}, "no layer"), ({"date": []}, "no argument 'date'")):
        with pytest.raises(ConfigError, match=message):
            correct_bias_transform_pass(mg, bad)
    with pytest.raises(ConfigError, match="no number formats"):
        correct_bias_transform_pass(canonicalize(graph), {})
