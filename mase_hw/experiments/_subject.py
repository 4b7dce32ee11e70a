"""Models with their data, and searches over them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor, nn

from mase_hw._kinds import Setting, Table
from mase_hw.data import Split
from mase_hw.graph import MaseGraph, trace
from mase_hw.models import models
from mase_hw.search import Samples, SearchResult, search
from mase_hw.search.task import RESULT
from mase_hw.training import History, Trainer, evaluate


@dataclass(frozen=True)
class Subject:
    """A trained model with the data that an experiment uses.

    Attributes:
        name: of the registered model.
        mg: the captured model.
        split: its data, cut to the number of samples that was asked for.
        seed: of what is trained and searched; the registered model has a seed of its own.
    """

    name: str
    mg: MaseGraph
    split: Split
    seed: int = 0

    @classmethod
    def load(
        cls,
        name: str,
        *,
        train: int | None = None,
        validation: int | None = None,
        test: int | None = None,
        seed: int = 0,
    ) -> Subject:
        """Return a registered model.

        Args:
            name: of the model.
            train: samples to train on; all when not given.
            validation: samples to choose by; all when not given.
            test: samples to report on; all when not given.
            seed: see the attribute.
        """
        trained = models()[name].load()
        split = trained.split
        mg = trace(trained.module, trained.example_inputs, name=re.sub(r"\W", "_", name))
        return cls(
            name,
            mg,
            Split(
                split.train_inputs[:train],
                split.train_labels[:train],
                split.test_inputs[:test],
                split.test_labels[:test],
                split.validation_inputs[:validation],
                split.validation_labels[:validation],
            ),
            seed,
        )

    def fit(self, module: nn.Module, **recipe: Setting) -> History:
        """Train a module on the training samples, with arguments of `Trainer`."""
        trainer = Trainer(**recipe, seed=self.seed)
        return trainer.fit(module, self.split.train_inputs, self.split.train_labels)

    def accuracy(self, module: nn.Module) -> float:
        """Return the share of test samples that a module classifies."""
        return evaluate(module, self.split.test_inputs, self.split.test_labels)

    @property
    def samples(self) -> Samples:
        """What a search measures on: never the test samples."""
        split = self.split
        return Samples(
            split.validation_inputs,
            split.validation_labels,
            split.train_inputs[:256],
            split.train_inputs,
            split.train_labels,
        )

    def search(self, config: Table, folder: Path, advance: Callable[[], None]) -> Curve:
        """Search, and return the course of it.

        Args:
            config: of the search.
            folder: of its study and results.
            advance: called once per trial.
        """
        done = 0

        def count(finished: int, total: int) -> None:
            nonlocal done
            while done < finished:
                done += 1
                advance()

        seeded = {**config, "seed": config.get("seed", 0) + self.seed}
        for key in ("training", "finetuning"):
            if key in seeded:
                seeded[key] = {**seeded[key], "seed": seeded[key].get("seed", 0) + self.seed}
        result = search(
            self.mg,
            seeded,
            output=folder,
            samples=self.samples,
            builder=self.name,
            progress=count,
        )
        return Curve.of(result, self.mg.name)


@dataclass(frozen=True)
class Curve:
    """The course of a search.

    Attributes:
        accuracies: best accuracy after every trial; a trial that failed adds nothing.
        result: what it found.
        measured: accuracy and number formats of the trials that did not fail.
    """

    accuracies: list[float]
    result: SearchResult
    measured: Sequence[tuple[float, Table]]

    @classmethod
    def of(cls, result: SearchResult, study: str) -> Curve:
        """Read the trials of a finished search."""
        import optuna

        trials = optuna.load_study(study_name=study, storage=result.storage).get_trials()
        best, accuracies, measured = 0.0, [], []
        for trial in trials:
            accuracy = float(trial.user_attrs.get("metrics", {}).get("accuracy", 0.0))
            if RESULT in trial.user_attrs:
                measured.append((accuracy, trial.user_attrs[RESULT]["config"]))
            best = max(best, accuracy)
            accuracies.append(best)
        return cls(accuracies, result, measured)

    def configurations(self, count: int) -> list[Table]:
        """Return the number formats of the most accurate trials."""
        return [item for _, item in sorted(self.measured, key=lambda pair: -pair[0])[:count]]


def layer_entries(config: Table) -> list[tuple[str, str, str, str]]:
    """Return the layers of BERT, each with its format, and width and fraction of data and weight.

    Args:
        config: number formats by name.
    """
    found = []
    for name, table in config.items():
        entry = table.get("config", {}) if isinstance(table, Mapping) else {}
        if "name" in entry and name != "default":
            data, weight = (
                ".".join(
                    str(entry[f"{operand}_{key}"])
                    for key in ("width", "frac_width")
                    if f"{operand}_{key}" in entry
                )
                for operand in ("data_in_0", "weight")
            )
            layer = re.sub("^model_(bert_)?(encoder_)?", "", name)
            found.append((layer, str(entry["name"]), data, weight))
    return found


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean of several seeds and its standard error."""
    mean = sum(values) / len(values)
    if len(values) < 2:
        return mean, 0.0
    variance = sum((value - mean) ** 2 for value in values) / (len(values) - 1)
    return mean, math.sqrt(variance / len(values))


def steps(progress: Callable[[int, int], None], total: int) -> Callable[[], None]:
    """Return a function that counts one step."""
    done = 0

    def advance() -> None:
        nonlocal done
        done += 1
        progress(min(done, total), total)

    return advance


def classes(scores: Tensor) -> Tensor:
    """Return the class of every row of scores."""
    return scores.reshape(len(scores), -1).argmax(dim=1)
