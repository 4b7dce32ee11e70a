"""Capture: from a `torch.nn.Module` and example inputs to a `MaseGraph`."""

from __future__ import annotations

import contextlib
import functools
import inspect
import io
import logging
import os
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, ShapesCollection
from torch.utils._pytree import TreeSpec, tree_flatten, tree_leaves, tree_map, tree_unflatten

from mase_hw._collection import uncollected
from mase_hw._kinds import Record
from mase_hw._logs import at_level
from mase_hw._stages import stage
from mase_hw.errors import CaptureError, UnitError
from mase_hw.graph._dense import check_dense
from mase_hw.graph._fixed_rows import FixedRows
from mase_hw.graph._given import Dims, arguments, is_batch, leading, other_guesses, plain
from mase_hw.graph._modules import (
    as_written,
    batch_first_attention,
    row_by_row,
    unrolled_recurrence,
)
from mase_hw.graph.captured import batch_size
from mase_hw.graph.declared import capturing
from mase_hw.graph.exported import drawing, from_exported, outputs_agree
from mase_hw.graph.lengths import Lengths, find_lengths
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.onnx_file import name_places, open_onnx
from mase_hw.graph.source import location_of_error, naming_units
from mase_hw.importers.brevitas import Found, as_observed, observed
from mase_hw.importers.peft import merged
from mase_hw.importers.torch_ao import reals_of_integers
from mase_hw.importers.torchao import plain_weights
from mase_hw.ops.infrastructure.fake_quantize import QUOTIENTS, dividing

_logger = logging.getLogger(__name__)
# What torch.export returns beside tensors.
_RESULTS = (type(None), bool, int, float, complex, str, torch.dtype, torch.device, torch.layout)
# What to write in place of functions of torch that torch.export refuses.
_CURES = {
    "one_hot": "give it num_classes",
    "lstsq": "write torch.linalg.solve(a.mT @ a, a.mT @ b), for more equations than unknowns",
}
_CAPTURE_BATCH = 2  # torch.export specialises sizes of 0 and 1


def trace(
    model: nn.Module | str | os.PathLike[str],
    example_inputs: object = None,
    *,
    name: str | None = None,
    batched: bool | None = None,
) -> MaseGraph:
    """Capture `model`, in evaluation mode, as a graph of ATen operators.

    The model is left as it was. Where a dimension of the inputs counts independent inferences
    (which is tried on random data), it becomes dynamic: the graph takes any batch. That is the
    leading one, or the second one, as of recurrent layers that take time first and of their states.
    Sequences of numbers may be shorter than the examples where what pads them is not seen.

    Args:
        model: any module that `torch.export` can capture, or the path of an ONNX file.
        example_inputs: a tensor, a tuple or list of positional arguments, or a dict of keyword
            arguments; random ones for an ONNX file that says the sizes of its inputs.
        name: name of the design; the model's class in lower case, or the file's name, when not
            given.
        batched: true to insist on a dynamic batch, false to capture the shapes as given.

    Raises:
        CaptureError: when the model cannot be captured; the message gives the user's line.
    """
    if isinstance(model, str | os.PathLike):
        module, inputs = open_onnx(model, example_inputs)
        opened = trace(module, inputs, name=name or Path(model).stem, batched=batched)
        name_places(opened, module, model)
        return opened
    with plain_weights(model):
        return _traced(model, example_inputs, name, batched)


def _traced(
    model: nn.Module, example_inputs: object, name: str | None, batched: bool | None
) -> MaseGraph:
    args, kwargs = arguments(model, example_inputs)
    stage("capturing")
    title = name or type(model).__name__.lower()
    with _evaluation(model):
        with observed(model) as levels:
            expected = _run(model, args, kwargs)
        with merged(model), reals_of_integers(model):
            graph = _captured(model, args, kwargs, title, batched, levels)
    leaves = [leaf for leaf in tree_leaves((args, kwargs)) if leaf is not None]
    graph.example_inputs = _ordered(graph, args, kwargs) or tuple(leaves)
    with torch.no_grad():
        # Where numbers lie on ties, others' arithmetic decides.
        for quotients in QUOTIENTS:
            with dividing(quotients):
                agree = outputs_agree(graph(*graph.example_inputs), expected)
            graph.reset()
            if agree:
                break
        else:
            causes = ", ".join(drawing(graph)) or (
                "random numbers, or state that changes: take it as an input and return the next one"
            )
            raise CaptureError(
                f"the captured graph of {title} computes other values than the model: its forward "
                f"is not a function of its inputs alone ({causes})"
            )
    if graph.batched and not graph.batch_dims and not graph.keeps_state:
        graph.lengths = _lengths(graph, model, args, kwargs)
    return graph


def _captured(
    model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], title: str,
    batched: bool | None, levels: Found,
) -> MaseGraph:  # fmt: skip
    """Return the graph; layers of Brevitas give each other values alone, if they can."""
    reason: CaptureError | None = None
    for bare in (True, False) if levels else (False,):
        try:
            with as_observed(model, levels, plain=bare):
                graph = None if batched is False else _dynamic(model, args, kwargs, title, batched)
                if graph is not None:
                    return graph
                return from_exported(_export(model, args, kwargs, None), title, batched=False)
        except CaptureError as error:
            reason = reason or error
    assert reason is not None
    raise reason


