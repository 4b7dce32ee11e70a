"""Random designs with forks and joins of every kind: exact under pauses, in the predicted cycles.

`python -m tests.bench survey` counts what becomes of many. A graph is drawn from the steps of
`test_random_graphs` and more; what a format has no hardware for is fixed point. Every fourth seed
has external weights, another fourth equal layers on the hardware of one.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

import mase_hw
from mase_hw.emit.flow import canonicalize, quantize
from mase_hw.emit.preflight import preflight
from mase_hw.errors import MaseError, UnitError
from mase_hw.graph import MaseGraph, trace
from tests.test_random_graphs import STEPS, Call, constant, layer

SHAPES = ((2, 5), (2, 3, 6), (2, 4, 4), (2, 5, 3), (2, 2, 4, 5), (2, 4, 3, 3), (2, 3, 6, 6))
MOST_ELEMENTS, TRIES, SAMPLES = 500, 60, 24
# What a seed's rest by four says of a design.
EXTERNAL, REUSE = 2, 3
PARALLELISMS = (1, 2, 3, "auto", 4, 5)
MULTIPLIERS = (4, 16, 64, 256)
FIXED = {"name": "fixed", "data_in_width": 8, "weight_width": 8, "bias_width": 8}
NARROW = {"name": "fixed", "data_in_width": 6, "weight_width": 5, "bias_width": 7}
# What merges inferences, or has no hardware by itself.
LEFT_OUT = {"merge", "squeeze", "empty", "int", "half", "expand", "unsqueeze"}


class Attention(nn.Module):
    """Rows of one stream attend to those of another."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(width, 1 if width % 2 else 2, batch_first=True)

    def forward(self, x: Tensor, other: Tensor) -> Tensor:
        result: Tensor = self.attention(x, other, other, need_weights=False)[0]
        return result


def recurrent(module: nn.Module) -> nn.Module:
    call = Call(lambda x, other: call.module(x)[0])
    call.module = module
    return call


def image(shape: Sequence[int], two: type[nn.Module], one: type[nn.Module]) -> type[nn.Module]:
    return two if len(shape) == 4 else one


