"""Every operator of the registry, through capture, quantisation, emission and simulation.

Nobody edits this file to add an operator: it runs `Operator.examples`, all side by side in one
design, each example with ports of its own.
"""

from functools import cache

import pytest
import torch
from torch import Tensor, nn

import mase_hw
from mase_hw.emit.flow import quantize
from mase_hw.graph import common, trace
from mase_hw.graph.reference import IntegerReference, output_nodes, spec
from mase_hw.ops import operator_for, operators
from mase_hw.ops._unary import Unary

INFERENCES = 24
SLOW = pytest.mark.slow


class SideBySide(nn.Module):
    """Runs each module on its own inputs."""

    def __init__(self, modules: list[nn.Module], counts: list[int]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(modules)
        self.counts = counts

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        results, position = [], 0
        for part, count in zip(self.parts, self.counts, strict=True):
            results.append(part(*inputs[position : position + count]))
            position += count
        return tuple(results)


def config(number_format: dict[str, object]) -> dict[str, object]:
    return {"by": "type", "default": {"config": {"name": "fixed", **number_format}}}


CONFIGS = {
    "8 bits": config({"data_in_width": 8, "weight_width": 8, "bias_width": 8}),
    "narrow and unsigned": config(
        {
            "data_in_width": 5,
            "data_in_frac_width": 2,
            "weight_width": 4,
            "bias_width": 7,
            "data_out_width": 6,
            "data_out_frac_width": 3,
            "data_out_signed": False,
            "data_out_rounding": "nearest_up",
        }
    ),
    "wide and wrapping": config(
        {
            "data_in_width": 14,
            "data_in_frac_width": 9,
            "weight_width": 11,
            "bias_width": 16,
            "data_out_width": 9,
            "data_out_frac_width": 5,
            "data_out_rounding": "floor",
            "data_out_overflow": "wrap",
        }
    ),
}


@cache
def side_by_side() -> mase_hw.MaseGraph:
    """Return one graph of all examples of operators that users call."""
    examples = [
        example
        for operator in operators().values()
        if operator.role is None
        for example in operator.examples()
    ]
    modules = [module for module, _ in examples]
    batch = min(len(inputs[0]) for _, inputs in examples)
    inputs = tuple(value[:batch] for _, values in examples for value in values)
    model = SideBySide(modules, [len(values) for _, values in examples])
    return trace(model.eval(), inputs, name="operators")


def test_every_operator_has_an_example():
    used = {operator_for(node.target) for node in side_by_side().nodes}
    for operator in operators().values():
        composed = isinstance(operator, Unary) and operator.targets[0].startswith("mase.")
        if operator.role is None and not composed:
            assert operator in used, f"no example of {operator.name} uses it"


@pytest.fixture(scope="module", params=["8 bits", "narrow and unsigned", "wide and wrapping"])
def quantized(request):
    return quantize(side_by_side(), CONFIGS[request.param])


def test_reference_is_the_fake_quantized_model(quantized):
    """In float64 the decoded codes are the quantised model's values, exactly."""
    generator = torch.Generator().manual_seed(1)
    codes = [
        spec(node).quantized.random_codes((INFERENCES, *spec(node).shape), generator)
        for node in quantized.inputs
    ]
    expected = IntegerReference(quantized)(codes)
    values = [
        spec(node).quantized.decode(item).reshape(INFERENCES, *spec(node).shape[1:])
        for node, item in zip(quantized.inputs, codes, strict=True)
    ]
    with torch.no_grad():
        outputs = quantized.copy().double()(*values)
    for node, output in zip(output_nodes(quantized), outputs, strict=True):
        decoded = spec(node).quantized.decode(expected[node.name])
        wrong = (decoded.reshape(output.shape) != output).nonzero()
        if len(wrong):
            missed = _difference(node, decoded.reshape(output.shape), output, wrong)
            assert isinstance(operators()[common(node).operator], Unary), missed
            step = 2.0 ** -spec(node).quantized.frac_width
            distance = (decoded.reshape(output.shape) - output).abs().max()
            assert distance <= _slack(node, step), missed
            assert len(wrong) <= output.numel() * _misses(node), missed


def _difference(node, decoded, output, wrong):
    place = tuple(wrong[0].tolist())
    return f"{common(node).operator} {node.name}{place}: {decoded[place]} is not {output[place]}"


def _operands(node):
    return [item for item in common(node).operands.values() if item.format is not None]


def _misses(node):
    """A table is right where float64 rounds a product to a tie, which is rare; wide inputs miss
    often where a small negative value is rounded down.
    """
    return 1.0 if any(item.quantized.bits_per_element > 12 for item in _operands(node)) else 0.03


def _slack(node, step):
    """A nonlinear function may miss by a step, and wrap where that crosses the range's end."""
    number_format = spec(node).quantized
    whole = 2.0**number_format.width * step
    return whole if number_format.overflow == "wrap" else step


HARDWARE = [
    pytest.param(name, parallelism, marks=[] if (name, parallelism) == ("8 bits", 1) else SLOW)
    for name in CONFIGS
    for parallelism in (1, 3)
]


@pytest.mark.parametrize(("name", "parallelism"), HARDWARE)
def test_hardware_equals_the_reference(name, parallelism, tmp_path):
    quantized = quantize(side_by_side(), CONFIGS[name])
    project = mase_hw.emit_verilog(quantized, output=tmp_path / "all", parallelism=parallelism)
    for stall in (0.0, 0.4):
        report = mase_hw.simulate(project, samples=INFERENCES, stall=stall, seed=7)
        assert report.bit_exact, report.first_mismatch or report.violations
        assert report.elements > 0