def _lengths(
    graph: MaseGraph, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Lengths:
    names = [str(node.target) for node in graph.inputs]
    inputs = dict(zip(names, graph.example_inputs, strict=True))
    places = {id(value): name for name, value in inputs.items()}

    def run(given: Mapping[str, Tensor]) -> Any:
        known: Any = tree_map(lambda leaf: given[places[id(leaf)]], (args, kwargs))
        with _evaluation(model):
            return _run(model, *known)

    padding = getattr(getattr(model, "config", None), "pad_token_id", None)
    return find_lengths(inputs, graph, run, padding if isinstance(padding, int) else 0)


@contextlib.contextmanager
def _evaluation(model: nn.Module) -> Iterator[None]:
    """Put the model into evaluation mode without gradients, and restore every module's mode."""
    modes = {module: module.training for module in model.modules()}
    try:
        _evaluate(model)
        with torch.no_grad():
            yield
    finally:
        for module, training in modes.items():
            module.training = training


def _evaluate(model: nn.Module) -> None:
    try:
        model.eval()
    except NotImplementedError:
        # A module that torch.export made has the mode it was exported in, and refuses another.
        for module in model.modules():
            module.training = False


def _run(model: nn.Module, args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    copies: Any = tree_map(torch.clone, (args, kwargs))
    try:
        with as_written(), naming_units():
            outputs = plain(torch.func.functional_call(model, buffers, *copies))
    except UnitError:
        raise
    except (Exception, SystemExit) as error:
        given = ", ".join(
            f"{str(leaf.dtype).removeprefix('torch.')}{list(leaf.shape)}"
            for leaf in tree_leaves((args, kwargs))
        )
        raise CaptureError(
            f"the model does not run on the example inputs ({given}): {first_line(error)}"
            f"{_at(error)}; give inputs of the shapes and dtypes it takes"
        ) from error
    for leaf in tree_leaves(outputs):
        if isinstance(leaf, Tensor):
            check_dense(leaf, "a result of the model")
        elif not isinstance(leaf, _RESULTS):
            raise CaptureError(
                f"the model returns an object of the class {type(leaf).__name__}; allowed are "
                "tensors, and tuples, lists and dicts of them"
            )
    return outputs


def _dynamic(
    model: nn.Module, args: tuple[object, ...], kwargs: dict[str, object], name: str,
    batched: bool | None,
) -> MaseGraph | None:  # fmt: skip
    leaves, structure = tree_flatten((args, kwargs))
    reason = "no input has a batch dimension: two dimensions at least"
    rows = FixedRows(model, batch_size(leaves) or 0)

    def attempts() -> Iterator[Dims]:
        tried = []
        for dims in _guesses(model, leaves, structure):
            tried.append(dims)
            yield dims
        rows.replaces = rows.seen
        yield from tried if rows.seen else ()

    for dims in attempts():
        try:
            graph = _with_batch(model, leaves, structure, dims, name, rows)
        except (CaptureError, UnitError) as error:
            # A fault of an operator that is no matter of the batch shows at its fixed size, too.
            reason = str(error)
            continue
        if graph.batched and not (
            rows.replaces and _differs_with_more_rows(model, leaves, structure, dims, graph)
        ):
            return graph
        reason = "its code fixes the batch, or the rows of a batch depend on each other"
    if batched:
        raise CaptureError(f"{name} has no dynamic batch: {reason}")
    _logger.debug("%s is captured at the shape of its example inputs: %s", name, reason)
    return None


def _differs_with_more_rows(
    model: nn.Module, leaves: list[Tensor], structure: TreeSpec, dims: Dims, graph: MaseGraph
) -> bool:
    """True where the model takes twice the rows and computes something else than the graph.

    Then a number in its code that equals the rows of the example is not their number.
    """
    more = [
        leaf if dim is None else torch.cat([leaf, leaf], dim)
        for leaf, dim in zip(leaves, dims, strict=True)
    ]
    args, kwargs = tree_unflatten(more, structure)
    try:
        expected = _run(model, args, kwargs)
    except CaptureError:
        return False
    results = graph(*(_ordered(graph, args, kwargs) or more))
    graph.reset()
    return not outputs_agree(results, expected)


def _guesses(model: nn.Module, leaves: list[Tensor], structure: TreeSpec) -> Iterator[Dims]:
    def run(inputs: Sequence[Tensor]) -> Any:
        return _run(model, *tree_unflatten(inputs, structure))

    size = batch_size(leaves)
    if size is not None:
        first = leading(leaves, size)
        yield first
        # Where its rows compute by themselves it is the batch, whatever keeps its size fixed.
        if not is_batch(leaves, first, run):
            yield from other_guesses(leaves, run)


def _with_batch(
    model: nn.Module, leaves: list[Tensor], structure: TreeSpec, dims: Dims, name: str,
    rows: FixedRows,
) -> MaseGraph:  # fmt: skip
    widened = [_widen(leaf, dim) for leaf, dim in zip(leaves, dims, strict=True)]
    shapes: Any = ShapesCollection()  # type: ignore[no-untyped-call]
    for leaf, dim in zip(widened, dims, strict=True):
        if dim is not None:
            shapes[leaf] = {dim: Dim.AUTO}
    args, kwargs = tree_unflatten(widened, structure)
    return from_exported(_export(model, args, kwargs, shapes, rows), name, batched=True)


def _widen(leaf: Tensor, dim: int | None) -> Tensor:
    """Return a tensor of its own memory, with at least two inferences."""
    if dim is not None and leaf.shape[dim] == 1:
        sizes = [_CAPTURE_BATCH if place == dim else -1 for place in range(leaf.dim())]
        leaf = leaf.expand(sizes)
    return leaf.detach().clone(memory_format=torch.contiguous_format)


def _export(
    model: nn.Module, args: tuple[Any, ...], kwargs: Record, shapes: Any,
    rows: FixedRows | None = None,
) -> ExportedProgram:  # fmt: skip
    try:
        exportable = (_exportable(model, kwargs, rows), _unguarded(model))
        layers = (as_written(), batch_first_attention(), unrolled_recurrence())
        with contextlib.ExitStack() as stack:
            for item in (quiet(), uncollected(), capturing(), *layers, row_by_row(), *exportable):
                stack.enter_context(item)
            stack.enter_context(naming_units())
            return torch.export.export(model, args, kwargs, dynamic_shapes=shapes, strict=False)
    except UnitError:
        raise
    except (Exception, SystemExit) as error:
        raise CaptureError(_refusal(error)) from error


@contextlib.contextmanager
def _exportable(model: nn.Module, kwargs: Record, rows: FixedRows | None) -> Iterator[None]:
    """Show torch.export a `forward` whose arguments have names and whose results it knows."""
    forward = model.forward

    @functools.wraps(forward)
    def known(*args: object, **kwargs: object) -> Any:
        with contextlib.nullcontext() if rows is None else rows.reading((args, kwargs)):
            return plain(forward(*args, **kwargs))

    known.__signature__ = _named(inspect.signature(forward), kwargs)  # type: ignore[attr-defined]
    with patch.dict(model.__dict__, {"forward": known}):
        yield


@contextlib.contextmanager
def _unguarded(model: nn.Module) -> Iterator[None]:
    """Let modules that torch.export made take another batch than the one of their capture."""
    with contextlib.ExitStack() as stack:
        for module in model.modules():
            if hasattr(module, "_guards_fn"):
                nothing = {"forward": lambda *args: None}
                stack.enter_context(patch.dict(module._guards_fn.__dict__, nothing))
        yield


def _named(signature: inspect.Signature, kwargs: Mapping[str, object]) -> inspect.Signature:
    """Return a signature with a name for each argument that is taken as `**kwargs`.

    Of an argument without a name torch.export cannot say that its batch is dynamic.
    """
    kinds = inspect.Parameter
    extra = [name for name in kwargs if name not in signature.parameters]
    listed = [item for item in signature.parameters.values() if item.kind is not kinds.VAR_KEYWORD]
    if not extra or len(listed) == len(signature.parameters):
        return signature
    listed += [kinds(name, kinds.KEYWORD_ONLY) for name in extra]
    return signature.replace(parameters=listed)


def _refusal(error: BaseException) -> str:
    text, where = str(error), _at(error)
    for name, cure in _CURES.items():
        if name in where or name in text:
            return f"{name} has results whose size depends on the data{where}; {cure}"
    if "data-dependent" in text or "Dynamic control flow" in text:
        return (
            f"control flow depends on a tensor's values{where}; "
            "allowed is control flow on shapes and constants; torch.where selects by value"
        )
    return f"torch.export refused the model: {first_line(error)}{_at(error)}"


def _at(error: BaseException) -> str:
    """Return the user's line that raised an error, to be appended; nothing when it is unknown."""
    where = location_of_error(error)
    return f" (at {where})" if where.file else ""


def first_line(error: BaseException) -> str:
    """Return the first line of an error that says something."""
    if isinstance(error, SystemExit):
        return "it ends the program"
    for line in str(error).splitlines():
        stripped = re.sub(r"\s+", " ", line).strip()
        if stripped:
            return stripped if " " in stripped else f"{type(error).__name__}: {stripped}"
    return type(error).__name__


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep torch's own diagnostics away from the user: what matters is in the error."""
    names = "torch", "torch.fx", "torch.export", "torch._export"
    silent = at_level(logging.CRITICAL, *names)
    with silent, warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        yield


def _ordered(
    graph: MaseGraph, args: tuple[object, ...], kwargs: dict[str, object]
) -> tuple[Tensor, ...] | None:
    """Return keyword inputs in the order of the graph's inputs; None when all are positional."""
    if not kwargs or not all(isinstance(value, Tensor) for value in kwargs.values()):
        return None
    names = [str(node.target) for node in graph.inputs]
    positional = [leaf for leaf in tree_leaves(args) if leaf is not None]
    return (*positional, *(kwargs[name] for name in names[len(positional) :]))
