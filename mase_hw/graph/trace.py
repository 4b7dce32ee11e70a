"""Capture: from a `torch.nn.Module` and example inputs to a `MaseGraph`."""

from __future__ import annotations

import contextlib
import functools
import gc
import inspect
import io
import logging
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, ShapesCollection
from torch.utils._pytree import tree_leaves, tree_map

from mase_hw._stages import stage
from mase_hw.errors import CaptureError
from mase_hw.graph._attention import as_written, batch_first_attention
from mase_hw.graph._bags import rows_of_bags
from mase_hw.graph._drawn import shared_windows
from mase_hw.graph._randomness import drawing
from mase_hw.graph._recurrent import unrolled_recurrence
from mase_hw.graph.declared import capturing
from mase_hw.graph.exported import from_exported, outputs_agree
from mase_hw.graph.mase_graph import MaseGraph, batch_size
from mase_hw.graph.plain import plain
from mase_hw.graph.source import location_of_error
from mase_hw.graph.untrusted import is_path

_logger = logging.getLogger(__name__)
_CAPTURE_BATCH = 2  # torch.export specialises sizes of 0 and 1


def trace(
    model: nn.Module,
    example_inputs: Any,
    *,
    name: str | None = None,
    batched: bool | None = None,
) -> MaseGraph:
    """Capture `model`, in evaluation mode, as a graph of ATen operators.

    The model is left as it was. Where the leading dimension of the inputs counts independent
    inferences (which is tried on random data), it becomes dynamic: the graph takes any batch.

    Args:
        model: any module that `torch.export` can capture.
        example_inputs: a tensor, a tuple or list of positional arguments, or a dict of keyword
            arguments.
        name: name of the design; the model's class in lower case when not given.
        batched: true to insist on a dynamic batch, false to capture the shapes as given.

    Raises:
        CaptureError: when the model cannot be captured; the message gives the user's line.
    """
    args, kwargs = _arguments(model, example_inputs)
    stage("capturing")
    title = name or type(model).__name__.lower()
    with _evaluation(model):
        expected = _run(model, args, kwargs)
        graph = None if batched is False else _dynamic(model, args, kwargs, title, batched)
        if graph is None:
            graph = from_exported(_export(model, args, kwargs, None), title, batched=False)
    leaves = [leaf for leaf in tree_leaves((args, kwargs)) if leaf is not None]
    graph.example_inputs = _ordered(graph, args, kwargs) or tuple(leaves)
    with torch.no_grad():
        agree = outputs_agree(graph(*graph.example_inputs), expected)
        graph.reset()
        if not agree:
            causes = ", ".join(drawing(graph)) or "random numbers, or state that changes"
            raise CaptureError(
                f"the captured graph of {title} computes other values than the model: its forward "
                f"is not a function of its inputs alone ({causes})"
            )
    return graph


def check_finite(mg: MaseGraph) -> None:
    """Raise unless every parameter and buffer is finite.

    Raises:
        CaptureError: naming the first tensor, index and value that is not.
    """
    for node in mg.nodes:
        if node.op != "get_attr":
            continue
        value = mg.constant(node)
        if value.is_floating_point() and not bool(value.isfinite().all()):
            index = (~value.isfinite()).nonzero()[0].tolist()
            raise CaptureError(
                f"{node.target}{index} of {mg.name} is {value[tuple(index)].item()}; "
                "weights must be finite numbers"
            )


def _arguments(model: Any, example_inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(model, MaseGraph):
        raise CaptureError(f"{model.name} is a captured graph already; call it, or quantize it")
    if not isinstance(model, nn.Module):
        raise CaptureError(f"a model is a torch.nn.Module, not {type(model).__name__}")
    for path, _ in (*model.named_parameters(), *model.named_buffers()):
        if not is_path(path):
            raise CaptureError(
                f"{path!r} of the model: names of modules, parameters and buffers are printable, "
                "without quotation marks and backslashes, and do not begin with two underscores"
            )
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}
    if isinstance(example_inputs, Mapping):
        kwargs = {str(key): value for key, value in example_inputs.items() if value is not None}
    elif isinstance(example_inputs, Tensor):
        args = (example_inputs,)
    elif isinstance(example_inputs, Sequence) and not isinstance(example_inputs, str):
        args = tuple(example_inputs)
    else:
        args = (example_inputs,)
    leaves = tree_leaves((args, kwargs))
    if not leaves:
        raise CaptureError("example inputs are empty; give at least one tensor")
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            raise CaptureError(
                f"example inputs hold a {type(leaf).__name__} ({leaf!r:.60}); allowed are tensors, "
                "a tuple or list of tensors, or a dict of tensors by argument name"
            )
        if leaf.layout is not torch.strided or leaf.is_complex():
            kind = "complex" if leaf.is_complex() else str(leaf.layout).removeprefix("torch.")
            raise CaptureError(f"an example input is {kind}; only dense real tensors are taken")
        if not leaf.numel():
            raise CaptureError(
                f"an example input of shape {list(leaf.shape)} holds no element; "
                "give at least one inference"
            )
    return _distinct(args, kwargs)


