"""Rounding the weights of a language model: methods against rounding to nearest, from 8 to 3 bits.

Weights of the layers inside the decoder are rounded, activations are not, and the table of words,
which is the last layer, too, stays as it is. What the weights are to begin with is what the
packaged file decodes to: it holds 4-bit numbers (Q4_1) already.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from mase_hw._kinds import Table
from mase_hw._results import result_file
from mase_hw.errors import ConfigError
from mase_hw.experiments._base import Experiment, Outcome, Progress
from mase_hw.experiments._figures import MARKERS, label, logarithmic, new_figure
from mase_hw.experiments._subject import mean_and_error

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import Tensor

    from mase_hw.graph import MaseGraph

MODEL = "smollm2-135m"
BLOCK = 32
NEAREST, FLOAT = "nearest", "float"
PANEL_INCHES = 3.0
FORMATS: Mapping[str, Mapping[str, object]] = {
    "mxint 3": {"name": "mxint", "width": 3, "block_size": BLOCK},
    "mxint 4": {"name": "mxint", "width": 4, "block_size": BLOCK},
    "mxint 4, blocks of 16": {"name": "mxint", "width": 4, "block_size": 16},
    "int 4, groups of 32": {"name": "scaled_integer", "width": 4, "group_size": 32},
    "int 4, groups of 128": {"name": "scaled_integer", "width": 4, "group_size": 128},
    "mxfp 4": {"name": "mxfp4", "block_size": BLOCK},
    "fixed 4": {"name": "fixed", "width": 4},
    "fixed 6": {"name": "fixed", "width": 6},
    "mxint 6": {"name": "mxint", "width": 6, "block_size": BLOCK},
    "mxfp 6": {"name": "mxfp6", "block_size": BLOCK},
    "fixed 3": {"name": "fixed", "width": 3},
    "mxint 8": {"name": "mxint", "width": 8, "block_size": BLOCK},
    "mxfp 8": {"name": "mxfp8", "block_size": BLOCK},
    "fixed 8": {"name": "fixed", "width": 8},
}
# Steps of a method, in order; rounding to nearest is what is left without them.
METHODS: Mapping[str, tuple[str, ...]] = {
    NEAREST: (),
    "gptq": ("gptq",),
    "gptq, corrected": ("gptq", "correct"),
    "scaling": ("scale",),
    "rotation": ("rotate",),
    "scaling + gptq": ("scale", "gptq"),
    "rotation + gptq": ("rotate", "gptq"),
    # Integers in groups as torchao rounds them.
    "torchao": ("torchao",),
}


@dataclass(frozen=True)
class Scope:
    """How much is measured.

    Attributes:
        runs: (format, method), in order.
        sequences: number that perplexity is measured on.
        length: tokens of a sequence.
        seen: number of sequences that methods look at.
    """

    runs: Sequence[tuple[str, str]]
    sequences: int
    length: int
    seen: int


# Of few tokens GPTQ learns too much with less.
DAMPING = 0.1
# What layers before lost is known from few tokens, too: half of it is made up for.
CORRECTION = 0.5


class Perplexity(Experiment):
    """Perplexity on packaged reviews, by format, bits and method."""

    name = "perplexity"
    title = "perplexity of a language model whose weights are rounded, by method"
    settings: ClassVar[Table] = {
        "weights": list(FORMATS),
        "methods": [name for name in METHODS if name != "torchao"],
        "sequences": 16,
        "length": 256,
        "seen": 32,
    }
    quick: ClassVar[Table] = {
        "weights": ["int 4, groups of 32"],
        "methods": [NEAREST, "gptq"],
        "sequences": 2,
        "length": 48,
        "seen": 4,
    }

    def run(self, folder: Path, size: Table, progress: Progress) -> Outcome:
        """Run it; what the folder holds already is not measured again."""
        runs = [(name, method) for method in size["methods"] for name in size["weights"]]
        counts = {key: size[key] for key in ("sequences", "length", "seen")}
        return measure(folder, Scope(runs, **counts), progress)


def measure(folder: Path, scope: Scope, progress: Progress) -> Outcome:
    """Return the table of a scope; every figure is kept in the folder as soon as it is known."""
    subject = _Subject(scope)
    known = folder / f"perplexity-{scope.sequences}x{scope.length}.json"
    losses: dict[str, list[float]] = json.loads(known.read_text()) if known.exists() else {}
    runs = [(FLOAT, NEAREST), *scope.runs]
    for done, (name, method) in enumerate(runs):
        key = f"{name}, {method}"
        if key not in losses:
            losses[key] = subject.losses(name, method)
            with result_file(known) as made:
                made.write_text(json.dumps(losses, indent=1))
        progress(done + 1, len(runs))
    rows = list(_rows(runs, losses))
    figure = _draw(rows)
    note = (
        f"{MODEL}, weights as its file decodes to (Q4_1); weights of the layers inside the "
        "decoder rounded, activations, embedding and last layer in float32; "
        "errors are standard errors over reviews, of a difference to nearest those of the pairs"
    )
    return Outcome(
        ("weights", "method", "bits", "perplexity", "±", "gap closed, %"), rows, figure, note
    )


class _Subject:
    """The captured model and its text, loaded when a figure is measured."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._loaded: tuple[MaseGraph, list[Tensor], Tensor] | None = None

    def losses(self, name: str, method: str) -> list[float]:
        """Return the mean loss of a token for every sequence."""
        from mase_hw.emit.flow import quantize
        from mase_hw.passes.compression.gptq import gptq_transform_pass
        from mase_hw.passes.compression.rotate import rotate_transform_pass
        from mase_hw.passes.compression.scale_channels import scale_channels_transform_pass

        mg, seen, tested = self._load()
        if name == FLOAT:
            return _losses(mg, tested)
        weight, steps = FORMATS[name], METHODS[method]
        names = self._names(mg)
        if "torchao" in steps:
            return _losses(_rounded_by_torchao(mg, weight), tested)
        if "scale" in steps:
            chosen = {"data": seen, "weight": weight, "nodes": names}
            mg, _ = scale_channels_transform_pass(mg, chosen)
        if "rotate" in steps:
            mg, _ = rotate_transform_pass(mg, {"block": BLOCK, "nodes": names})
        entry = {"name": "none", **{f"weight_{key}": value for key, value in weight.items()}}
        config: dict[str, object] = {"by": "name", **{item: {"config": entry} for item in names}}
        mg = quantize(mg, config)
        if "gptq" in steps:
            given = {"data": seen, "nodes": names, "damping": DAMPING}
            share = CORRECTION if "correct" in steps else 0.0
            mg, _ = gptq_transform_pass(mg, {**given, "correction": share})
        return _losses(mg, tested)

    @staticmethod
    def _names(mg: MaseGraph) -> list[str]:
        from mase_hw.passes.compression.walk import layers

        return [node.name for node in layers(mg)]

    def _load(self) -> tuple[MaseGraph, list[Tensor], Tensor]:
        if self._loaded is None:
            from mase_hw.emit.flow import canonicalize
            from mase_hw.graph import trace
            from mase_hw.models.hub import load_pretrained

            model = load_pretrained(MODEL)
            count = self._scope.sequences
            ids = _sequences(model.tokenizer, count + self._scope.seen, self._scope.length)
            module: Any = model.module
            module.config.use_cache = False
            mg = trace(module, {"input_ids": ids[:1]}, name="decoder")
            seen = [ids[place : place + 4] for place in range(count, len(ids), 4)]
            self._loaded = canonicalize(mg), seen, ids[:count]
        return self._loaded


