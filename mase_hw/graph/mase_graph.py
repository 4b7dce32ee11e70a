"""`MaseGraph`: a captured model that passes annotate and rewrite."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from rich.table import Table
from torch import Tensor
from torch.fx import GraphModule
from torch.utils._pytree import tree_leaves

from mase_hw._kinds import Setting
from mase_hw.errors import CaptureError, ConfigError, MaseError
from mase_hw.graph.batch_dims import FIRST, BatchDims
from mase_hw.graph.captured import CapturedGraph
from mase_hw.graph.draw import draw_graph
from mase_hw.graph.lengths import ONE_LENGTH, Lengths
from mase_hw.graph.masks import hold_masks
from mase_hw.graph.quantized import GraphRun
from mase_hw.graph.rebuild import rebuild, spread_out
from mase_hw.graph.serialize import from_bytes, load_graph, save_graph, to_bytes
from mase_hw.graph.state import KEY, state_of, take_state
from mase_hw.graph.table import graph_table, render
from mase_hw.ops import operator_for
from mase_hw.registry import nearest


@dataclass(frozen=True)
class _Trainable:
    """The answers of a quantised module that trains through its rounding."""

    is_trainable: bool = True
    is_qat_trainable: bool = True
    is_compileable: bool = True


@dataclass(frozen=True)
class _Bound:
    """The call of a graph; its signature is the graph's inputs, which trainers select data by."""

    graph: MaseGraph

    def __call__(self, *args: object, **kwargs: object) -> Any:
        return _forward(self.graph, *args, **kwargs)

    @property
    def __signature__(self) -> inspect.Signature:
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        names = [str(node.target) for node in self.graph.inputs]
        return inspect.Signature([inspect.Parameter(name, kind) for name in names])


class _Forward:
    def __get__(self, graph: MaseGraph | None, owner: type[MaseGraph]) -> Callable[..., Any]:
        return _forward if graph is None else _Bound(graph)


def _forward(graph: MaseGraph, *args: Any, labels: Any = None, **kwargs: Setting) -> Any:
    """Run a graph: tensors in the order of the inputs, or by their names.

    Returns:
        What the captured model returns, rounded where the graph has number formats.
    """
    named = {name: value for name, value in kwargs.items() if value is not None}
    if labels is not None:
        named["labels"] = labels
    plain = not (graph.training or graph.is_quantized or graph.keeps_state)
    if plain and not graph.batch_dims and not graph.lengths.size:
        return graph.model(*tree_leaves(args), **named)

    def run(inputs: list[Tensor]) -> Any:
        return graph.model(*inputs) if plain else GraphRun(graph, states=graph._states)(inputs)

    return graph.through(run, *tree_leaves(args), **named)


