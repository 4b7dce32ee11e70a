"""What a choice of formats gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.metadata import metadata
from mase_hw.precision.evaluation import Result, Row
from mase_hw.precision.goal import Goal


@dataclass(frozen=True)
class Fitted:
    """The formats that were found.

    Attributes:
        name: of the model.
        goal: what was asked.
        result: the configuration, its agreement on held-out samples and its cost.
        predicted_db: agreement as the noise of its options alone says, without correction; None
            where outputs are no reals.
        front: other configurations that were run: on the way, and uniform ones.
        float_accuracy: of the float model; None without labels.
        examples: that were held out.
        parallelism: of the hardware whose cost counted.
    """

    name: str
    goal: Goal
    result: Result
    predicted_db: float | None
    front: Sequence[Result]
    float_accuracy: float | None
    examples: int
    parallelism: int | str | Mapping[str, Any] = 1

    @property
    def config(self) -> Mapping[str, Any]:
        """The configuration that `emit-verilog` takes."""
        return self.result.config

    @property
    def rows(self) -> Sequence[Row]:
        """Its operands."""
        return self.result.rows

    @property
    def graph(self) -> MaseGraph:
        """The graph in the fitted formats."""
        return self.result.graph


def clips(result: Result) -> bool:
    """Return whether a format clips held-out samples."""
    known = (metadata(node).agreement for node in result.graph.nodes)
    return any(item is not None and item.saturated for item in known)
