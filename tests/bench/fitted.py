"""Designs in formats that were found, and the same space searched by trial."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.bench.base import Row, timed

if TYPE_CHECKING:
    from torch import Tensor, nn

    from mase_hw.graph import MaseGraph
    from mase_hw.models import Trained
    from mase_hw.precision import Fitted

    Make = Callable[[], tuple[MaseGraph, Tensor]]

POINTS, TRIALS, QUICK_TRIALS = 0.3, 200, 10
KEPT_DB = 30.0
# Inferences that are simulated, steps of a window of motion, and examples.
SIMULATED, STEPS, EXAMPLES = 4, 16, 64
# Of samples whose accuracy is compared.
HELD_OUT = 1000


def fitted(name: str, make: Make, *, simulated: bool) -> Callable[[bool], Iterator[Row]]:
    """Return what finds formats for 30 dB, beside uniform ones, and simulates the design."""

    def measure(quick: bool) -> Iterator[Row]:
        import mase_hw

        graph, inputs = make()
        with timed() as spent:
            found = mase_hw.fit_formats(graph, data=[inputs], min_sqnr=KEPT_DB, prepare=False)
        uniform = [item for item in found.front if item.name.startswith("uniform")]
        beside = ", ".join(
            f"{item.name.removeprefix('uniform ')} {item.sqnr_db:.1f} dB "
            f"{found.result.cost.weighed / item.cost.weighed:.2f} x"
            for item in uniform
        )
        holding = list(filter(found.keeps, uniform))
        yield Row(
            f"{name}, found for {KEPT_DB:.0f} dB: agreement; cost / that of uniform formats",
            f"{found.result.sqnr_db:.1f} dB; {beside}; {_usual(found)}; {spent.cpu:.0f} CPU s",
            "least of those that hold",
            all(found.result.cost.weighed <= item.cost.weighed for item in holding),
        )
        if not simulated or quick:
            return
        with tempfile.TemporaryDirectory() as folder:
            project = mase_hw.emit_verilog(found.graph, output=Path(folder) / "net")
            report = mase_hw.simulate(project, inputs[:SIMULATED])
        yield Row(
            f"{name}, in these formats: elements that differ in RTL",
            f"{report.mismatches}",
            "0",
            report.bit_exact,
        )

    return measure


def _usual(found: Fitted) -> str:
    """Return the format that most weights have, and that of most streams."""
    said = []
    for word, is_weight in (("weights", True), ("streams", False)):
        formats = [row.format for row in found.rows if (row.operand == "weight") == is_weight]
        families = [re.sub(r"<([0-9]+).*", r" \1", text) for text in formats]
        said += [f"{word} {max(families, key=families.count)}"] if families else []
    return ", ".join(said)


def _layer() -> tuple[MaseGraph, Tensor]:
    """The first encoder layer of MiniLM, on embeddings of sentences."""
    import torch

    import mase_hw
    from mase_hw.data import dataset
    from mase_hw.models.hub import load_pretrained

    model: Any = load_pretrained("minilm").module
    with torch.no_grad():
        states = model.embeddings(dataset("snippets").load().train_inputs[:32, :STEPS])
    return mase_hw.trace(model.encoder.layer[0], (states[:4],)), states


def _registered(name: str) -> Make:
    """Return what loads a registered network, and 64 samples."""

    def make() -> tuple[MaseGraph, Tensor]:
        import mase_hw
        from mase_hw.models import models

        trained = models()[name].load()
        graph = mase_hw.trace(trained.module, trained.example_inputs)
        return graph, trained.split.train_inputs[:EXAMPLES]

    return make


def _decoder() -> tuple[MaseGraph, Tensor]:
    """The first decoder layer of SmolLM2, on rows with the sizes of embeddings."""
    import torch

    import mase_hw
    from tests.bench.transformer_models import SUBJECTS

    module, (rows,) = SUBJECTS["smollm2-layer"].prepare()
    states = torch.randn(32, *rows.shape[1:], generator=torch.Generator().manual_seed(0))
    return mase_hw.trace(module, (rows,)), 0.1 * states


def _recurrent() -> tuple[MaseGraph, Tensor]:
    """A trained LSTM over windows of motion, every eighth sample of them."""
    import torch
    from torch import nn

    import mase_hw
    from mase_hw.data import dataset
    from mase_hw.training import Trainer

    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cells, self.classes = nn.LSTM(6, 12, batch_first=True), nn.Linear(12, 6)

        def forward(self, x: Tensor) -> Tensor:
            found: Tensor = self.classes(self.cells(x)[0][:, -1])
            return found

    split = dataset("human-activity").load()
    inputs = split.train_inputs[:, :, :: split.train_inputs.shape[2] // STEPS].transpose(1, 2)
    torch.manual_seed(0)
    model = Recurrent()
    Trainer(epochs=2).fit(model, inputs, split.train_labels)
    return mase_hw.trace(model.eval(), inputs[:16]), inputs[:64]


def searched(quick: bool) -> Iterator[Row]:
    """Search the space of a fit by trial, on the same samples."""
    import mase_hw
    from mase_hw.models import models

    trained = models()["fashion-resnet8"].load()
    split = trained.split
    held = split.validation_inputs[:HELD_OUT], split.validation_labels[:HELD_OUT]
    graph = mase_hw.trace(trained.module, trained.example_inputs)
    with timed() as fitting:
        found = mase_hw.fit_formats(
            graph,
            data=replace(split, validation_inputs=held[0], validation_labels=held[1]),
            max_drop=POINTS,
            formats=["fixed"],
            prepare=False,
        )
    trials = QUICK_TRIALS if quick else TRIALS
    with timed() as searching:
        best = _best_of(graph, trained, held, trials)
    share = found.result.cost.weighed / best
    ratio = fitting.cpu / searching.cpu
    yield Row(
        f"fashion-resnet8, {POINTS} points: cost / that of {trials} trials of TPE; time / theirs",
        f"{share:.2f} x; {ratio:.3f} ({fitting.cpu:.0f} CPU s)",
        "<= 1.00 x; <= 0.05",
        share <= 1.0 and ratio <= 1 / 20,
    )


def _best_of(graph: MaseGraph, trained: Trained, held: tuple[Tensor, Tensor], trials: int) -> float:
    """Return the least cost of trials that keep the accuracy; infinite where none does."""
    import optuna

    from mase_hw.emit.flow import canonicalize
    from mase_hw.errors import MaseError
    from mase_hw.passes.canonical.software_metadata import add_software_metadata_analysis_pass
    from mase_hw.precision.evaluation import Evaluator
    from mase_hw.precision.samples import Part, Samples
    from mase_hw.precision.space import configuration, operands_of

    base, inputs = canonicalize(graph, {}), trained.split.train_inputs
    parts = Part([[inputs]], len(inputs)), Part([[held[0]]], len(held[1]), held[1])
    samples = Samples(*parts)
    base, _ = add_software_metadata_analysis_pass(base, {"data": [inputs]})
    operands, evaluator = operands_of(base, ["fixed"]), Evaluator(base, samples, 1)

    def cost(trial: optuna.Trial) -> float:
        chosen = [
            trial.suggest_int(f"{item.node.name}.{item.name}", 0, len(item.options) - 1)
            for item in operands
        ]
        try:
            result = evaluator.run("", configuration(base, operands, chosen))
        except MaseError as error:
            raise optuna.TrialPruned from error
        trial.set_constraint("drop", (result.drop or 0.0) - POINTS)
        return result.cost.weighed

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=0))
    study.optimize(cost, n_trials=trials)
    try:
        return study.best_value
    except ValueError:
        return float("inf")


def language_model(quick: bool) -> Iterator[Row]:
    """Round the weights of SmolLM2-135M to 4.5 bits by GPTQ."""
    from mase_hw.experiments.perplexity import Scope, measure

    name = "mxint 4, blocks of 16"
    scope = Scope([(name, "gptq")], 2 if quick else 8, 128, 8 if quick else 32)
    with tempfile.TemporaryDirectory() as folder:
        exact, rounded = measure(Path(folder), scope, lambda *_: None).rows
    ratio, bits = float(rounded[3]) / float(exact[3]), float(rounded[2])
    yield Row(
        f"SmolLM2-135M, MXINT4 by GPTQ, {bits:g} bits a weight: perplexity / float",
        f"{rounded[3]:.1f} / {exact[3]:.1f} = {ratio:.2f}",
        "<= 1.15 at <= 4.5 bits",
        ratio <= 1.15 and bits <= 4.5,
    )


def neighbours(module: nn.Module, graph: MaseGraph, ids: Tensor) -> float:
    """Return the share of sentences whose nearest neighbour is that of the float model.

    Args:
        module: returns the last states of ids.
        graph: the same in formats.
        ids: of sentences, 0 where one has ended, `[sentences, tokens]`.
    """
    import torch

    def nearest(states: Callable[[Tensor], Tensor]) -> Tensor:
        found = torch.cat([states(part) for part in torch.split(ids, 64)])
        mask = (ids != 0)[..., None]
        pooled = (found * mask).sum(1) / mask.sum(1).clamp(min=1)
        pooled = torch.nn.functional.normalize(pooled, dim=-1)
        return (pooled @ pooled.T).fill_diagonal_(-2.0).argmax(1)

    with torch.no_grad():
        return float((nearest(module) == nearest(graph)).double().mean())


PARTS: Mapping[str, Callable[[bool], Iterator[Row]]] = {
    "design-lstm": fitted("LSTM on har", _recurrent, simulated=True),
    "design-vit-mnist": fitted("vit-mnist", _registered("vit-mnist"), simulated=False),
    "design-bert-tiny": fitted("bert-tiny", _registered("bert-tiny"), simulated=False),
    "design-minilm": fitted("MiniLM, a layer", _layer, simulated=True),
    "design-resnet8": fitted("fashion-resnet8", _registered("fashion-resnet8"), simulated=True),
    "design-smollm2": fitted("SmolLM2, a layer", _decoder, simulated=False),
    "search": searched,
    "language-model": language_model,
}
