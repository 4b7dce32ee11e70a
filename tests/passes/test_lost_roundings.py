"""A rounding that a model declares is kept, or the model is refused by the rounding's name."""

from __future__ import annotations

import re

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.arithmetic.exact_formats import holds
from mase_hw.emit.design import DesignSummary
from mase_hw.emit.flow import lowered, quantize
from mase_hw.errors import UnsupportedError
from mase_hw.formats.fixed import Fixed
from mase_hw.formats.scaled_integer import ScaledInteger
from mase_hw.graph.nodes import common, metadata
from mase_hw.graph.reference import IntegerReference, spec
from mase_hw.passes.formats.lost_roundings import lost_roundings

# Of the second, multiples are exact, and a third of three is one.
STEP, SHORT_STEP = 0.05, 3 / 64
ROUND = torch.ops.mase.fake_quantize


class Model(nn.Module):
    """A function between a rounding and, mostly, another."""

    def __init__(self, function, last=True):
        super().__init__()
        self.function, self.last, self.step = function, last, STEP if last else SHORT_STEP
        self.norm = nn.LayerNorm(6)

    def forward(self, x):
        y = self.function(ROUND(x, [self.step], [-11], 0, -128, 127), self)
        return ROUND(y, [0.013], [3], 0, -128, 127) if self.last else y


FUNCTIONS = {
    "softmax": lambda x, _: torch.softmax(x, -1),
    "layer_norm": lambda x, m: m.norm(x),
    "gelu": lambda x, _: torch.nn.functional.gelu(x),
    "negated maximum": lambda x, _: -(-x).amax(-1, keepdim=True),
    "square": lambda x, _: x * x,
    "from a constant": lambda x, _: torch.tensor([0.5, 0.25, 1, 2, 3, 4]) - x,
    "times a number": lambda x, _: x * 0.3,
}
MOVES = {
    "nothing": lambda x, _: x,
    "transposed": lambda x, _: x.flip(-1).unsqueeze(1),
    "joined": lambda x, _: torch.cat([x, ROUND(x, [3 * SHORT_STEP], [0], 0, -128, 127)], -1),
}


def codes_and_reals(model):
    torch.manual_seed(0)
    x = torch.randn(40, 6) * 2
    low = lowered(quantize(mase_hw.trace(model.eval(), x)))
    reference = IntegerReference(low)
    (output,) = reference.outputs
    given = spec(reference.inputs[0]).quantized.encode(x)
    found = spec(output).quantized.decode(reference([given])[output.name])
    return found, model.double()(x.double())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_codes_behind_a_function_are_those_of_the_exact_numbers(name):
    found, wanted = codes_and_reals(Model(FUNCTIONS[name]))
    steps = (found.reshape(wanted.shape) - wanted).abs() / 0.013
    assert float(steps.detach().max()) < 1e-3


@pytest.mark.parametrize("name", MOVES)
def test_a_rounded_tensor_that_only_moves_keeps_its_values(name):
    found, wanted = codes_and_reals(Model(MOVES[name], last=False))
    torch.testing.assert_close(found.reshape(wanted.shape), wanted, atol=1e-6, rtol=0)


def refused(graph):
    lost = [*lost_roundings(graph)]
    with pytest.raises(UnsupportedError, match=re.escape(lost[0].rounding.name)):
        lowered(graph)
    return str(lost[0])


def test_another_format_in_its_place_is_refused_by_name():
    graph = quantize(mase_hw.trace(Model(FUNCTIONS["gelu"]).eval(), torch.randn(8, 6)))
    assert not [*lost_roundings(graph)]
    (entry,) = graph.inputs
    known = common(entry)
    results = {"data_out_0": known.results["data_out_0"].with_format(Fixed(8, 4))}
    entry.meta["mase"] = metadata(entry).__class__(
        common=known.__class__(None, {}, results), roundings=metadata(entry).roundings
    )
    assert "rounds to scaled_integer<8> of steps of 0.05 around -11" in refused(graph)


def test_a_rounding_that_a_pass_forgets_is_refused_by_name():
    graph = quantize(mase_hw.trace(Model(FUNCTIONS["gelu"]).eval(), torch.randn(8, 6)))
    (entry,) = graph.inputs
    entry.meta["mase"] = metadata(entry).__class__(common=common(entry))
    assert "no tensor of the graph is that any more" in refused(graph)


def test_scales_without_a_common_step_are_not_joined():
    def function(x, _):
        return torch.cat([x, ROUND(x, [0.0371234], [0], 0, -128, 127)], -1)

    graph = quantize(mase_hw.trace(Model(function, last=False).eval(), torch.randn(8, 6)))
    assert "takes it as" in refused(graph)


def test_the_configuration_may_replace_a_rounding(tmp_path):
    graph = mase_hw.trace(Model(FUNCTIONS["gelu"]).eval(), torch.randn(8, 6))
    for config, kept in (({}, (2, 2)), ({"by": "type", "gelu": {"config": ENTRY}}, (0, 2))):
        project = mase_hw.emit_verilog(quantize(graph, config), output=tmp_path / str(kept[0]))
        assert project.design.roundings == kept
        assert DesignSummary.load(project.folder).roundings == kept


ENTRY = {"name": "fixed", "data_in_width": 6, "data_in_frac_width": 3}


def test_formats_hold_others_exactly():
    assert holds(Fixed(10, 4), Fixed(8, 4))
    assert not holds(Fixed(8, 3), Fixed(8, 4))
    assert holds(ScaledInteger(10, 0.05), ScaledInteger(8, 0.1, 3, symmetric=False))
    assert not holds(ScaledInteger(10, 0.07), ScaledInteger(8, 0.1))
    assert not holds(ScaledInteger(8, 0.05), ScaledInteger(8, 0.1))