def _distinct(
    args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return arguments of which no two are one tensor: export would take them for one input."""
    seen: set[int] = set()

    def other(leaf: Tensor) -> Tensor:
        kept = id(leaf) not in seen
        seen.add(id(leaf))
        return leaf if kept else leaf.clone()

    found: tuple[tuple[Any, ...], dict[str, Any]] = tree_map(other, (args, kwargs))
    return found


@contextlib.contextmanager
def _evaluation(model: nn.Module) -> Iterator[None]:
    """Put the model into evaluation mode without gradients, and restore every module's mode."""
    modes = {module: module.training for module in model.modules()}
    try:
        model.eval()
        with torch.no_grad():
            yield
    finally:
        for module, training in modes.items():
            module.training = training


def _run(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the model's outputs on copies of its buffers and inputs."""
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    copies: Any = tree_map(torch.clone, (args, kwargs))
    try:
        with as_written():
            return plain(torch.func.functional_call(model, buffers, *copies))
    except Exception as error:
        given = ", ".join(
            f"{str(leaf.dtype).removeprefix('torch.')}{list(leaf.shape)}"
            for leaf in tree_leaves((args, kwargs))
        )
        raise CaptureError(
            f"the model does not run on the example inputs ({given}): {first_line(error)}"
            f"{_at(error)}; give inputs of the shapes and dtypes it takes"
        ) from error


def _dynamic(
    model: nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    name: str,
    batched: bool | None,
) -> MaseGraph | None:
    """Return the graph with a dynamic batch, or None where the model does not allow one."""
    size = batch_size(tree_leaves((args, kwargs)))
    reason = "no input has a batch dimension: two dimensions at least"
    if size is not None:
        try:
            widened: Any = tree_map(lambda leaf: _widen(leaf, size), (args, kwargs))
            shapes: Any = ShapesCollection()  # type: ignore[no-untyped-call]
            for leaf in tree_leaves(widened):
                if leaf.dim() and leaf.shape[0] == max(size, _CAPTURE_BATCH):
                    shapes[leaf] = {0: Dim.AUTO}
            graph = from_exported(
                _export(model, widened[0], widened[1], shapes), name, batched=True
            )
        except CaptureError as error:
            reason = str(error)
        else:
            if graph.batched:
                return graph
            reason = "its code fixes the batch, or the rows of a batch depend on each other"
    if batched:
        raise CaptureError(f"{name} has no dynamic batch: {reason}")
    _logger.debug("%s is captured at the shape of its example inputs: %s", name, reason)
    return None


def _widen(leaf: Tensor, size: int) -> Tensor:
    """Return a tensor of its own memory, with at least two inferences."""
    if size == 1 and leaf.dim() and leaf.shape[0] == 1:
        leaf = leaf.expand(_CAPTURE_BATCH, *leaf.shape[1:])
    return leaf.detach().clone(memory_format=torch.contiguous_format)


def _export(
    model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], shapes: Any
) -> ExportedProgram:
    try:
        exportable = _exportable(model, args, kwargs)
        layers = (as_written(), batch_first_attention(), unrolled_recurrence())
        calls = (shared_windows(), rows_of_bags())
        with contextlib.ExitStack() as stack:
            for item in (quiet(), _uncollected(), capturing(), *layers, *calls, exportable):
                stack.enter_context(item)
            return torch.export.export(model, args, kwargs, dynamic_shapes=shapes, strict=False)
    except Exception as error:
        raise CaptureError(_refusal(error)) from error


@contextlib.contextmanager
def _exportable(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[None]:
    """Show torch.export a `forward` whose arguments have names and whose results it knows."""
    forward, own = model.forward, model.__dict__.get("forward")

    @functools.wraps(forward)
    def known(*args: Any, **kwargs: Any) -> Any:
        return plain(forward(*args, **kwargs))

    known.__signature__ = _named(inspect.signature(forward), kwargs)  # type: ignore[attr-defined]
    model.__dict__["forward"] = known
    try:
        yield
    finally:
        if own is None:
            del model.__dict__["forward"]
        else:
            model.__dict__["forward"] = own


def _named(signature: inspect.Signature, kwargs: Mapping[str, Any]) -> inspect.Signature:
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


def _refusal(error: Exception) -> str:
    text = str(error)
    if "data-dependent" in text or "Dynamic control flow" in text:
        return (
            f"control flow depends on a tensor's values{_at(error)}; "
            "allowed is control flow on shapes and constants; torch.where selects by value"
        )
    return f"torch.export refused the model: {first_line(error)}{_at(error)}"


def _at(error: BaseException) -> str:
    """Return the user's line that raised an error, to be appended; nothing when it is unknown."""
    where = location_of_error(error)
    return f" (at {where})" if where.file else ""


def first_line(error: BaseException) -> str:
    """Return the first line of an error that says something."""
    for line in str(error).splitlines():
        stripped = re.sub(r"\s+", " ", line).strip()
        if stripped:
            return stripped
    return type(error).__name__


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Hold the garbage collection, which walks all objects of torch and finds next to none to free.

    It takes a tenth of the time of a capture.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep torch's own diagnostics away from the user: what matters is in the error."""
    logger = logging.getLogger("torch")
    children = [logging.getLogger(name) for name in ("torch.fx", "torch.export", "torch._export")]
    levels = [(item, item.level) for item in (logger, *children)]
    try:
        for item, _ in levels:
            item.setLevel(logging.CRITICAL)
        with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        for item, level in levels:
            item.setLevel(level)


def _ordered(
    graph: MaseGraph, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Tensor, ...] | None:
    """Return keyword inputs in the order of the graph's inputs; None when all are positional."""
    if not kwargs or not all(isinstance(value, Tensor) for value in kwargs.values()):
        return None
    names = [str(node.target) for node in graph.inputs]
    positional = [leaf for leaf in tree_leaves(args) if leaf is not None]
    return (*positional, *(kwargs[name] for name in names[len(positional) :]))
