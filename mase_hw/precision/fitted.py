"""What a choice of formats gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.metadata import metadata
from mase_hw.precision.evaluation import Result
from mase_hw.precision.goal import Goal


@dataclass(frozen=True)
class Row:
    """One operand of a choice.

    Attributes:
        node: its node.
        operand: its name.
        format: as text.
        bits: of an element.
        noise_share: of the predicted error of the outputs.
        cost_share: of the node's weighed cost in that of all, at the node's first operand.
    """

    node: str
    operand: str
    format: str
    bits: float
    noise_share: float
    cost_share: float | None


@dataclass(frozen=True)
class Fitted:
    """The formats that were found.

    Attributes:
        name: of the model.
        goal: what was asked.
        result: the configuration, its agreement on held-out samples and its cost.
        predicted_db: agreement as the noise of its options alone says, without correction; None
            where outputs are no reals.
        rows: operands.
        front: other configurations that were run: on the way, and uniform ones.
        float_accuracy: of the float model; None without labels.
        examples: that were held out.
        parallelism: of the hardware whose cost counted.
    """

    name: str
    goal: Goal
    result: Result
    predicted_db: float | None
    rows: Sequence[Row]
    front: Sequence[Result]
    float_accuracy: float | None
    examples: int
    parallelism: int | str | Mapping[str, Any] = 1

    @property
    def config(self) -> Mapping[str, Any]:
        """The configuration."""
        return self.result.config

    @property
    def graph(self) -> MaseGraph:
        """The quantised graph."""
        return self.result.graph


def clips(result: Result) -> bool:
    """Return whether a format clips held-out samples."""
    known = (metadata(node).agreement for node in result.graph.nodes)
    return any(item is not None and item.saturated for item in known)
