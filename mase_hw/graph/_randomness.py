"""Which operators of a captured graph draw random numbers."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch.fx import Node
from torch.fx.operator_schemas import normalize_function

from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.nodes import location

# Arguments without which an operator draws nothing.
_SWITCHES = ("train", "training", "dropout_p", "p")


def drawing(mg: MaseGraph) -> Iterator[str]:
    """Yield a note on each random draw, as of dropout that does not end with training."""
    for node in mg.nodes:
        tags = getattr(node.target, "tags", ())
        if torch.Tag.nondeterministic_seeded in tags and all(_switches(node)):
            yield f"{node.target} at {location(node)} draws random numbers"


def _switches(node: Node) -> Iterator[bool]:
    assert callable(node.target)
    arguments = normalize_function(
        node.target, node.args, node.kwargs, normalize_to_only_use_kwargs=True
    )
    for name in _SWITCHES:
        if arguments is not None and name in arguments.kwargs:
            yield bool(arguments.kwargs[name])
