"""What formats that are found keep of a model, and what they take beside uniform ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from mase_hw.errors import ConfigError
from mase_hw.registry import nearest
from tests.bench.base import Benchmark, Row, timed
from tests.bench.fitted import PARTS as DESIGNS
from tests.bench.fitted import neighbours
from tests.bench.fresh import fresh

if TYPE_CHECKING:
    from torch import Tensor

# By name the network and its parallelism.
NETWORKS = {
    **{
        name: (name, 1)
        for name in ("har-cnn1d", "mnist-lenet", "fashion-resnet8", "bert-tiny", "vit-mnist")
    },
    "fashion-resnet8-p4": ("fashion-resnet8", 4),
}
POINTS, SHARE, KEPT_DB = 0.3, 0.75, 40.0
SENTENCE_DB, SENTENCE_SHARE, SENTENCE_SECONDS = 30.0, 0.6, 300
CHOSEN_ON, TOKENS, ROWS, SIZE = 64, 16, 256, 32
SENTENCES, NEIGHBOURS = 500, 0.99
FLOOR = ", rounded down"
# Networks whose time has a bar, in CPU seconds.
SECONDS = {"fashion-resnet8": 60}


class Precision(Benchmark):
    """Formats found by measurement, against uniform ones."""

    name: ClassVar[str] = "precision"
    title: ClassVar[str] = "formats that keep a model"
    default: ClassVar[bool] = False

    def __init__(self, names: Sequence[str] = ()) -> None:
        self.names = names

    def only(self, names: Sequence[str]) -> Precision:
        """Return the benchmark with some figures alone."""
        known = [*PARTS, *NETWORKS]
        for name in names:
            if name not in known:
                raise ConfigError(
                    f"no figure of precision is called {name!r}; {nearest(name, known)}"
                )
        return Precision(names)

    def rows(self, *, quick: bool = False) -> Iterator[Row]:
        """Yield the figures."""
        import torch

        torch.set_num_threads(1)
        for name in self.names or [*PARTS, *list(NETWORKS)[: 1 if quick else None]]:
            yield from PARTS[name](quick) if name in PARTS else _network(name)


def _compositions() -> Mapping[str, tuple[Callable[..., Tensor], tuple[Tensor, ...]]]:
    """Return functions by name, with operands that spread over three decades.

    Those called `FLOOR` have operands that are rounded down, which keeps the sign of what is small.
    """
    import torch
    from torch.nn import functional

    generator = torch.Generator().manual_seed(0)

    def spread(rows: int = 1) -> Tensor:
        sizes = 10 ** (3 * torch.rand(ROWS, rows, generator=generator) - 2)
        return torch.randn(ROWS, SIZE, generator=generator) * sizes

    def positive() -> Tensor:
        return spread().abs() + 1e-3

    def even(scale: float) -> Tensor:
        return scale * torch.randn(ROWS, SIZE, generator=generator)

    def standard(x: Tensor) -> Tensor:
        return (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True)

    def batch(x: Tensor) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        return centred / torch.sqrt(x.var(-1, keepdim=True, unbiased=False) + 1e-5)

    return {
        "F.normalize": (lambda x: functional.normalize(x, dim=-1), (spread(),)),
        "cosine_similarity": (
            lambda x, y: functional.cosine_similarity(x, y, dim=-1),
            (spread(), spread()),
        ),
        "(x - mean) / std": (standard, (spread(),)),
        "(x - mean) / sqrt(var + eps)": (batch, (spread(),)),
        "x / x.norm()": (lambda x: x / x.norm(dim=-1, keepdim=True), (spread(),)),
        "x / x.abs().sum()": (lambda x: x / x.abs().sum(-1, keepdim=True), (spread(),)),
        "x / y": (
            lambda x, y: x / y,
            (even(1), 0.1 * even(1).sign() * spread().abs().amax(1, True)),
        ),
        "atan2, y a hundred times x": (torch.atan2, (even(100), even(1))),
        "atan2, x a hundred times y": (torch.atan2, (even(1), even(100))),
        "atan2, both over three decades": (torch.atan2, (spread(), spread().abs())),
        "atan2, of signed operands": (torch.atan2, (spread(), spread())),
        f"atan2, of signed operands{FLOOR}": (torch.atan2, (spread(), spread())),
        "log(x / y)": (lambda x, y: torch.log(x / y), (positive(), positive())),
        "log(x * x + y * y)": (lambda x, y: torch.log(x * x + y * y), (spread(), spread())),
        "x / sqrt(x * x + y * y + 1e-6)": (
            lambda x, y: x / torch.sqrt(x * x + y * y + 1e-6),
            (spread(), spread()),
        ),
        "x / (hypot(x, y) + 1e-3)": (
            lambda x, y: x / (torch.hypot(x, y) + 1e-3),
            (spread(), spread()),
        ),
        "x * y / (x * x + y * y)": (
            lambda x, y: x * y / (x * x + y * y),
            (spread(), spread()),
        ),
        "softplus(x) / softplus(y)": (
            lambda x, y: functional.softplus(x) / functional.softplus(y),
            (spread(), spread()),
        ),
    }


def intermediates(quick: bool) -> Iterator[Row]:
    """Measure what 16 bits keep of compositions on operands that spread over three decades."""
    import mase_hw
    from mase_hw.emit.preflight import preflight
    from mase_hw.graph.agreement import TENSOR, least, tensor_db
    from mase_hw.ops import Apply
    from mase_hw.passes.formats.expected_agreement import model_agreement

    entry = {"name": "fixed", "data_in_width": 16, "weight_width": 16, "bias_width": 16}
    for name, (function, inputs) in _compositions().items():
        graph = mase_hw.trace(Apply(function), inputs)
        rounding = "floor" if name.endswith(FLOOR) else "nearest_even"
        config = {"default": {"config": {**entry, "data_in_rounding": rounding}}}
        mg = mase_hw.quantize(graph, config)
        found = model_agreement(mg)
        ratio = least(found.outputs.values(), TENSOR) if found is not None else None
        met = ratio is not None and ratio >= KEPT_DB and not preflight(mg)
        rounded = [_rounded(values, rounding) for values in inputs]
        alone = tensor_db(function(*inputs), function(*rounded))
        kept = f"{ratio:.1f} dB; {alone:.1f} dB with operands alone rounded"
        yield Row(f"{name}, 16 bits", kept, f">= {KEPT_DB:.0f} dB", met)


def _rounded(values: Tensor, rounding: str) -> Tensor:
    """Return the values of codes of 16 bits that reach as far; a zero has no sign."""
    from mase_hw.formats import format_class

    low, high = float(values.min()), float(values.max())
    chosen = format_class("fixed").fit(low, high, width=16, rounding=rounding)
    return chosen.decode(chosen.encode(values)).to(values.dtype)


def sentences(quick: bool) -> Iterator[Row]:
    """Find formats for MiniLM, on sentences that are held out."""
    from torch import nn

    import mase_hw
    from mase_hw.data import dataset
    from mase_hw.models.hub import load_pretrained

    class States(nn.Module):
        def __init__(self, model: nn.Module) -> None:
            super().__init__()
            self.model = model

        def forward(self, input_ids: Tensor) -> Tensor:
            states: Tensor = self.model(input_ids=input_ids).last_hidden_state
            return states

    held = 40 if quick else 200
    ids = dataset("snippets").load().train_inputs[:, :TOKENS]
    module = States(load_pretrained("minilm").module).eval()
    graph = mase_hw.trace(module, (ids[:CHOSEN_ON],))
    data, rest = [ids[:CHOSEN_ON]], [ids[CHOSEN_ON : CHOSEN_ON + held]]
    with timed() as spent:
        found = mase_hw.fit_formats(
            graph, data=data, held_out=rest, min_sqnr=SENTENCE_DB, prepare=False
        )
    wide = next(item for item in found.front if item.name == "uniform fixed 16")
    cost = found.result.cost
    share = (cost.lut + cost.memory_bits) / (wide.cost.lut + wide.cost.memory_bits)
    yield Row(
        f"MiniLM, six layers, {held} held-out sentences: agreement; LUT + memory bits / those of "
        "fixed 16",
        f"{found.result.sqnr_db:.1f} dB; {share:.2f} x",
        f">= {SENTENCE_DB:.0f} dB; <= {SENTENCE_SHARE} x",
        found.result.sqnr_db >= SENTENCE_DB and share <= SENTENCE_SHARE,
    )
    seconds = f"{spent.cpu:.0f} CPU s"
    yield Row("the same: time", seconds, "<= 5 CPU minutes", spent.cpu <= SENTENCE_SECONDS)
    count = 100 if quick else SENTENCES
    equal = neighbours(module, found.graph, ids[-count:])
    yield Row(
        f"the same: nearest neighbours among {count} sentences that agree with float",
        f"{100 * equal:.1f} %",
        ">= 99 %",
        equal >= NEIGHBOURS,
    )


def _network(name: str) -> Iterator[Row]:
    """Find formats for a registered network that lose no more than some points of accuracy."""
    import mase_hw
    from mase_hw.models import models

    network, lanes = NETWORKS[name]
    trained = models()[network].load()
    split = trained.split
    graph = mase_hw.trace(trained.module, trained.example_inputs)
    with timed() as spent:
        found = mase_hw.fit_formats(
            graph,
            data=split,
            max_drop=POINTS,
            parallelism=lanes,
        )
    uniform = {item.name: item for item in found.front if item.name.startswith("uniform")}
    widths = ("uniform fixed 8", "uniform fixed 12", "uniform fixed 16")
    beside = next(
        item
        for width in widths
        if (item := uniform.get(width)) and item.drop is not None and item.drop <= POINTS
    )
    share = found.result.cost.weighed / beside.cost.weighed
    drop = found.result.drop or 0.0
    yield Row(
        f"{name}: points lost on validation samples; cost / {beside.name}",
        f"{drop:.2f}; {share:.2f} x; {spent.cpu:.0f} CPU s",
        f"<= {POINTS}; <= {SHARE} x",
        drop <= POINTS and share <= SHARE,
    )

    if name in SECONDS:
        seconds = f"{spent.cpu:.0f} CPU s"
        yield Row(f"{name}: time", seconds, f"<= {SECONDS[name]} s", spent.cpu <= SECONDS[name])


PARTS: Mapping[str, Callable[[bool], Iterator[Row]]] = {
    "intermediates": intermediates,
    "sentences": sentences,
    "fresh": fresh,
    **DESIGNS,
}
