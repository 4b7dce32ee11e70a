"""What the float model's results lose in number formats, and whether that is told."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from mase_hw.errors import ConfigError, MaseError
from mase_hw.registry import nearest
from tests.bench.architectures import ARCHITECTURES, inputs_of, model_of, spread_weights
from tests.bench.base import Benchmark, Row, timed

if TYPE_CHECKING:
    from torch import Tensor, nn

    from mase_hw.graph import MaseGraph
    from tests.bench.fidelity_models import Case

CASE_DB, SPREAD_DB, MASK_DB = 60.0, 3.0, 70.0
# Of 16 bits, which the bench's weights and trained-like ones leave; 8 bits have 48 dB less.
BENCH_DB, TRAINED_DB, BYTE_DB = 55.0, 40.0, 48.0
BATCHES = 4
RANDOM = 100
EXAMPLES = 512
COSTLY = ("digits-mlp", "fashion-resnet8", "bert-tiny")
COST = 1.3
QUICK = ("BertForSequenceClassification", "MambaForCausalLM", "MobileNetV2ForImageClassification")
# The measure of the product and that of the bench are of the same values.
EQUAL_DB = 0.2


class Fidelity(Benchmark):
    """Signal over error against float torch, warnings, and what measuring costs."""

    name: ClassVar[str] = "fidelity"
    title: ClassVar[str] = "number formats against the float model"
    default: ClassVar[bool] = False

    def __init__(self, names: Sequence[str] = ()) -> None:
        self.names = names

    def only(self, names: Sequence[str]) -> Fidelity:
        """Return the benchmark with some figures alone."""
        for name in names:
            if name not in PARTS:
                raise ConfigError(
                    f"no figure of fidelity is called {name!r}; {nearest(name, PARTS)}"
                )
        return Fidelity(names)

    def rows(self, *, quick: bool = False) -> Iterator[Row]:
        """Yield the figures."""
        import torch

        torch.set_num_threads(1)
        for name in self.names or PARTS:
            torch.manual_seed(0)
            yield from PARTS[name](quick)


def cases(quick: bool) -> Iterator[Row]:
    """Measure models whose parts have ranges of their own, in every order of consumers."""
    from tests.bench import fidelity_models as models

    found: dict[str, list[float]] = defaultdict(list)
    for case in models.cases():
        found[case.name].append(min(_ratios(case)))
    for name, ratios in found.items():
        spread = max(ratios) - min(ratios)
        yield Row(
            f"{name}, 16 bits, {len(ratios)} orders: worst output; spread over orders",
            f"{min(ratios):.1f} dB; {spread:.1f} dB",
            f">= {CASE_DB:.0f} dB; <= {SPREAD_DB:.0f} dB",
            min(ratios) >= CASE_DB and spread <= SPREAD_DB,
        )


def random_graphs(quick: bool) -> Iterator[Row]:
    """Measure random models against formats for each edge by itself."""
    import torch

    import mase_hw
    from tests.shared_formats import MARGIN_DB, configuration, decibels, oracle, random_network

    lost, silent = list[float](), list[str]()
    seeds = range(4 if quick else RANDOM)
    for seed in seeds:
        network, x = random_network(seed)
        captured = mase_hw.trace(network, (x,))
        with torch.no_grad():
            exact = network(x)
        for width in (8, 16):
            graph = mase_hw.quantize(captured, configuration(width))
            best = oracle(captured, x, width)
            rows = zip(exact, best, _tensors(graph(x)), strict=True)
            worst = max(decibels(want, own) - decibels(want, got) for want, own, got in rows)
            lost.append(worst)
            if worst > MARGIN_DB and not _warnings(graph):
                silent.append(f"model {seed} in {width} bits")
    yield Row(
        f"{len(lost)} random models, 8 and 16 bits: below formats for each edge by more than "
        f"{MARGIN_DB:.0f} dB, of these not told; worst",
        f"{sum(loss > MARGIN_DB for loss in lost)}, {len(silent)}; {max(lost):.1f} dB",
        "0 not told",
        not silent,
    )


def losses(quick: bool) -> Iterable[Row]:
    """Compare losses of quantised graphs with those of their own results."""
    from tests.bench.fidelity_training import loss_rows
    from tests.bench.loss_cases import torch_cases

    return loss_rows([*torch_cases()][:4] if quick else None)


def states(quick: bool) -> Iterable[Row]:
    """Load states of trained quantised graphs into new ones."""
    from tests.bench.fidelity_training import state_rows

    return state_rows(["fixed"] if quick else None)


def masks(quick: bool) -> Iterator[Row]:
    """Measure masked scores for each reader, with all fills, constant and input masks."""
    from tests.bench import fidelity_models as models

    found: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for case in models.masked():
        found[case.name.split(",")[0]].append((_ratios(case)[0], case.name))
    for reader, ratios in found.items():
        worst, name = min(ratios)
        low = sum(ratio < MASK_DB for ratio, _ in ratios)
        yield Row(
            f"masked {reader}, 16 bits: {len(ratios)} fills and masks, below; worst",
            f"{low}; {worst:.1f} dB ({name})",
            f">= {MASK_DB:.0f} dB",
            low == 0,
        )


def _ratios(case: Case) -> list[float]:
    """Return decibels of the outputs of a case against eager torch."""
    import torch

    import mase_hw
    from mase_hw.graph.agreement import closeness
    from mase_hw.graph.judgements import judgements

    model = case.model.eval()
    graph = mase_hw.quantize(mase_hw.trace(model, case.inputs), case.config)
    with torch.no_grad():
        pairs = [*zip(_tensors(model(*case.inputs)), _tensors(graph(*case.inputs)), strict=True)]
    known = [*judgements(graph).values()]
    ratios = [
        closeness(exact.double(), rounded.double(), judgement).sqnr_db or 0.0
        for (exact, rounded), judgement in zip(pairs, known, strict=True)
    ]
    _check(case.name, graph, ratios)
    return [ratios[place] for place in case.outputs]


def _check(name: str, graph: MaseGraph, ratios: Sequence[float]) -> None:
    """Stop where the graph says another agreement than was measured here."""
    from mase_hw.passes.formats.expected_agreement import model_agreement

    found = model_agreement(graph)
    told = [item.sqnr_db for item in found.outputs.values()] if found else []
    for own, other in zip(told, ratios, strict=True):
        if own is not None and abs(min(own, 200.0) - min(other, 200.0)) > max(
            EQUAL_DB, other - 100.0
        ):
            raise MaseError(f"{name}: the graph says {own:.1f} dB, and it is {other:.1f} dB")


def architectures(quick: bool) -> Iterator[Row]:
    """Measure architectures of transformers with weights as the bench has, and trained-like."""
    from tests.bench.fidelity_models import entry, trained_weights

    names = QUICK if quick else tuple(ARCHITECTURES)
    for kind, bar in (("the bench's", BENCH_DB), ("trained-like", TRAINED_DB)):
        low, told, worst = 0, 0, (float("inf"), "")
        for name in names:
            model = model_of(name)
            spread_weights(model)
            if kind == "trained-like":
                trained_weights(model)
            graph = _quantized(name, model, entry(16))
            ratio = _least(graph)
            worst = min(worst, (ratio, name))
            low += ratio < bar
            told += ratio < bar and bool(_warnings(graph))
        yield Row(
            f"{len(names)} architectures, 16 bits, {kind} weights: below, of these told; worst",
            f"{low}, {told}; {worst[0]:.1f} dB ({worst[1]})",
            f">= {bar:.0f} dB or told",
            low == told,
        )


def false_warnings(quick: bool) -> Iterator[Row]:
    """Count warnings of models that lose no more than their widths say."""
    from mase_hw.models import models
    from tests.bench.fidelity_models import entry

    found = []
    for name in QUICK if quick else tuple(ARCHITECTURES):
        model = model_of(name)
        for bits, bar in ((8, BENCH_DB - BYTE_DB), (16, BENCH_DB)):
            graph = _quantized(name, model, entry(bits))
            if _least(graph) >= bar and _warnings(graph):
                found.append(f"{name} at {bits} bits")
    for name in COSTLY[:2] if quick else sorted(models()):
        if _warnings(_network(name)[0]):
            found.append(name)
    yield Row(
        "warnings of networks that lose what their widths say: registered, and architectures with "
        "initial weights, 8 and 16 bits",
        f"{len(found)}{': ' if found else ''}{', '.join(found)}",
        "<= 2",
        len(found) <= 2,
    )


def cost(quick: bool) -> Iterator[Row]:
    """Time quantization and emission with the agreement, and the agreement alone."""
    from mase_hw.api import emit_verilog
    from mase_hw.emit.warnings import warnings
    from mase_hw.passes.formats.agreement import measure_agreement_analysis_pass

    for name in COSTLY[:1] if quick else COSTLY:
        _network(name)
        ratios = []
        for _ in range(3):
            with tempfile.TemporaryDirectory(prefix="mase-hw-bench-") as folder:
                with timed() as whole:
                    graph, data = _network(name)
                    emit_verilog(graph, output=folder)
                with timed() as part:
                    measure_agreement_analysis_pass(graph, {"data": data})
                    warnings(graph)
            ratios.append(whole.cpu / (whole.cpu - part.cpu))
        ratio = sorted(ratios)[1]
        yield Row(
            f"{name}: quantize and emission with the agreement on {EXAMPLES} examples / without",
            f"{ratio:.2f} x",
            f"<= {COST} x",
            ratio <= COST,
        )


def _network(name: str) -> tuple[MaseGraph, list[Tensor]]:
    """Return a registered network in its formats, or in 8 bits, and what they were fitted to."""
    import mase_hw
    from mase_hw.models import models

    model = models()[name]
    trained = model.load(None)
    data = [trained.split.train_inputs[:EXAMPLES]]
    mg = mase_hw.trace(trained.module, trained.example_inputs)
    return mase_hw.quantize(mg, None if name == "bert-tiny" else model.config, data=data), data


def _quantized(name: str, model: nn.Module, config: Mapping[str, object]) -> MaseGraph:
    import mase_hw

    batches = [inputs_of(name, model) for _ in range(BATCHES)]
    return mase_hw.quantize(mase_hw.trace(model, batches[0]), config, data=batches)


def _least(graph: MaseGraph) -> float:
    from mase_hw.passes.formats.expected_agreement import model_agreement

    found = model_agreement(graph)
    ratio = found.sqnr_db if found else None
    return float("inf") if ratio is None else ratio


def _warnings(graph: MaseGraph) -> list[object]:
    from mase_hw.emit.warnings import warnings

    return [*warnings(graph)]


def _tensors(outputs: Any) -> list[Tensor]:
    from torch import Tensor
    from torch.utils._pytree import tree_leaves

    return [leaf for leaf in tree_leaves(outputs) if isinstance(leaf, Tensor)]


PARTS: Mapping[str, Callable[[bool], Iterable[Row]]] = {
    "cases": cases,
    "random": random_graphs,
    "masks": masks,
    "architectures": architectures,
    "warnings": false_warnings,
    "losses": losses,
    "states": states,
    "cost": cost,
}
