"""The cell that an operator makes of a model, which tests then give all inputs there are."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any, TypeVar

import torch
from torch import nn

import mase_hw
from mase_hw.cells import Cell
from mase_hw.formats import Format

AnyCell = TypeVar("AnyCell", bound=Cell)


class Model(nn.Module):
    """A function of its inputs."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


def operator_cell(
    kind: type[AnyCell], model: Callable[..., Any], node: str, size: int, **formats: Format
) -> AnyCell:
    """Return the cell of a node."""
    entry: dict[str, object] = {"name": "fixed"}
    for operand, number in formats.items():
        fields = {"name": number.name, **asdict(number)}
        entry |= {f"{operand}_{key}": value for key, value in fields.items()}
    inputs = sum(operand.startswith("data_in") for operand in formats)
    rows = tuple(torch.zeros(2, size) for _ in range(inputs))
    module = model if isinstance(model, nn.Module) else Model(model)
    config = {"by": "type", node: {"config": entry}}
    graph = mase_hw.quantize(mase_hw.trace(module.eval(), rows), config)
    netlist = graph.netlist(graph.node(node))
    (cell,) = (cell for cell in netlist.cells.values() if isinstance(cell, kind))
    return cell
