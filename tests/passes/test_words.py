"""Names that users of such flows already write: they work, or say what to write."""

import re

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw import passes
from mase_hw.errors import CaptureError, ConfigError
from mase_hw.passes._elsewhere import ELSEWHERE
from mase_hw.passes.compression.prune import prune_transform_pass
from tests._readme import ROOT


def graph():
    torch.manual_seed(0)
    return mase_hw.trace(nn.Sequential(nn.Linear(8, 8), nn.Dropout(), nn.ReLU()), torch.randn(2, 8))


def test_pruning_takes_other_words_for_its_criterion():
    mg = graph()
    left, _ = prune_transform_pass(mg, {"sparsity": 0.5, "method": "l1-norm"})
    right, _ = prune_transform_pass(mg, {"sparsity": 0.5, "criterion": "l1"})
    assert torch.equal(left.state_dict()["0.weight"], right.state_dict()["0.weight"])
    with pytest.raises(ConfigError, match="prune_activations_transform_pass"):
        prune_transform_pass(mg, {"activation": {"sparsity": 0.1}})
    with pytest.raises(ConfigError, match="criterion is 'l3'"):
        prune_transform_pass(mg, {"sparsity": 0.5, "method": "l3-norm"})


def test_a_graph_of_a_module_says_how_it_is_captured():
    with pytest.raises(CaptureError, match=r'trace\(model, \{"input_ids": \.\.\.\}\)'):
        mase_hw.MaseGraph(nn.Linear(2, 2), hf_input_names=["input_ids"])
    with pytest.raises(CaptureError, match="Linear, not a captured graph"):
        mase_hw.MaseGraph(nn.Linear(2, 2))


def test_passes_are_imported_from_their_package():
    assert passes.prune_transform_pass is prune_transform_pass
    mg, _ = passes.add_common_metadata_analysis_pass(passes.init_metadata_analysis_pass(graph())[0])
    mg, info = passes.remove_identity_transform_pass(mg)
    assert len(info["removed"]) == 1  # the dropout
    with pytest.raises(ImportError):
        from mase_hw.passes import no_such_pass  # noqa: F401


def test_passes_of_other_flows_are_refused_with_the_line_to_write():
    rows = (ROOT / "mase_hw" / "passes" / "README.md").read_text().splitlines()
    for name, line in ELSEWHERE.items():
        with pytest.raises(ConfigError, match=re.escape(line)):
            getattr(passes, name)
        for word in re.findall(r"(\w+_pass)\(", line):
            assert callable(getattr(passes, word))
        (row,) = [row for row in rows if f"`{name}`" in row]
        assert row.rsplit("|", 2)[1].replace("`", "").strip() == line


def test_arguments_of_other_flows_work_or_say_what_to_write():
    mg, _ = passes.init_metadata_analysis_pass(graph(), None)
    with pytest.raises(ConfigError, match="leave it out"):
        passes.add_common_metadata_analysis_pass(mg, pass_args={"dummy_in": {}})
    mg, _ = passes.add_common_metadata_analysis_pass(mg, pass_args={})
    pruned, _ = prune_transform_pass(mg, pass_args={"sparsity": 0.5, "scope": "local"})
    assert float((pruned.state_dict()["0.weight"] == 0).float().mean()) == 0.5
