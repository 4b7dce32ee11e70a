"""What prunes weights, activations and structure shares: words, checks, weights, masks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.fx import Node

from mase_hw._checks import check_share
from mase_hw.errors import ConfigError
from mase_hw.graph.calls import tensor_arguments
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.ops import Weighted, operator_for
from mase_hw.registry import nearest

SCOPES = ("local", "global")
OPERAND = "weight"


def own_words(given: Mapping[str, object]) -> Mapping[str, object]:
    """Return arguments with `criterion` for `method`, and `l1` for `l1-norm`.

    Raises:
        ConfigError: for tables of weights and activations, which are of `prune_transform_pass`.
    """
    for table in ("weight", "activation"):
        if isinstance(given.get(table), Mapping):
            raise ConfigError(f"pruning: give the table {table!r} to prune_transform_pass")
    found = {"criterion" if key == "method" else key: value for key, value in given.items()}
    criterion = found.get("criterion")
    if isinstance(criterion, str):
        found["criterion"] = criterion.removesuffix("-norm").removesuffix("_norm")
    return found


def check_pruning(
    criterion: str, scope: str, sparsity: object, criteria: Sequence[str] = ("l1", "random")
) -> float:
    """Return the sparsity.

    Raises:
        ConfigError: for a word that is none, or a sparsity out of range.
    """
    for key, word, legal in (("criterion", criterion, criteria), ("scope", scope, SCOPES)):
        if word not in legal:
            raise ConfigError(f"pruning: {key} is {word!r}; {nearest(str(word), legal)}")
    return check_share("pruning: sparsity", sparsity)


def prunable_weights(mg: MaseGraph) -> dict[str, tuple[Node, nn.Parameter]]:
    """Return every weight that is a parameter, and the node that reads it, by its user's name."""
    found = {}
    for node in mg.nodes:
        operator = operator_for(node.target) if node.op == "call_function" else None
        if operator is None or not Weighted.of(operator).prunable:
            continue
        for name, value in tensor_arguments(node, operator.operand_names):
            if name == OPERAND and isinstance(value, Node) and value.op == "get_attr":
                constant = mg.constant(value)
                if isinstance(constant, nn.Parameter) and constant.dim() >= 2:
                    found[node.name] = (value, constant)
    return found


def best(scores: Tensor, sparsity: float) -> Tensor:
    """Return 1 for all but the `sparsity` share of the smallest scores, 0 for those."""
    mask = torch.ones(scores.numel())
    count = round(sparsity * scores.numel())
    mask[torch.argsort(scores.flatten(), stable=True)[:count]] = 0.0
    return mask.reshape(scores.shape)
