"""`add_software_metadata_analysis_pass`: the values that every tensor takes on data."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Protocol, TypeVar

from torch import Tensor
from torch.fx import Node
from torch.utils._pytree import tree_leaves

from mase_hw.errors import ConfigError, DataError
from mase_hw.graph import MaseGraph, SoftwareMetadata, ValueRange, update
from mase_hw.graph.calls import constant_value
from mase_hw.graph.captured import batch_size
from mase_hw.graph.nodes import tensor_arguments
from mase_hw.graph.shapes import run_with
from mase_hw.passes._pass import Result, graph_pass


@dataclass
class _Observed:
    """Running extremes of the finite values and counts of one tensor."""

    minimum: float = float("inf")
    maximum: float = float("-inf")
    zeros: int = 0
    elements: int = 0

    def add(self, values: Tensor) -> None:
        if not values.numel():
            return
        self.zeros += int((values == 0).sum())
        self.elements += values.numel()
        low, high = float(values.min()), float(values.max())
        if not (isfinite(low) and isfinite(high)):
            finite = values[values.isfinite()]
            if not finite.numel():
                return
            low, high = float(finite.min()), float(finite.max())
        self.minimum, self.maximum = min(self.minimum, low), max(self.maximum, high)

    def add_all(self, values: Tensor) -> None:
        """Add values that have to be finite: others make an extreme that is not."""
        self.add(values)
        if not bool(values.isfinite().all()):
            self.minimum, self.maximum = float("-inf"), float("inf")

    def range(self) -> ValueRange:
        return ValueRange(self.minimum, self.maximum, self.zeros / self.elements)


class _Observing(Protocol):
    def add(self, values: Tensor) -> None: ...


Tensors = TypeVar("Tensors", bound=_Observing)


@graph_pass
def add_software_metadata_analysis_pass(
    mg: MaseGraph, *, data: Iterable[object] | None = None
) -> Result:
    """Run the float model and note minimum, maximum and sparsity of every operand and result.

    Complex and empty tensors have no range. What a node computes may hold infinities and NaN, as
    functions do at their poles and outside their domains: ranges are those of the finite values.
    The range of an input that holds such, or of a tensor that holds nothing else, is not finite.
    The batches of a graph that keeps a state are inferences one after another, from reset on.

    Args:
        mg: the graph.
        data: batches, each a tensor, a tuple whose first members are the inputs, or a dict by input
            name; the example inputs when not given.

    Returns:
        The graph, and `{"batches": number of batches seen}`, without empty ones.

    Raises:
        ConfigError: when there is no batch, or one that does not hold the inputs.
        DataError: for inputs of another shape or kind, without elements, or with NaN.
    """
    observed: dict[Node, dict[str, _Observed]] = defaultdict(lambda: defaultdict(_Observed))

    def observe(node: Node, value: object) -> None:
        for index, item in enumerate(value if isinstance(value, list | tuple) else [value]):
            if node.op != "output" and isinstance(item, Tensor) and not item.is_complex():
                seen = observed[node][f"data_out_{index}"]
                (seen.add_all if node.op == "placeholder" else seen.add)(item)

    batches, examples = run_batches(mg, [mg.example_inputs] if data is None else data, observe)
    if batches == 0:
        raise ConfigError(
            "data holds no batches with an example; give at least one. A generator that was run "
            "before gives no more: a list or a loader does"
        )
    for order, node in enumerate(mg.nodes):
        operands = tensors_of(mg, node, lambda item: observed[item]["data_out_0"], _Observed)
        tensors = {**operands, **observed[node]}
        ranges = {name: item.range() for name, item in tensors.items() if item.elements}
        update(node, software=SoftwareMetadata(ranges, order, examples))
    return mg, {"batches": batches}


def run_batches(
    mg: MaseGraph, data: Iterable[object], visit: Callable[[Node, object], None]
) -> tuple[int, int]:
    """Run the float model on batches, empty ones left out; count them and their examples."""
    batches = examples = 0
    states: dict[str, Tensor] = {}
    for batch in batches_of(data):
        inputs = batch_inputs(mg, batch)
        if all(value.numel() for value in inputs):
            run_with(mg, inputs, visit, states)
            batches += 1
            examples += (batch_size(inputs) or 1) if mg.batched else 1
    return batches, examples


def batches_of(data: object) -> Iterable[object]:
    """Return batches of data.

    Raises:
        ConfigError: for what is a batch itself, or cannot be iterated over.
    """
    if isinstance(data, Tensor | Mapping) or not isinstance(data, Iterable):
        raise ConfigError(
            f"data is of type {type(data).__name__}; allowed: batches, one after the other, as the "
            "list [batch] or a loader"
        )
    return data


def batch_inputs(mg: MaseGraph, batch: object) -> list[Tensor]:
    """Return the graph's inputs out of one batch of data, in order, with the batch first.

    Raises:
        ConfigError: when the batch holds fewer tensors than the graph has inputs.
        DataError: for an input of another shape or kind than the captured one, or with NaN.
    """
    names = [str(node.target) for node in mg.inputs]
    if isinstance(batch, Mapping) and all(name in batch for name in names):
        tensors = [batch[name] for name in names]
    else:
        tensors = [leaf for leaf in tree_leaves(batch) if isinstance(leaf, Tensor)]
        if len(tensors) < len(names) or isinstance(batch, Mapping):
            raise ConfigError(
                f"a batch of data does not hold the inputs of {mg.name} as tensors: "
                f"{', '.join(names)}; it is of type {type(batch).__name__}"
            )
    tensors = tensors[: len(names)]
    if all(isinstance(item, Tensor) for item in tensors):
        tensors, _ = mg.lengths.padded(names, tensors)
    for number, value in enumerate(tensors):
        _check_input(mg, number, value)
    return mg.batch_dims.inside(tensors)


def _check_input(mg: MaseGraph, number: int, value: object) -> None:
    name, captured = str(mg.inputs[number].target), mg.example_inputs[number]
    if not isinstance(value, Tensor):
        raise DataError(f"data for {name} is of type {type(value).__name__}; allowed: tensors")
    sizes: list[object] = list(captured.shape)
    if mg.batched and sizes:
        dim = mg.batch_dims.of_input(number)
        sizes[dim] = value.shape[dim] if dim < value.dim() else -1
    if list(value.shape) != sizes:
        if mg.batched and sizes:
            sizes[dim] = "N"
        raise DataError(
            f"data for {name} has the shape {tuple(value.shape)}; {mg.name} takes "
            f"({', '.join(map(str, sizes))})"
        )
    real = value.is_floating_point()
    if value.dtype != captured.dtype and (real or captured.is_floating_point()):
        raise DataError(f"data for {name} is {value.dtype}; {mg.name} takes {captured.dtype}")
    if real and bool(value.isnan().any()):
        where = tuple(value.isnan().nonzero()[0].tolist())
        raise DataError(f"data for {name} holds NaN, first at {where}; give finite numbers")


def tensors_of(
    mg: MaseGraph, node: Node, result_of: Callable[[Node], Tensors | None], kind: type[Tensors]
) -> dict[str, Tensors]:
    """What was observed of a node's operands, constants among them, by name.

    Args:
        mg: the graph.
        node: one of its nodes.
        result_of: what was observed of the first result of a node.
        kind: observes a constant.
    """
    observed: dict[str, Tensors] = {}
    for name, value in tensor_arguments(node) if node.op == "call_function" else ():
        constant = constant_value(mg.model, value)
        result = result_of(value) if isinstance(value, Node) else None
        if constant is not None:
            observed[name] = kind()
            observed[name].add(constant)
        elif result is not None:
            observed[name] = result
    return observed