def _rounded_by_torchao(mg: MaseGraph, weight: Mapping[str, object]) -> MaseGraph:
    """Return a graph whose weights are those of torchao's `IntxWeightOnlyConfig` in groups."""
    import torch
    from torchao.quantization import IntxUnpackedToInt8Tensor

    from mase_hw.passes.compression.walk import layers

    if "group_size" not in weight:
        raise ConfigError("torchao: weights are integers in groups; take `int 4, groups of 32`")
    mg = mg.copy()
    for layer in layers(mg).values():
        parameter = mg.constant(layer.parameter)
        values = parameter.detach()
        group = 1, int(str(weight["group_size"]))
        rounded = IntxUnpackedToInt8Tensor.from_hp(values, group, torch.int4)  # type: ignore[attr-defined]
        with torch.no_grad():
            parameter.copy_(rounded.dequantize())
    return mg


def _sequences(tokenizer: Any, count: int, length: int) -> Tensor:
    """Return the first tokens of reviews that have as many, `[count, length]`."""
    import torch

    from mase_hw.data.reviews import reviews

    found = []
    for text, _ in reviews():
        ids = tokenizer(text)["input_ids"][:length]
        if len(ids) == length:
            found.append(ids)
        if len(found) == count:
            break
    return torch.tensor(found)


