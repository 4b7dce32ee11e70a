"""What capture is given: a module with its tensors, and example inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.ao.nn.quantized import FloatFunctional, FXFloatFunctional
from torch.utils._pytree import tree_leaves, tree_map

from mase_hw._kinds import Argument, Record
from mase_hw.errors import CaptureError
from mase_hw.graph._dense import check_dense
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.untrusted import is_path
from mase_hw.importers.torch_ao import is_converted

Arguments = tuple[tuple[Argument, ...], Record]
# Modules that torch.export cannot look into, and what to give instead.
_OPAQUE = {
    torch.jit.ScriptModule: "give the module that it was compiled from",
    nn.DataParallel: "give its `module`",
}


def arguments(model: object, example_inputs: object) -> Arguments:
    """Return example inputs as positional and keyword arguments, checked.

    Raises:
        CaptureError: for a model or inputs that are not of the kind that capture takes.
    """
    _check_model(model)
    args: tuple[Argument, ...] = ()
    kwargs: Record = {}
    if isinstance(example_inputs, Mapping):
        kwargs = {str(key): value for key, value in example_inputs.items() if value is not None}
    elif isinstance(example_inputs, Sequence) and not isinstance(example_inputs, str):
        args = tuple(example_inputs)
    else:
        args = (example_inputs,)
    leaves = tree_leaves((args, kwargs))
    if not leaves:
        raise CaptureError("example inputs are empty; give at least one tensor")
    for leaf in leaves:
        _check_input(leaf)
    return _distinct(args, kwargs)


def _check_model(model: object) -> None:
    if isinstance(model, MaseGraph):
        raise CaptureError(f"{model.name} is a captured graph already; call it, or quantize it")
    if not isinstance(model, nn.Module):
        raise CaptureError(f"a model is a torch.nn.Module, not {type(model).__name__}")
    for path, module in model.named_modules():
        where = f"{path} of the model" if path else "the model"
        for kind, fix in _OPAQUE.items():
            if isinstance(module, kind):
                raise CaptureError(f"{where} is a {kind.__name__}, which is not captured: {fix}")
        whole = type(module).__module__.startswith("torch.ao.nn.quantized.modules")
        whole = whole and not isinstance(module, FloatFunctional | FXFloatFunctional)
        if whole and not is_converted(module):
            raise CaptureError(
                f"{where} is a {type(module).__name__} of torch's integers: give the model before "
                "it was converted, and number formats to quantize"
            )
    for path, tensor in (*model.named_parameters(), *model.named_buffers()):
        if not is_path(path):
            raise CaptureError(
                f"{path!r} of the model: names of modules, parameters and buffers are printable, "
                "without quotation marks and backslashes, and do not begin with two underscores"
            )
        check_dense(tensor, f"{path} of the model")


def _check_input(leaf: object) -> None:
    if not isinstance(leaf, Tensor):
        raise CaptureError(
            f"example inputs hold a {type(leaf).__name__} ({leaf!r:.60}); allowed are tensors, "
            "a tuple or list of tensors, or a dict of tensors by argument name"
        )
    check_dense(leaf, "an example input")
    if leaf.is_complex():
        raise CaptureError("an example input is complex; only dense real tensors are accepted")
    if not leaf.numel():
        raise CaptureError(
            f"an example input of shape {list(leaf.shape)} holds no element; "
            "give at least one inference"
        )


def _distinct(args: tuple[object, ...], kwargs: dict[str, object]) -> Arguments:
    """Return arguments of which no two are one tensor: export would take them for one input."""
    seen: set[int] = set()

    def other(leaf: Tensor) -> Tensor:
        kept = id(leaf) not in seen
        seen.add(id(leaf))
        return leaf if kept else leaf.clone()

    distinct: Arguments = tree_map(other, (args, kwargs))
    return distinct
