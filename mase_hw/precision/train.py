"""Training in the formats that were found, and in cheaper ones that training brings back."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from mase_hw.errors import DataError
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.precision.accuracy import PERCENT
from mase_hw.precision.evaluation import Result
from mase_hw.precision.fitted import Fitted
from mase_hw.training import Trainer, evaluate

# Points beyond those asked for that training may win back, and cheaper formats that are tried.
REGAINED, TRIED = 5.0, 2
LEARNING_RATE = 3e-4

Samples = tuple[Tensor, Tensor]


def train_formats(
    found: Fitted, samples: Samples, held_out: Samples, epochs: int, seed: int = 0
) -> Fitted:
    """Return the cheapest formats that keep the goal after training through their rounding.

    Tried are the choices on the way to what was found that take less and lose up to `REGAINED`
    points more, the cheapest first, then what was found. The epoch that is best on held-out samples
    is kept; where training does not help, the weights stay.

    Args:
        found: formats of a classifier, with a bound of accuracy or of signal over error.
        samples: inputs and classes to train on.
        held_out: those to check on.
        epochs: passes over the samples.
        seed: of their order.

    Raises:
        DataError: where accuracy is not known.
    """
    exact, drop = found.float_accuracy, found.result.drop
    if exact is None or drop is None:
        raise DataError("training needs classes: give data with labels")
    limit = drop if found.goal.max_drop is None else found.goal.max_drop
    trainer = Trainer(epochs=epochs, learning_rate=LEARNING_RATE, seed=seed)
    for result in (*_cheaper(found, limit), found.result):
        graph = result.graph.copy()
        before = evaluate(graph, *held_out)
        trainer.fit(graph, *samples, validation=held_out)
        accuracy = evaluate(graph, *held_out)
        if result is found.result and accuracy < before:
            return found
        if PERCENT * (exact - accuracy) <= limit:
            return replace(found, result=_trained(result, graph, accuracy, exact), trained=True)
    return found


def _cheaper(found: Fitted, limit: float) -> list[Result]:
    """Return choices that take less than what was found and lose a little more than allowed."""
    known = [
        item
        for item in found.front
        if item.cost.weighed < found.result.cost.weighed
        and item.drop is not None
        and limit < item.drop <= limit + REGAINED
    ]
    return sorted(known, key=lambda item: item.cost.weighed)[:TRIED]


def _trained(result: Result, graph: MaseGraph, accuracy: float, exact: float) -> Result:
    # Decibels against a model with other weights say nothing.
    return replace(
        result, outputs={}, graph=graph, accuracy=accuracy, drop=PERCENT * (exact - accuracy)
    )