class MaseGraph(CapturedGraph):
    """A model as a graph of ATen operators, with its weights and what passes know of every node.

    It is a module: called, trained, moved to a device, saved. Parameters and buffers have the
    names of the captured model's. Once a pass has given it number formats, every operand and
    result is rounded to its format, with gradients straight through: calling the graph, its
    `state_dict`, which then has an entry `number_formats`, and a trainer mean the quantised model.
    It starts in evaluation mode; `train()` makes dropout drop and normalisation move its
    statistics, although the capture was in evaluation mode.

    Attributes:
        name: the model's name, a valid identifier.
        batched: true when a dimension of the inputs counts independent inferences and may have
            any size; false when the graph is one inference of exactly the captured shape.
        batch_dims: which dimension that is for callers; inside it is the first.
        example_inputs: tensors in the order of the graph's inputs, as a caller gives them.
        frozen: names of nodes and operators that `train()` leaves in evaluation mode.
        lengths: which sequences callers may give shorter than the captured ones.

    Raises:
        CaptureError: for a model that is not captured: `mase_hw.trace` does.

    Examples:
        >>> mg = trace(torch.nn.Linear(4, 2), torch.randn(1, 4))
        >>> [node.name for node in mg.nodes if node.op == "call_function"]
        ['linear']
    """

    def __init__(
        self, model: GraphModule, *, name: str = "model", batched: bool = False,
        example_inputs: Sequence[Tensor] = (), frozen: Collection[str] = (),
        hf_input_names: Sequence[str] | None = None, batch_dims: BatchDims = FIRST,
        lengths: Lengths = ONE_LENGTH,
    ) -> None:  # fmt: skip
        if not isinstance(model, GraphModule):
            raise CaptureError(_how_to_trace(model, hf_input_names))
        super().__init__(
            model,
            name=name,
            batched=batched,
            batch_dims=batch_dims,
            example_inputs=example_inputs,
            frozen=frozen,
            lengths=lengths,
        )
        self._states: dict[str, Tensor] = {}
        self.eval()
        hold_masks(self)
        hooks: Any = self.register_load_state_dict_post_hook
        hooks(lambda graph, _: hold_masks(graph))

    def reset(self) -> None:
        """Forget what operators keep between inferences, as a reset of the hardware does."""
        self._states.clear()

    @property
    def hf_quantizer(self) -> _Trainable:
        """What the trainer of transformers asks of a module that says it is quantised."""
        return _Trainable()

    forward = _Forward()

    def bind(self, *args: Tensor, **kwargs: Tensor) -> list[Tensor]:
        """Return tensors in the order of the graph's inputs.

        Raises:
            MaseError: for an input that is missing, given twice, or unknown.
        """
        names = [str(node.target) for node in self.inputs]
        if len(args) > len(names):
            raise MaseError(f"{self.name} takes {len(names)} inputs, not {len(args)}")
        tensors = dict(zip(names, args, strict=False))
        for name, value in kwargs.items():
            if name in tensors:
                raise MaseError(f"{self.name} is given the input {name} twice")
            if name not in names:
                raise MaseError(f"{self.name} has no input {name!r}; {nearest(name, names)}")
            tensors[name] = value
        missing = [name for name in names if name not in tensors]
        if missing:
            raise MaseError(f"{self.name} needs the input {missing[0]}")
        return [tensors[name] for name in names]

    def through(self, run: Callable[[list[Tensor]], Any], *args: Tensor, **kwargs: Tensor) -> Any:
        """Return the outputs of `run` on a caller's inputs, in the caller's order of dimensions.

        Args:
            run: takes tensors in the order of the inputs, the batch first, at the captured length.
            args: inputs in that order.
            kwargs: inputs by name.

        Raises:
            MaseError: as `bind` does, and for a sequence of a length that the graph does not take.
        """
        inputs = self.bind(*args, **kwargs)
        inputs, length = self.lengths.padded([str(node.target) for node in self.inputs], inputs)
        outputs = run(self.batch_dims.inside(inputs))
        return self.lengths.cut(self.batch_dims.returned(outputs), length)

    def train(self, mode: bool = True) -> Self:
        """Let what acts in training act, or not; see `freeze`."""
        super().train(mode)
        self.model.training = mode
        return self

    def freeze(self, *names: str) -> Self:
        """Leave nodes in evaluation mode while the graph is trained.

        Args:
            names: of nodes, or of operators: `freeze("batch_norm")` keeps the statistics of all
                batch normalisations, `freeze("dropout")` drops nothing.

        Raises:
            ConfigError: for a name that is neither in the graph.
        """
        legal = {node.name for node in self.nodes if node.op == "call_function"}
        operators = (operator_for(node.target) for node in self.nodes)
        legal |= {operator.name for operator in operators if operator is not None}
        for name in names:
            if name not in legal:
                raise ConfigError(
                    f"{self.name} has no node and no operator {name!r} to freeze; "
                    f"{nearest(name, legal)}"
                )
        self.frozen |= set(names)
        return self

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """Also give number formats, the ranges they were fitted to, and which masks hold."""
        super()._save_to_state_dict(destination, prefix, keep_vars)
        if (state := state_of(self)) is not None:
            destination[f"{prefix}{KEY}"] = state

    def _load_from_state_dict(
        self, state_dict: Mapping[str, Any], prefix: str, local_metadata: Any, strict: bool,
        missing_keys: list[str], unexpected_keys: list[str], error_msgs: list[str],
    ) -> None:  # fmt: skip
        key = f"{prefix}{KEY}"
        if key in state_dict:
            take_state(self, state_dict[key])
        elif state_of(self) is not None:
            missing_keys.append(key)
        spread_out(self.model)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )
        unexpected_keys[:] = [item for item in unexpected_keys if item != key]

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Convert example inputs with the parameters: `to`, `double`, `cuda` all come here."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self._states = {name: fn(state) for name, state in self._states.items()}
        self.example_inputs = tuple(fn(value) for value in self.example_inputs)
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the bytes of `save`, so that number formats are kept."""
        return _unpickled, (to_bytes(self), self.training)

    def __deepcopy__(self, memo: dict[int, object]) -> MaseGraph:
        """Return `copy()` in the same mode."""
        return self.copy().train(self.training)

    def copy(self) -> MaseGraph:
        """Return a graph that shares nothing with this one that could be changed."""
        model = rebuild(self.model, {node: node.name for node in self.fx_graph.nodes})
        copy = self.with_model(model)
        copy.knows_of(self)
        return copy

    def with_model(self, model: GraphModule) -> MaseGraph:
        """Return this graph's name, inputs and batch with another graph module."""
        return MaseGraph(
            model,
            name=self.name,
            batched=self.batched,
            example_inputs=self.example_inputs,
            frozen=self.frozen,
            batch_dims=self.batch_dims,
            lengths=self.lengths,
        )

    def table(self) -> Table:
        """Return a table: operator, shape, format, parallelism, module and source of every node."""
        return graph_table(self)

    def __str__(self) -> str:
        return render(self.table())

    def draw(self, path: str | Path) -> Path:
        """Draw the graph as an SVG file."""
        return draw_graph(self, path)

    def save(self, path: str | Path) -> Path:
        """Write graph, weights and metadata to one file, which `load` reads."""
        return save_graph(self, path)

    @staticmethod
    def load(path: str | Path) -> MaseGraph:
        """Read what `save` wrote.

        Raises:
            DataError: when the file is missing or of another kind.
        """
        return load_graph(path, MaseGraph)

    # Names that users of other flows know.
    export = save
    from_checkpoint = load


def _how_to_trace(model: object, names: Sequence[str] | None) -> str:
    inputs = "example_inputs"
    if names:
        inputs = "{" + ", ".join(f'"{name}": ...' for name in names) + "}"
    return (
        f"MaseGraph is given a {type(model).__name__}, not a captured graph: write "
        f"mase_hw.trace(model, {inputs}) with tensors that the model takes"
    )


def _unpickled(content: bytes, training: bool) -> MaseGraph:
    return from_bytes(content, MaseGraph).train(training)
