"""Names that users of such flows already write: they work, or say what to write."""

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw import passes
from mase_hw.errors import CaptureError, ConfigError
from mase_hw.passes.compression.prune import prune_transform_pass


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
    with pytest.raises(ConfigError, match="criterion is 'l2'"):
        prune_transform_pass(mg, {"sparsity": 0.5, "method": "l2-norm"})


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