# As in `test_random_graphs`; most of them take two results.
MORE: dict[str, Callable[[Sequence[int], int], nn.Module]] = {
    "join": lambda s, n: Call(lambda x, y: torch.cat([x, y], n % x.dim() or -1)),
    "join behind": lambda s, n: Call(lambda x, y: torch.cat([y, x], -1)),
    "flip": lambda s, n: Call(lambda x, y: x.flip(-1 - n % (x.dim() - 1))),
    "roll": lambda s, n: Call(lambda x, y: x.roll(n, -1 - n % (x.dim() - 1))),
    "permute": lambda s, n: Call(lambda x, y: x.permute(0, *range(x.dim() - 1, 0, -1))),
    "minimum": lambda s, n: Call(torch.minimum),
    "choose": lambda s, n: Call(lambda x, y: torch.where(y > 0.1, x, y * 0.5)),
    "softmax of channels": lambda s, n: Call(lambda x, y: x.softmax(1)),
    "attend": lambda s, n: Call(lambda x, y: functional.scaled_dot_product_attention(x, y, x,
        is_causal=n % 2 == 1)),
    "attention": lambda s, n: Attention(s[-1]),
    "rows by rows": lambda s, n: Call(lambda x, y: x @ y.transpose(-1, -2)),
    "columns by rows": lambda s, n: Call(lambda x, y: x.transpose(-1, -2) @ y),
    "rms_norm": lambda s, n: Call(lambda x, y, w: functional.rms_norm(x, (s[-1],), w),
        constant(s[-1])),
    "group_norm": lambda s, n: layer(nn.GroupNorm(1, s[1])),
    "instance_norm": lambda s, n: layer(image(s, nn.InstanceNorm2d, nn.InstanceNorm1d)(s[1])),
    "padded": lambda s, n: layer(image(s, nn.Conv2d, nn.Conv1d)(s[1], s[1], 3, padding=1)),
    "dilated": lambda s, n: layer(nn.Conv1d(s[1], n + 1, 2, dilation=2)),
    "largest": lambda s, n: layer(image(s, nn.MaxPool2d, nn.MaxPool1d)(3, 1, 1)),
    "mean of three": lambda s, n: layer(image(s, nn.AvgPool2d, nn.AvgPool1d)(3, 2, 1)),
    "gate": lambda s, n: Call(lambda x, y: x * y.mean(-1, keepdim=True)),
    "squeeze and excite": lambda s, n: Call(lambda x,
        y: y * torch.sigmoid(x.mean(tuple(range(2, x.dim())), keepdim=True))),
    "deviation": lambda s, n: Call(lambda x, y: x.std(-1, keepdim=True)),
    "below the largest": lambda s, n: Call(lambda x, y: x - x.amax(-1, keepdim=True)),
    "sums so far": lambda s, n: Call(lambda x, y: x.cumsum(-1 - n % (x.dim() - 1))),
    "topk": lambda s, n: Call(lambda x, y: x.topk(2, -1)[n % 2]),
    "sort": lambda s, n: Call(lambda x, y: x.sort(-1)[n % 2]),
    "repeat": lambda s, n: Call(lambda x, y: x.repeat_interleave(2, -1 - n % (x.dim() - 1))),
    "every other row": lambda s, n: Call(lambda x, y: x[:, n % 2 :: 2]),
    "windows": lambda s, n: Call(lambda x, y: x.unfold(-1, 2, 1).flatten(-2)),
    "pixel_shuffle": lambda s, n: layer(nn.PixelShuffle(2)),
    "glu": lambda s, n: layer(nn.GLU(-1)),
    "residual": lambda s, n: Call(lambda x, y: functional.gelu(x) + y),
    "divide": lambda s, n: Call(lambda x, y: x / (y.abs() + 1)),
    "first row": lambda s, n: Call(lambda x, y: x + y[:, :1]),
    "first column": lambda s, n: Call(lambda x, y: x[..., :1] * y),
    "rows in turn": lambda s, n: Call(lambda x, y: torch.cat(x.split(1, 1)[::-1], 1)),
    "gru": lambda s, n: recurrent(nn.GRU(s[-1], n + 1, batch_first=True)),
    "lstm": lambda s, n: recurrent(nn.LSTM(s[-1], n + 1, batch_first=True,
        bidirectional=n % 2 == 0)),
}  # fmt: skip
KINDS = {**{name: make for name, make in STEPS.items() if name not in LEFT_OUT}, **MORE}
# Joins are drawn more often.
NAMES = [*sorted(KINDS), *sorted(MORE), *["join", "add", "mul", "linear", "gate"] * 3]


def blocks(name: str, size: int = 4) -> dict[str, object]:
    return {"name": name, **{f"{part}_block_size": size for part in ("data_in", "weight", "bias")}}


FORMATS: dict[str, dict[str, object]] = {
    "fixed": FIXED, "narrow": NARROW, "mxint": blocks("mxint"), "mxfp4": blocks("mxfp4", 2),
    "mxfp8": blocks("mxfp8"), "block_fp": blocks("block_fp"), "block_log": blocks("block_log", 2),
    "block_minifloat": blocks("block_minifloat", 2), "minifloat": {"name": "minifloat_denorm"},
    "ieee": {"name": "minifloat_ieee"}, "int8": {"name": "scaled_integer"}, "log": {"name": "log"},
    "binary": {"name": "binary_scaling"},
}  # fmt: skip


@dataclass(frozen=True)
class Step:
    """What a step is made of: its kind, the shape it takes, a number; and whose results."""

    kind: str
    shape: tuple[int, ...]
    number: int
    taken: tuple[int, int]

    def module(self) -> nn.Module:
        return KINDS[self.kind](self.shape, self.number).eval()


