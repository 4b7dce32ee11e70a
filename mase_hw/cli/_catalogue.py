"""What every operator covers: its ATen targets, number formats and modules, found by use."""

from __future__ import annotations

from dataclasses import dataclass

from mase_hw.emit.flow import quantize, to_hardware
from mase_hw.errors import MaseError
from mase_hw.graph import trace
from mase_hw.ops import Operator, operators


@dataclass(frozen=True)
class Entry:
    """One operator.

    Attributes:
        operator: its name.
        targets: ATen overloads.
        formats: number formats it has hardware for.
        modules: what its first example becomes in its first format; empty for a wire.
    """

    operator: str
    targets: tuple[str, ...]
    formats: tuple[str, ...]
    modules: tuple[str, ...]


def catalogue() -> list[Entry]:
    """Return every operator that a model may hold, in alphabetical order."""
    return [
        Entry(item.name, item.targets, item.formats, _modules(item))
        for item in operators().values()
        if item.role is None
    ]


def _modules(operator: Operator) -> tuple[str, ...]:
    module, inputs = operator.examples()[0]
    config = {"default": {"config": {"name": operator.formats[0]}}}
    try:
        mg = to_hardware(quantize(trace(module.eval(), inputs, batched=False), config))
    except MaseError:
        # Nodes that do nothing at inference are gone before they could become hardware.
        return ()
    found = set[str]()
    for node in mg.nodes:
        if node.op == "call_function":
            call = mg.call(node)
            hardware = operator.hardware(call) if call.operator is operator else None
            found |= {hardware.module} if hardware else set()
    return tuple(sorted(found))
