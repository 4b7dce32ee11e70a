"""What each number format costs and loses on a model's own weights."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from mase_hw.errors import FormatError
from mase_hw.formats import Format, formats
from mase_hw.kernels.profile._measure import Timing, check_device, interleaved
from mase_hw.kernels.profile._models import Subject, load_subject
from mase_hw.kernels.profile._report import Report, Table, new_figure, setting

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTHS_BITS = (4, 6, 8)
COLUMNS = (
    "format",
    "bits_per_element",
    "weight_snr_db",
    "worst_layer_snr_db",
    "output_relative_error",
    "quantize_ns",
    "quantize_spread_ns",
)


def profile_formats(
    model: str, device: str = "cpu", batch: int = 4, length: int = 64, rounds: int = 5
) -> Report:
    """Round the weights of the linear layers of `model` to every format, one after another.

    Every registered format is fitted to the range of each weight. Formats with a `width` are
    tried at 4, 6 and 8 bits. Activations stay in float.

    Args:
        model: see `load_subject`.
        device: `cpu` or `cuda`.
        batch: batch of the output error.
        length: tokens per sequence for language models.
        rounds: measurements per figure.

    Raises:
        ConfigError: for an unknown device.
        DataError: when the model cannot be loaded.
        FormatError: when the model has no linear layer.
    """
    target = check_device(device)
    subject = load_subject(model, target, length)
    expected = subject.call(batch)()
    weights = {
        name: module.weight.detach()
        for name, module in subject.module.named_modules()
        if type(module) is nn.Linear
    }
    if not weights:
        raise FormatError(f"model {model!r} has no nn.Linear whose weights could be rounded")
    rows = [
        _measure(subject, weights, expected, cls, fields, batch, rounds)
        for cls in formats().values()
        for fields in _variants(cls)
    ]
    rows.sort(key=lambda row: row[1])
    title = f"{model}: weights of {len(weights)} linear layers rounded to each format"
    table = Table("formats", title, COLUMNS, rows)
    notes = (
        "quantize_ns: nanoseconds per element to round the largest weight",
        "signal-to-noise ratio: 10 log10(sum w^2 / sum (w - rounded w)^2) over all weights",
        "output error: norm of the difference over norm of the float output",
    )
    command = f"mase-hw profile formats {model} --device {device}"
    return Report("formats", (table,), notes, lambda: _draw(table, model), setting(command, target))


def _variants(cls: type[Format]) -> Sequence[dict[str, int]]:
    if "width" not in cls.field_names():
        return ({},)
    return tuple({"width": width} for width in WIDTHS_BITS if _legal(cls, width)) or ({},)


def _legal(cls: type[Format], width: int) -> bool:
    """Return true when the format's other fields have defaults that suit `width`."""
    try:
        cls(**{"width": width})
    except FormatError:
        return False
    return True


def _measure(
    subject: Subject,
    weights: dict[str, Tensor],
    expected: Tensor,
    cls: type[Format],
    fields: dict[str, int],
    batch: int,
    rounds: int,
) -> tuple[str, float, float, float, float, float, float]:
    fitted = {name: _fit(cls, weight, fields) for name, weight in weights.items()}
    rounded = {name: fitted[name].round_values(weight) for name, weight in weights.items()}
    signal = {name: _energy(weight) for name, weight in weights.items()}
    noise = {name: _energy(weight - rounded[name]) for name, weight in weights.items()}
    module = copy.deepcopy(subject.module)
    with torch.no_grad():
        for name, values in rounded.items():
            module.get_parameter(f"{name}.weight").copy_(values)
    difference = (subject.call(batch, module)() - expected).double()
    largest = max(weights, key=lambda name: weights[name].numel())
    time = _time(fitted[largest], weights[largest], rounds)
    elements = weights[largest].numel()
    label = " ".join([cls.name, *(f"{key}={value}" for key, value in fields.items())])
    return (
        label,
        fitted[largest].bits_per_element,
        _decibels(sum(signal.values()), sum(noise.values())),
        min(_decibels(signal[name], noise[name]) for name in weights),
        float(difference.norm() / expected.double().norm()),
        time.median_s / elements * 1e9,
        time.spread_s / elements * 1e9,
    )


def _fit(cls: type[Format], weight: Tensor, fields: dict[str, int]) -> Format:
    return cls.fit(float(weight.min()), float(weight.max()), **fields)


def _time(number_format: Format, weight: Tensor, rounds: int) -> Timing:
    return interleaved({"round": lambda: number_format.round_values(weight)}, rounds)["round"]


def _energy(values: Tensor) -> float:
    return float(values.double().square().sum())


def _decibels(signal: float, noise: float) -> float:
    return 10 * math.log10(signal / noise) if noise else math.inf


def _draw(table: Table, model: str) -> Figure:
    figure, (left, right) = new_figure(2)
    bits = table.column("bits_per_element")
    names = table.column("format")
    for axis, column, label in (
        (left, "weight_snr_db", "signal-to-noise ratio of the weights, dB"),
        (right, "output_relative_error", "relative error of the output"),
    ):
        values = table.column(column)
        axis.scatter(bits, values, color="tab:blue")
        for name, x, y in zip(names, bits, values, strict=True):
            axis.annotate(
                name, (x, y), textcoords="offset points", xytext=(5, 4), ha="left", fontsize=8
            )
        axis.set(xlabel="bits per element", ylabel=label)
        axis.margins(x=0.3)
    right.set_yscale("log")
    left.set_title(f"weights of {model}")
    return figure