def _losses(mg: MaseGraph, ids: Tensor) -> list[float]:
    """Return the mean loss of every sequence's tokens behind the first."""
    import torch
    import torch.nn.functional as F

    found = []
    with torch.no_grad():
        for start in range(0, len(ids), 4):
            part = ids[start : start + 4]
            (logits,) = [item for item in _tensors(mg(part)) if item.dim() == 3]
            flat = logits[:, :-1].flatten(0, 1)
            losses = F.cross_entropy(flat, part[:, 1:].flatten(), reduction="none")
            found += losses.reshape(len(part), -1).mean(1).tolist()
    return found


def _tensors(outputs: object) -> list[Tensor]:
    from torch import Tensor
    from torch.utils._pytree import tree_leaves

    return [item for item in tree_leaves(outputs) if isinstance(item, Tensor)]


Row = tuple[str, str, float, float, float, str]


def _rows(runs: Sequence[tuple[str, str]], losses: Mapping[str, Sequence[float]]) -> Iterator[Row]:
    exact = losses[f"{FLOAT}, {NEAREST}"]
    for name, method in runs:
        found = losses[f"{name}, {method}"]
        mean, error = mean_and_error(found)
        closed = ""
        if method != NEAREST and f"{name}, {NEAREST}" in losses:
            nearest = losses[f"{name}, {NEAREST}"]
            gap = sum(nearest) - sum(exact)
            gains = [old - new for old, new in zip(nearest, found, strict=True)]
            gain, spread = mean_and_error(gains)
            share = len(exact) / gap if gap else 0.0
            closed = f"{100 * gain * share:.0f} ± {100 * spread * share:.0f}"
        perplexity = math.exp(mean)
        yield name, method, _bits(name), perplexity, perplexity * error, closed


def _bits(name: str) -> float:
    from mase_hw.formats import make_format

    return 32.0 if name == FLOAT else make_format(FORMATS[name]).bits_per_element


def _draw(rows: Sequence[Row]) -> Figure:
    """Draw perplexity against bits, one line a method, one panel a family."""
    families = list(dict.fromkeys(row[0].split()[0] for row in rows if row[0] != FLOAT))
    figure, panels = new_figure(len(families))
    figure.set_figheight(PANEL_INCHES * len(families))
    (exact,) = (row[3] for row in rows if row[0] == FLOAT)
    widths = [row[2] for row in rows if row[0] != FLOAT]
    highest = max(row[3] + row[4] for row in rows)
    for axes, family in zip(panels, families, strict=True):
        for marker, method in zip(MARKERS, METHODS, strict=False):
            points = sorted(
                (bits, perplexity, error)
                for name, how, bits, perplexity, error, _ in rows
                if name.split()[0] == family and how == method
            )
            if points:
                across, up, errors = zip(*points, strict=True)
                axes.errorbar(across, up, yerr=errors, marker=marker, capsize=3, label=method)
        axes.axhline(exact, color="gray", linestyle=":", label=FLOAT)
        logarithmic(axes.yaxis)
        # One scale for all, so that panels can be compared.
        axes.set_ylim(exact / 1.5, highest * 1.5)
        axes.set_xlim(min(widths) - 0.5, max(widths) + 0.5)
        axes.legend(fontsize="small", ncols=2)
        label(axes, family, "bits per weight", "perplexity")
    return figure
