"""Every pass, on graphs of each stage of the flow. Nobody edits this file to add a pass."""

from importlib import import_module
from inspect import signature

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.emit.flow import canonicalize, quantize, to_hardware
from mase_hw.errors import MaseError
from mase_hw.registry import modules

PASSES = {
    name: member
    for module in modules("mase_hw.passes")
    for name, member in vars(import_module(module)).items()
    if name.endswith("_pass") and member.__module__ == module
}
X = torch.linspace(-1, 1, 48).reshape(8, 6)
FIELDS = {"width": 8, "frac_width": 4}
# What some passes cannot do without.
ARGUMENTS = {"sparsity": 0.5, "data": [X[:4]], "rank": 2, "strength": 0.5}


@pytest.fixture(scope="module")
def stages():
    """A graph as it is captured, with formats, with loops, as hardware; with adapters at last."""
    torch.manual_seed(0)
    layers = [nn.Sequential(nn.Linear(6, 6), nn.ReLU()) for _ in range(3)]
    captured = mase_hw.trace(nn.Sequential(*layers), X)
    canonical = canonicalize(captured)
    adapted = PASSES["insert_lora_adapter_transform_pass"](canonical.copy(), rank=2)[0]
    operands = ("data_in", "weight", "bias", "data_out")
    entry = {f"{name}_{key}": value for name in operands for key, value in FIELDS.items()}
    quantized = quantize(captured, {"default": {"config": {"name": "fixed", **entry}}})
    loops = quantize(captured, reuse=True)
    return [captured, canonical, quantized, loops, to_hardware(quantized), adapted]


@pytest.mark.parametrize("name", PASSES)
def test_a_pass_takes_graphs_of_its_stages_and_refuses_others(name, stages):
    """What it gives computes a tensor of the same shape."""
    chosen = {key: ARGUMENTS[key] for key in signature(PASSES[name]).parameters if key in ARGUMENTS}
    shapes, reasons = [], []
    for stage in stages:
        if shapes and stage is stages[-1]:
            break
        try:
            changed, info = PASSES[name](stage.copy(), **chosen)
        except MaseError as error:
            reasons.append(str(error))
            continue
        assert isinstance(info, dict)
        shapes.append(changed(X).shape)
    assert set(shapes) <= {X.shape}
    assert shapes or all("give" in reason for reason in reasons), reasons


@pytest.mark.parametrize("name", [n for n, item in PASSES.items() if hasattr(item, "__wrapped__")])
def test_a_pass_refuses_an_argument_that_it_does_not_have(name, stages):
    with pytest.raises(MaseError, match="no_such_argument"):
        PASSES[name](stages[2].copy(), {"no_such_argument": 1})