class Graph(nn.Module):
    """Steps of two earlier results each; those that nobody takes leave it, and some others."""

    def __init__(self, steps: list[Step], modules: list[nn.Module], returned: list[int]) -> None:
        super().__init__()
        self.steps = nn.ModuleList(modules)
        self.taken = [step.taken for step in steps]
        self.returned = returned

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        values = list(inputs)
        for step, (first, second) in zip(self.steps, self.taken, strict=True):
            values.append(step(values[first], values[second]))
        return tuple(values[place] for place in self.returned)


class Layers(nn.Module):
    """Graphs of one input and one result of its shape, behind each other."""

    def __init__(self, graphs: list[Graph]) -> None:
        super().__init__()
        self.graphs = nn.ModuleList(graphs)

    def forward(self, x: Tensor) -> Tensor:
        for item in self.graphs:
            (x,) = item(x)
        return x


@dataclass(frozen=True)
class Walk:
    """Steps and what came of them, the inputs first."""

    values: list[Tensor]
    steps: list[Step]
    modules: list[nn.Module]

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The values that no step made."""
        return tuple(self.values[: len(self.values) - len(self.steps)])


def walk(chance: random.Random, inputs: Sequence[Tensor]) -> Walk:
    """Draw 5 to 12 steps of independent inferences; fewer where none is found."""
    found = Walk(list(inputs), [], [])
    values, wanted = found.values, chance.randint(5, 12)
    for _ in range(TRIES):
        if len(found.steps) == wanted:
            break
        name, number = chance.choice(NAMES), chance.randint(0, 4)
        first = max(0, len(values) - 1 - int(chance.expovariate(0.8)))
        second = chance.randrange(len(values))
        alike = [i for i, item in enumerate(values) if item.shape == values[first].shape]
        if chance.random() < 0.4:
            second = chance.choice(alike)
        step = Step(name, tuple(values[first].shape), number, (first, second))
        try:
            module = step.module()
            with torch.no_grad():
                result = module(values[first], values[second])
                alone = module(values[first][:1], values[second][:1])
        except (RuntimeError, IndexError, ValueError, TypeError, ZeroDivisionError, AssertionError):
            continue
        if not (result.dim() > 1 and result.is_floating_point() and result.shape[0] == 2):
            continue
        if not 2 <= result.numel() <= MOST_ELEMENTS or not result.isfinite().all():
            continue
        if alone.shape == result[:1].shape and torch.allclose(alone, result[:1], atol=1e-4):
            values.append(result)
            found.steps.append(step)
            found.modules.append(module)
    return found


def graph(seed: int) -> tuple[Graph, tuple[Tensor, ...]] | None:
    """Draw a module whose inferences do not depend on each other; None where none was found."""
    chance = random.Random(seed)
    torch.manual_seed(seed)
    shape, count = chance.choice(SHAPES), chance.choice((1, 1, 2))
    found = walk(chance, [torch.randn(shape) for _ in range(count)])
    used = {place for step in found.steps for place in step.taken}
    if not found.steps or not used.issuperset(range(count)):
        return None
    ends = [place for place in range(count, len(found.values)) if place not in used][:3]
    ends += [chance.randrange(count, len(found.values))] * (chance.random() < 0.3)
    model = Graph(found.steps, found.modules, ends[:: chance.choice((1, -1))])
    return model.eval(), found.inputs


def layers(seed: int) -> tuple[Layers, tuple[Tensor, ...]] | None:
    """Draw two or three layers that compute the same with other constants; None where none are."""
    chance = random.Random(seed)
    torch.manual_seed(seed)
    found = walk(chance, [torch.randn(chance.choice(SHAPES))])
    (given,) = found.inputs
    ends = [place for place, value in enumerate(found.values) if value.shape == given.shape]
    steps = found.steps[: ends[-1]]
    if not steps:
        return None
    graphs = [
        Graph(steps, [step.module() for step in steps], [len(steps)])
        for _ in range(chance.choice((2, 3)))
    ]
    return Layers(graphs).eval(), found.inputs


def configured(model: Graph, inputs: tuple[Tensor, ...], seed: int) -> MaseGraph:
    chance = random.Random(seed)
    nodes = canonicalize(trace(model, inputs), {"default": {"config": FIXED}}).nodes
    names = [node.name for node in nodes if node.op == "call_function"]
    kinds = chance.choice((["fixed"], [chance.choice(list(FORMATS))], chance.sample([*FORMATS], 3)))
    chosen = {name: chance.choice(kinds) for name in names}
    while chosen:
        config: dict[str, object] = {"by": "name", "default": {"config": FIXED}}
        config |= {name: {"config": FORMATS[kind]} for name, kind in chosen.items()}
        try:
            found = quantize(trace(model, inputs), config)
            refused = {problem.node for problem in preflight(found)}
            if not refused:
                return found
        except MaseError:
            refused = set()
        # Where no name tells what is not taken, some of them become fixed point.
        named = [name for name in chosen if any(item.startswith(name) for item in refused)]
        for name in named or chance.sample(list(chosen), -(-len(chosen) // 2)):
            del chosen[name]
    return quantize(trace(model, inputs))


@dataclass(frozen=True)
class Fate:
    """What became of a seed: `exact`, `refused`, `wrong` or `crash`, and why."""

    seed: int
    what: str
    why: str = ""


def equally_configured(model: Layers, inputs: tuple[Tensor, ...], seed: int) -> MaseGraph:
    kind = random.Random(seed).choice(list(FORMATS))
    for config in (FORMATS[kind], FIXED):
        try:
            found = quantize(trace(model, inputs), {"default": {"config": config}}, reuse=True)
            if config is FIXED or not preflight(found):
                return found
        except MaseError:
            if config is FIXED:
                raise
    raise AssertionError("the last one returns or raises")


def options_of(seed: int) -> dict[str, object]:
    options: dict[str, object] = {"parallelism": PARALLELISMS[seed % len(PARALLELISMS)]}
    if options["parallelism"] == "auto":
        options["multipliers"] = random.Random(seed).choice(MULTIPLIERS)
    if seed % 4 == EXTERNAL:
        options["memory"] = "external"
    return options


def fate(seed: int, samples: int = SAMPLES) -> Fate | None:
    drawn = layers(seed) if seed % 4 == REUSE else graph(seed)
    if drawn is None:
        return None
    model, inputs = drawn
    options = options_of(seed)
    with tempfile.TemporaryDirectory() as folder:
        try:
            if isinstance(model, Layers):
                mg = equally_configured(model, inputs, seed)
                options["reuse"] = True
            else:
                mg = configured(model, inputs, seed)
            project = mase_hw.emit_verilog(mg, output=f"{folder}/project", **options)
        except MaseError as error:
            if not isinstance(error, UnitError):
                return Fate(seed, "wrong" if "deadlock" in str(error) else "refused", str(error))
            return Fate(seed, "crash", str(error))
        except Exception as error:
            return Fate(seed, "crash", f"{type(error).__name__}: {error}")
        for stall, resets in ((0.0, 0), (0.4, 0), (0.2, 5 * (seed % 4 == 1))):
            try:
                report = mase_hw.simulate(
                    project, samples=samples, stall=stall, seed=seed, resets=resets,
                    checks=seed % 2 == 0,
                )  # fmt: skip
            # A design that is emitted is built, and ends.
            except MaseError as error:
                return Fate(seed, "wrong", str(error))
            if not report.is_right:
                cycles = (
                    f"interval {report.interval_cycles} for {report.predicted_interval_cycles}"
                    f", latency {report.latency_cycles} for {report.predicted_latency_cycles}"
                )
                found = str(report.first_mismatch or report.violations or cycles)
                return Fate(seed, "wrong", f"stall {stall}, {resets} resets: {found}")
    return Fate(seed, "exact")


def fates(seeds: Iterable[int], samples: int = SAMPLES) -> Iterator[Fate]:
    yield from (found for seed in seeds if (found := fate(seed, samples)) is not None)
