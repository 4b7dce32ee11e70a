"""Results of a model in plain containers: what torch does not know as one becomes a dict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import SymBool, SymFloat, SymInt, Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map

from mase_hw.importers.brevitas import without_scales

_MAX_DEPTH = 8
# What is left as it is, whatever it is made of.
_WHOLE = (Tensor, SymBool, SymFloat, SymInt, nn.Module, type)


def plain(outputs: object) -> Any:
    """Return a model's outputs with dicts in the place of objects that hold tensors.

    A cache of keys and values, for example, becomes `{"layers": [{"keys": ..., "values": ...}]}`.
    What holds no tensor stays as it is.
    """
    return tree_map(lambda leaf: _opened(leaf, _MAX_DEPTH), without_scales(outputs))


def _opened(leaf: object, depth: int) -> object:
    """Return the attributes of an object that hold tensors, None among them left out."""
    if isinstance(leaf, _WHOLE) or not hasattr(leaf, "__dict__") or not depth:
        return leaf
    found = {}
    for name, value in vars(leaf).items():
        opened = tree_map(lambda item: _opened(item, depth - 1), value)
        held = [item for item in tree_leaves(opened) if isinstance(item, Tensor)]
        if held and isinstance(opened, Tensor | Mapping | list | tuple):
            found[name] = opened
    return found or leaf
