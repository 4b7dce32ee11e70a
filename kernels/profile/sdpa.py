"""Does fusing attention help: the naive formula against torch's fused one, time and memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from mase_hw.errors import ConfigError
from mase_hw.kernels.profile._measure import (
    check_device,
    interleaved,
    operators_run,
    peak_memory_bytes,
)
from mase_hw.kernels.profile._models import Subject, load_subject
from mase_hw.kernels.profile._report import Report, Table, mebibytes, new_figure, setting

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LENGTHS = (64, 128, 256, 512, 1024, 2048)
COLUMNS = (
    "heads",
    "length",
    "naive_ms",
    "naive_spread_ms",
    "fused_ms",
    "fused_spread_ms",
    "speedup",
    "naive_peak_mib",
    "fused_peak_mib",
    "backend",
    "max_difference",
)
# Float32 sums in another order; a wrong result is off by the size of the values, about 1.
TOLERANCE = 1e-3


def profile_sdpa(
    model: str,
    device: str = "cpu",
    lengths: Sequence[int] = LENGTHS,
    heads: Sequence[int] = (),
    rounds: int = 7,
) -> Report:
    """Measure attention of the model's head size over sequence lengths and numbers of heads.

    Args:
        model: see `load_subject`; its configuration must tell heads and width.
        device: `cpu` or `cuda`.
        lengths: sequence lengths.
        heads: numbers of heads; the model's own and a quarter of it when empty.
        rounds: measurements per figure.

    Raises:
        ConfigError: for an unknown device, or a model without attention heads.
        DataError: when the model cannot be loaded.
    """
    target = check_device(device)
    own_heads, head_width = _head_shape(load_subject(model, target))
    counts = tuple(heads) or tuple(sorted({max(1, own_heads // 4), own_heads}))
    rows = [
        _measure(target, count, length, head_width, rounds)
        for count in counts
        for length in lengths
    ]
    title = f"{model}: attention with heads of {head_width}, batch 1, float32, on {device}"
    table = Table("sdpa", title, COLUMNS, rows)
    notes = (
        "naive: softmax(q k^T / sqrt(d)) v, which writes the length x length scores to memory; "
        "fused: torch.nn.functional.scaled_dot_product_attention.",
        f"peak: memory allocated on top of the inputs. The model itself has {own_heads} heads.",
    )
    command = f"mase-hw profile sdpa {model} --device {device}"
    return Report("sdpa", (table,), notes, lambda: _draw(table, model), setting(command, target))


def naive_attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Return `softmax(q k^T / sqrt(d)) v` for `[batch, heads, length, width]` operands."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    return torch.softmax(scores, dim=-1) @ value


def backend_of(names: Sequence[str]) -> str:
    """Return which kernel of `scaled_dot_product_attention` ran, from the operators' names."""
    for name in names:
        stem = name.removeprefix("aten::_scaled_dot_product_")
        if stem != name:
            return stem.replace("_attention", "")
    return "unknown"


def _head_shape(subject: Subject) -> tuple[int, int]:
    # The configuration may be that of a module inside, such as an encoder under a classifier.
    for module in subject.module.modules():
        config: Any = getattr(module, "config", None)
        heads = getattr(config, "num_attention_heads", None)
        width = getattr(config, "hidden_size", None)
        if heads and width:
            return heads, getattr(config, "head_dim", None) or width // heads
    raise ConfigError(
        f"model {subject.name!r} has no config.num_attention_heads and config.hidden_size"
    )


def _measure(
    device: torch.device, heads: int, length: int, width: int, rounds: int
) -> tuple[float | str, ...]:
    generator = torch.Generator(device).manual_seed(0)
    shape = (1, heads, length, width)
    query, key, value = (torch.randn(shape, generator=generator, device=device) for _ in range(3))
    calls = {
        "naive": lambda: naive_attention(query, key, value),
        "fused": lambda: torch.nn.functional.scaled_dot_product_attention(query, key, value),
    }
    difference = float((calls["naive"]() - calls["fused"]()).abs().max())
    if not difference < TOLERANCE:
        raise ArithmeticError(f"naive and fused attention differ by {difference}")
    times = interleaved(calls, rounds)
    peaks = {name: mebibytes(peak_memory_bytes(call, device)) for name, call in calls.items()}
    return (
        heads,
        length,
        times["naive"].median_s * 1e3,
        times["naive"].spread_s * 1e3,
        times["fused"].median_s * 1e3,
        times["fused"].spread_s * 1e3,
        times["naive"].median_s / times["fused"].median_s,
        peaks["naive"],
        peaks["fused"],
        backend_of(list(operators_run(calls["fused"], device))),
        difference,
    )


def _draw(table: Table, model: str) -> Figure:
    figure, axes = new_figure(2)
    for axis, quantity, label in zip(
        axes,
        ("ms", "peak_mib"),
        ("median of a call, ms", "peak memory above inputs, MiB"),
        strict=True,
    ):
        for heads, style in zip(sorted(set(table.column("heads"))), ("--", "-", ":"), strict=False):
            for kind, color in (("naive", "tab:gray"), ("fused", "tab:blue")):
                rows = [
                    (row[1], row[table.columns.index(f"{kind}_{quantity}")])
                    for row in table.rows
                    if row[0] == heads
                ]
                x, y = zip(*rows, strict=True)
                axis.plot(x, y, style, marker="o", color=color, label=f"{kind}, {heads} heads")
        axis.set(xscale="log", yscale="log", xlabel="sequence length", ylabel=label)
        lengths = sorted(set(table.column("length")))
        axis.set_xticks(lengths, [str(length) for length in lengths])
        axis.minorticks_off()
    axes[0].set_title(f"attention of {model}")
    axes[0].legend(frameon=False)
    return figure
