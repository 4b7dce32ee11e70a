"""Small designs whose cells are counted for estimates: layers and functions by themselves.

Their sizes and widths differ from those of the operators' examples and of the registered networks,
which an estimate is compared with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import nn

if TYPE_CHECKING:
    from mase_hw.cells import Cell

SEED, EXAMPLES = 3, 16


@dataclass(frozen=True)
class FitDesign:
    """A module in a format.

    Attributes:
        build: returns the module; called with a fixed seed.
        shapes: of the inputs, without the batch.
        entry: number format of everything.
        parallelism: of every stream.
        numbers: rows of a table whose numbers the inputs are; 0 for inputs that are no numbers.
    """

    build: Callable[[], nn.Module]
    shapes: Sequence[tuple[int, ...]]
    entry: Mapping[str, object] = field(default_factory=dict)
    parallelism: int | Mapping[str, object] = 2
    numbers: int = 0

    def cells(self) -> Iterator[Cell]:
        """Yield the cells of the design."""
        from mase_hw.emit.flow import quantize, to_hardware
        from mase_hw.graph import trace
        from tests.bench.clock_units import fixed

        with torch.random.fork_rng():
            torch.manual_seed(SEED)
            module = self.build().eval()
            inputs = tuple(self._input(shape) for shape in self.shapes)
        entry = dict(self.entry) or fixed(8)
        graph = quantize(trace(module, inputs, name="fit"), {"default": {"config": entry}})
        graph = to_hardware(graph, parallelism=self.parallelism)
        for node in graph.nodes:
            if node.op == "call_function":
                yield from graph.netlist(node).cells.values()

    def _input(self, shape: tuple[int, ...]) -> torch.Tensor:
        if self.numbers:
            return torch.randint(0, self.numbers, (EXAMPLES, *shape))
        return torch.randn(EXAMPLES, *shape)


def _fixed(data: int, weight: int, fraction: int, out: int) -> dict[str, object]:
    """Return a fixed-point format of these widths."""
    return {
        "name": "fixed",
        "data_in_width": data,
        "data_in_frac_width": fraction,
        "weight_width": weight,
        "bias_width": weight + 3,
        "data_out_width": out,
        "data_out_frac_width": out // 2,
    }


def _linear() -> nn.Module:
    return nn.Linear(24, 10)


def _unbiased() -> nn.Module:
    layer = nn.Linear(24, 10, bias=False)
    nn.init.uniform_(layer.weight, -2, 2)
    return layer


def _convolution() -> nn.Module:
    return nn.Conv2d(3, 6, 3, padding=1)


def _normalization() -> nn.Module:
    from tests.bench.clock_units import normalization

    return normalization()


def _function(function: Callable[..., torch.Tensor]) -> Callable[[], nn.Module]:
    from tests.bench.clock_units import Function

    return lambda: Function(function)


ROW, PAIR, IMAGE = ((24,),), ((20,), (20,)), ((3, 7, 7),)
BLOCKS = {"data_in_block_size": 4, "weight_block_size": 4}


def fit_designs() -> Iterator[FitDesign]:
    """Yield the designs."""
    for entry, lanes in (
        (_fixed(8, 8, 4, 8), 1), (_fixed(8, 8, 5, 8), 3), (_fixed(6, 5, 3, 7), 2),
        (_fixed(4, 4, 2, 4), 2), (_fixed(4, 3, 2, 5), 4), (_fixed(12, 10, 6, 12), 2),
        (_fixed(16, 12, 9, 10), 1), (_fixed(8, 8, 4, 8), 6),
    ):  # fmt: skip
        yield FitDesign(_linear, ROW, entry, lanes)
    for entry, lanes in ((_fixed(8, 8, 4, 8), 1), (_fixed(7, 6, 3, 8), 3)):
        yield FitDesign(_convolution, IMAGE, entry, lanes)
    yield FitDesign(lambda: nn.Conv1d(4, 6, 5, stride=2), ((4, 21),), parallelism=2)
    yield FitDesign(lambda: nn.MaxPool2d(3, 2), ((4, 9, 9),))
    yield FitDesign(lambda: nn.AvgPool2d(3), ((4, 9, 9),))
    layers: tuple[Callable[[], nn.Module], ...] = (
        nn.ReLU, nn.SiLU, lambda: nn.Hardtanh(-1.5, 0.75), nn.PReLU,
    )  # fmt: skip
    for layer in layers:
        yield FitDesign(layer, ROW, _fixed(7, 7, 4, 6), 3)
    yield FitDesign(nn.Sigmoid, ROW, _fixed(11, 11, 7, 9))
    yield FitDesign(nn.Softplus, ROW, _fixed(15, 15, 9, 13))
    yield FitDesign(nn.GELU, ROW, _fixed(14, 14, 10, 14), 1)
    for function in (torch.add, torch.sub, torch.mul):
        yield FitDesign(_function(function), PAIR, _fixed(9, 9, 5, 7), 4)
        yield FitDesign(_function(function), PAIR, _fixed(5, 5, 2, 8), 5)
    yield FitDesign(_normalization, ((4, 5, 5),), parallelism=2)
    yield FitDesign(_function(lambda a, b: torch.cat((a, b), 1)), PAIR, _fixed(6, 6, 3, 6), 3)
    yield FitDesign(_function(lambda x: x.argmax(1)), ROW, parallelism=3)
    yield FitDesign(_function(lambda x: x.mean(1)), ((10, 12),), parallelism=3)
    yield FitDesign(_function(lambda x: x.sum(2)), ((6, 20),), parallelism=4)
    yield FitDesign(_function(lambda x: x.amax(2)), ((6, 20),), parallelism=4)
    yield FitDesign(_function(lambda x: x.transpose(1, 2).neg()), ((6, 10),), parallelism=2)
    yield from _of_transformers()
    for name, options in (
        ("mxint", {"data_in_width": 8, "weight_width": 8, **BLOCKS}),
        ("mxint", {"data_in_width": 5, "weight_width": 4, **BLOCKS}),
        ("mxfp8", BLOCKS), ("mxfp6", BLOCKS), ("mxfp4", BLOCKS),
        ("fp8_e4m3", {}), ("fp8_e5m2", {}), ("log", {"data_in_width": 5, "weight_width": 5}),
        ("scaled_integer", {"data_in_width": 8, "weight_width": 8}),
        ("scaled_integer", {"data_in_width": 5, "weight_width": 6}),
        ("ternary", {"data_in_scale": 0.5, "weight_scale": 0.5}), ("binary", {}),
    ):  # fmt: skip
        entry = {"name": name, **options}
        yield FitDesign(_unbiased, ROW, entry, 2)
        if name in ("mxint", "fp8_e4m3", "fp8_e5m2", "log"):
            yield FitDesign(_function(torch.add), PAIR, entry, 2)
            yield FitDesign(_function(torch.mul), PAIR, entry, 2)
            yield FitDesign(nn.SiLU, ROW, entry, 2)


def _of_transformers() -> Iterator[FitDesign]:
    """Yield rows, tables and products of streams."""
    rows = ((6, 24),)
    for entry, lanes in (
        (_fixed(8, 8, 4, 8), 2), (_fixed(8, 8, 5, 8), 4), (_fixed(10, 8, 6, 9), 1),
        (_fixed(6, 6, 3, 6), 3),
    ):  # fmt: skip
        yield FitDesign(lambda: nn.Softmax(-1), rows, entry, lanes)
        yield FitDesign(lambda: _affine(nn.LayerNorm(24)), rows, entry, lanes)
    yield FitDesign(lambda: _affine(nn.RMSNorm(20)), ((6, 20),), _fixed(8, 8, 4, 8), 2)
    yield FitDesign(lambda: nn.RMSNorm(20, elementwise_affine=False), ((6, 20),), parallelism=4)
    yield FitDesign(lambda: nn.LayerNorm(32, elementwise_affine=False), ((4, 32),), parallelism=4)
    for size, width, lanes in ((24, 13, 2), (80, 8, 1), (20, 36, 3)):
        layer = partial(nn.Embedding, width, size)
        yield FitDesign(layer, ((6,),), parallelism=lanes, numbers=width)
    attention = nn.functional.scaled_dot_product_attention
    heads = ((2, 5, 8),) * 3
    for causal, lanes in ((False, 1), (True, 2)):
        function = _function(partial(attention, is_causal=causal))
        yield FitDesign(function, heads, _fixed(8, 8, 4, 8), lanes)
    matrices = ((6, 12), (12, 10))
    for entry, lanes in ((_fixed(8, 8, 4, 8), 2), (_fixed(7, 6, 3, 9), 3)):
        yield FitDesign(_function(torch.matmul), matrices, entry, lanes)


def _affine(norm: nn.Module) -> nn.Module:
    """Return a normalisation with weights and biases that are no ones and zeros."""
    for part in norm.parameters():
        nn.init.uniform_(part, -1.5, 1.5)
    return norm
