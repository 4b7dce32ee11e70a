"""Number formats that a model's own layers give: noted while it is captured.

A layer that computes with rounded operands calls `declare` on each of them while `is_capturing()`.
It computes in real numbers then, and the graph keeps the formats beside the operator, where passes
find them, instead of the arithmetic that rounds.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from contextvars import ContextVar

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from mase_hw.errors import CaptureError
from mase_hw.formats import Format, make_format
from mase_hw.graph.nodes import tensor_arguments
from mase_hw.graph.source import location_of_trace
from mase_hw.ops import operator_for

# Under this key `absorb` notes the formats of a node's operands.
DECLARED = "declared"

_library = torch.library.Library("mase", "FRAGMENT")  # type: ignore[no-untyped-call]
_library.define("declare(Tensor self, str description) -> Tensor")  # type: ignore[no-untyped-call]


def _unrounded(values: Tensor, description: str) -> Tensor:
    return values.clone()


_library.impl("declare", _unrounded, "CompositeExplicitAutograd")  # type: ignore[no-untyped-call]

_capturing: ContextVar[bool] = ContextVar("capturing", default=False)


@contextlib.contextmanager
def capturing() -> Iterator[None]:
    """Let layers declare formats instead of rounding to them."""
    token = _capturing.set(True)
    try:
        yield
    finally:
        _capturing.reset(token)


def is_capturing() -> bool:
    """True if a model is being captured."""
    return _capturing.get()


def declare(values: Tensor, number_format: Format) -> Tensor:
    """Return `values`, which the operator that takes them is to have in a format."""
    description = json.dumps(encode_format(number_format))
    result: Tensor = torch.ops.mase.declare(values, description)
    return result


def encode_format(number_format: Format) -> dict[str, object]:
    """Return the JSON value of a format."""
    return number_format.to_dict()


def decode_format(entry: Mapping[str, object]) -> Format:
    """Read what `encode_format` wrote."""
    return make_format(
        {key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()}
    )


def absorb(module: GraphModule) -> None:
    """Note declared formats on the nodes whose operands they are, in place.

    Raises:
        CaptureError: where what takes an operand is no operator.
    """
    target = torch.ops.mase.declare.default
    for marker in [node for node in module.graph.nodes if node.target is target]:
        values, description = marker.args
        number_format = decode_format(json.loads(str(description)))
        for user in list(marker.users):
            for name in _operands(user, marker):
                user.meta[DECLARED] = {**user.meta.get(DECLARED, {}), name: number_format}
        marker.replace_all_uses_with(values)
        module.graph.erase_node(marker)


def _operands(user: Node, marker: Node) -> list[str]:
    operator = operator_for(user.target) if user.op == "call_function" else None
    if operator is None:
        raise CaptureError(
            f"a number format is declared for an operand of {user.target} at "
            f"{location_of_trace(user.stack_trace)}; allowed are operators of mase_hw.ops"
        )
    return [name for name, item in tensor_arguments(user) if item is marker]
