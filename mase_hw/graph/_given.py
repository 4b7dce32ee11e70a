"""What capture is given: a module with its tensors, and example inputs.

Where the batch of example inputs may be, and whether a model computes its rows by themselves.

The leading dimension is tried first, by capturing the model so. Else the model itself is run: its
result for one row must be a row of its result for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import SymBool, SymFloat, SymInt, Tensor, nn
from torch.ao.nn.quantized import FloatFunctional, FXFloatFunctional
from torch.utils._pytree import tree_leaves, tree_map

from mase_hw._kinds import Argument, Record
from mase_hw.errors import CaptureError
from mase_hw.graph._dense import check_dense
from mase_hw.graph.exported import tensors_of
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.untrusted import is_path
from mase_hw.importers.brevitas import without_scales
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


Dims = tuple[int | None, ...]
_TOLERANCE = 1e-4


def leading(leaves: Sequence[Tensor], size: int) -> Dims:
    """Return the first dimension of each input that has as many rows."""
    return tuple(0 if leaf.dim() and leaf.shape[0] == size else None for leaf in leaves)


def other_guesses(
    leaves: Sequence[Tensor], run: Callable[[Sequence[Tensor]], object]
) -> Iterator[Dims]:
    """Yield further guesses, with the batch in the second dimension of one input at least.

    Args:
        leaves: the example inputs.
        run: returns the model's outputs for such inputs.
    """
    seen = set()
    for size in dict.fromkeys(size for leaf in leaves for size in leaf.shape[:2]):
        for order in ((0, 1), (1, 0)):
            dims = tuple(_dim(leaf, size, order) for leaf in leaves)
            if 1 in dims and dims not in seen and is_batch(leaves, dims, run):
                yield dims
            seen.add(dims)


def _dim(leaf: Tensor, size: int, order: Sequence[int]) -> int | None:
    """Return the first of two dimensions that has a size, of a sequence, an image or indices."""
    ordered = leaf.dim() > 2 or (leaf.dim() == 2 and not leaf.is_floating_point())
    legal = [dim for dim in order if dim < leaf.dim() and (dim == 0 or ordered)]
    return next((dim for dim in legal if leaf.shape[dim] == size), None)


def is_batch(
    leaves: Sequence[Tensor], dims: Dims, run: Callable[[Sequence[Tensor]], object]
) -> bool:
    """True if each row of random inputs gives a row of what all of them give."""
    generator = torch.Generator().manual_seed(0)
    random_rows = [_rows(leaf, dim, generator) for leaf, dim in zip(leaves, dims, strict=True)]
    try:
        together = tensors_of(run(random_rows))
        return all(
            _has_row(together, tensors_of(run(_row(random_rows, dims, row))), row)
            for row in range(_ROWS)
        )
    except Exception:
        # It does not run on another number of rows, or on other numbers.
        return False


_ROWS = 3


def _rows(leaf: Tensor, dim: int | None, generator: torch.Generator) -> Tensor:
    if dim is None:
        return leaf
    rows = leaf.index_select(dim, torch.arange(_ROWS) % leaf.shape[dim])
    if not leaf.is_floating_point():
        return rows
    return torch.randn(rows.shape, generator=generator).to(leaf)


def _row(leaves: Sequence[Tensor], dims: Dims, row: int) -> list[Tensor]:
    return [
        leaf if dim is None else leaf.narrow(dim, row, 1)
        for leaf, dim in zip(leaves, dims, strict=True)
    ]


def _has_row(together: Sequence[Tensor], alone: Sequence[Tensor], row: int) -> bool:
    """True if results of one row are a row of all results, in the one dimension that it is.

    Something must depend on the rows.
    """
    counted = [_counted(every, one) for every, one in zip(together, alone, strict=True)]
    return any(dim is not None for dim in counted) and all(
        every.shape == one.shape
        if dim is None
        else torch.allclose(
            every.narrow(dim, row, 1).double(), one.double(), _TOLERANCE, _TOLERANCE, equal_nan=True
        )
        for every, one, dim in zip(together, alone, counted, strict=True)
    )


def _counted(every: Tensor, one: Tensor) -> int | None:
    if every.dim() != one.dim():
        return None
    differs = [dim for dim in range(one.dim()) if every.shape[dim] != one.shape[dim]]
    return differs[0] if len(differs) == 1 and every.shape[differs[0]] == _ROWS else None


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
