"""Training in the chosen formats, and in cheaper ones that training brings back."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from mase_hw.errors import DataError
from mase_hw.precision.evaluation import Result
from mase_hw.precision.figures import PERCENT
from mase_hw.precision.fitted import Fitted
from mase_hw.training import Trainer, evaluate

# Points beyond those asked for that training may win back, and cheaper formats that are tried.
REGAINED, TRIED = 5.0, 2
LEARNING_RATE = 3e-4

Samples = tuple[Tensor, Tensor]


def train_formats(
    fitted: Fitted, samples: Samples, held_out: Samples, epochs: int, seed: int = 0
) -> Fitted:
    """Return the cheapest formats that keep the goal after training through their rounding.

    Tried are the choices on the way to the chosen one that take less and lose up to `REGAINED`
    points more, the cheapest first, then the chosen one. The epoch that is best on held-out samples
    is kept; where training does not help, the weights stay.

    Args:
        fitted: formats of a classifier, with a bound of accuracy or of signal over error.
        samples: inputs and classes to train on.
        held_out: those to compare on; the result is judged on those of `fitted`.
        epochs: passes over the samples.
        seed: of their order.

    Raises:
        DataError: without an accuracy.
    """
    compared = fitted.result.compared or fitted.result
    if compared.accuracy is None or compared.drop is None:
        raise DataError("training needs classes: give data with labels")
    exact = compared.accuracy + compared.drop / PERCENT
    limit = compared.drop if fitted.goal.max_drop is None else fitted.goal.max_drop
    trainer = Trainer(epochs=epochs, learning_rate=LEARNING_RATE, seed=seed)
    for result in (*_cheaper(fitted, limit), compared):
        graph = result.graph.copy()
        before = evaluate(graph, *held_out)
        trainer.fit(graph, *samples, validation=held_out)
        accuracy = evaluate(graph, *held_out)
        if result is compared and accuracy < before:
            return fitted
        if PERCENT * (exact - accuracy) <= limit:
            drop = PERCENT * (exact - accuracy)
            judged = fitted.judge(replace(result, graph=graph, accuracy=accuracy, drop=drop))
            # Decibels against a model with other weights say nothing.
            judged = replace(judged, outputs={}, intervals={})
            return replace(fitted, result=judged, trained=True)
    return fitted


def _cheaper(fitted: Fitted, limit: float) -> list[Result]:
    compared = (item.compared or item for item in fitted.front)
    cheaper = [
        item
        for item in compared
        if item.cost.weighed < fitted.result.cost.weighed
        and item.drop is not None
        and limit < item.drop <= limit + REGAINED
    ]
    return sorted(cheaper, key=lambda item: item.cost.weighed)[:TRIED]
