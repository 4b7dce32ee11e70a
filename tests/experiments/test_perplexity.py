"""The table of perplexities: what follows from losses, and what is not measured twice."""

import json
import math

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.emit.flow import canonicalize
from mase_hw.errors import ConfigError
from mase_hw.experiments import perplexity
from mase_hw.experiments.perplexity import NEAREST, Scope, measure

LOSSES = {
    "float, nearest": [1.0, 2.0],
    "mxint 3, nearest": [2.0, 3.0],
    "mxint 3, gptq": [1.25, 2.75],
    "fixed 8, nearest": [1.0, 2.0],
    "fixed 8, gptq": [1.0, 2.0],
}


def test_the_table_follows_from_losses(tmp_path):
    runs = [("mxint 3", NEAREST), ("mxint 3", "gptq"), ("fixed 8", NEAREST), ("fixed 8", "gptq")]
    (tmp_path / "perplexity-2x8.json").write_text(json.dumps(LOSSES))
    steps = []
    outcome = measure(tmp_path, Scope(runs, 2, 8, 2), lambda done, of: steps.append((done, of)))
    assert steps[-1] == (5, 5)
    rows = {(row[0], row[1]): row[2:] for row in outcome.rows}
    bits, perplexity, error, closed = rows["float", NEAREST]
    assert (bits, perplexity, closed) == (32.0, math.exp(1.5), "")
    assert error == pytest.approx(math.exp(1.5) * 0.5)
    bits, perplexity, _, closed = rows["mxint 3", "gptq"]
    assert (bits, perplexity) == (3.25, math.exp(2.0))
    # Gains of 0.75 and 0.25 of a gap of 1.
    assert closed == "50 ± 25"
    assert rows["fixed 8", "gptq"][-1] == "0 ± 0"
    assert [axes.get_title() for axes in outcome.figure.axes] == ["mxint", "fixed"]


def test_weights_in_groups_are_those_of_torchao():
    quantization = pytest.importorskip("torchao.quantization")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 4)).eval()
    x = torch.randn(5, 64)
    graph = canonicalize(mase_hw.trace(model, x))
    rounded = perplexity._rounded_by_torchao(graph, {"group_size": 4})
    config = quantization.IntxWeightOnlyConfig(torch.int4, granularity=quantization.PerGroup(4))
    quantization.quantize_(model, config)
    torch.testing.assert_close(rounded(x), model(x))
    with pytest.raises(ConfigError, match="integers in groups"):
        perplexity._rounded_by_torchao(graph, {"name": "fixed"})
