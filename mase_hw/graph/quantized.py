"""One run of a graph in real values that its number formats can represent."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import torch
from torch import Tensor
from torch.fx import Node

from mase_hw._aten import overload
from mase_hw._kinds import Argument, Record
from mase_hw.formats import Format
from mase_hw.graph.captured import CapturedGraph
from mase_hw.graph.nodes import aten_arguments, metadata, tensor_arguments
from mase_hw.graph.rebuild import get_tensor
from mase_hw.ops import STATE, Operator, Prepared, Stateful, TensorSpec, operator_for

# Arguments that say whether an ATen operator trains; a capture in evaluation mode has them false.
TRAINING_ARGUMENTS = ("train", "training", "use_input_stats")


class GraphRun:
    """Runs a graph node by node, every operand and result rounded to its format.

    Rounding passes gradients straight through. Nodes without a format compute as they are. In
    training mode dropout drops, and normalisation takes the statistics of the batch and moves its
    own.

    Args:
        mg: a graph, with formats or without.
        only: names of the nodes that round; all when not given.
        states: what nodes keep between inferences, by name; empty when not given. Runs change it.
    """

    def __init__(
        self,
        mg: CapturedGraph,
        only: Collection[str] | None = None,
        states: dict[str, Tensor] | None = None,
    ) -> None:
        self._only = only
        self._states = {} if states is None else states
        self._model = mg.model
        self._training = mg.training
        self._frozen = mg.frozen
        self._nodes = [node for node in mg.nodes if node.op not in ("get_attr", "output")]
        (output,) = (node for node in mg.nodes if node.op == "output")
        returned = output.args[0]
        # A tensor in a tuple by itself is that tensor.
        alone = isinstance(returned, tuple | list) and len(returned) == 1
        self._outputs = returned[0] if alone else returned  # type: ignore[index]

    def __call__(self, inputs: Sequence[Tensor]) -> Argument:
        """Return the outputs as the model nests them; one in a tuple is returned bare.

        Args:
            inputs: tensors in the order of the graph's inputs.
        """
        values = self._run(inputs)
        return self._structured(self._outputs, values)

    def _structured(self, outputs: object, values: dict[Node, Tensor]) -> object:
        if isinstance(outputs, Node):
            return self._look_up(outputs, values)
        if isinstance(outputs, Mapping):
            return {key: self._structured(item, values) for key, item in outputs.items()}
        if isinstance(outputs, list | tuple):
            members = [self._structured(item, values) for item in outputs]
            return members if isinstance(outputs, list) else tuple(members)
        return outputs

    def values(self, inputs: Sequence[Tensor]) -> dict[str, Tensor]:
        """Return the result of every node by its name."""
        return {node.name: value for node, value in self._run(inputs).items()}

    def _run(self, inputs: Sequence[Tensor]) -> dict[Node, Tensor]:
        values: dict[Node, Tensor] = {}
        given = iter(inputs)
        for node in self._nodes:
            values[node] = self.step(
                node, values, next(given) if node.op == "placeholder" else None
            )
        return values

    def step(
        self, node: Node, values: Mapping[Node, Tensor], given: Tensor | None = None
    ) -> Tensor:
        """Return the rounded result of a node from those of the nodes before it.

        Args:
            node: no parameter, and not the output.
            values: results so far.
            given: what an input is given.
        """
        result = self._compute(node, values) if given is None else given
        spec = _specs(node).get("data_out_0")
        # Several results are rounded where each of them is taken out.
        number_format = spec.format if spec and isinstance(result, Tensor) else None
        return self._rounded(node, "data_out_0", number_format, result)

    def _rounded(
        self, node: Node, name: str, number_format: Format | None, values: Tensor
    ) -> Tensor:
        if number_format is None or (self._only is not None and node.name not in self._only):
            return values
        used = number_format if self._training else number_format.at_inference()
        if values.is_floating_point():
            return used.fake_quantize(values)
        # Whole numbers, as indices are, stay such where the format holds them.
        whole, rounded = used.fake_quantize(values), used.fake_quantize(values.double())
        same = torch.equal(whole.double(), rounded)
        return whole if same else rounded.to(torch.get_default_dtype())

    def _compute(self, node: Node, values: Mapping[Node, Tensor]) -> Tensor:
        operator = operator_for(node.target) if node.op == "call_function" else None
        formats = _formats(node)
        if operator is None or not (formats or isinstance(operator, Stateful)):
            return self._call(node, values)
        arguments, streams, constants = self._operands(node, operator, values, formats)
        for name, constant in constants.items():
            constants[name] = self._rounded(node, name, formats.get(name), constant)
        if isinstance(operator, Stateful):
            if node.name not in self._states:
                self._states[node.name] = operator.empty(arguments, streams["data_in_0"])
            streams[STATE] = self._states[node.name]
        return operator.compute(node.target, arguments, {**streams, **constants})

    def operands(
        self, node: Node, values: Mapping[Node, Tensor]
    ) -> tuple[Record, dict[str, Tensor]]:
        """Return the arguments and the operands that `Operator.compute` takes, none rounded.

        Args:
            node: a node that an operator covers, in a graph without formats.
            values: results of the nodes before it.
        """
        operator = operator_for(node.target)
        assert operator is not None
        arguments, streams, constants = self._operands(node, operator, values, {})
        return arguments, {**streams, **constants}

    def _operands(
        self, node: Node, operator: Operator, values: Mapping[Node, Tensor],
        formats: Mapping[str, Format],
    ) -> tuple[dict[str, object], dict[str, Tensor], dict[str, Tensor]]:  # fmt: skip
        arguments = {**aten_arguments(node), **self._modes(node)}
        streams: dict[str, Tensor] = {}
        constants: dict[str, Tensor] = {}
        numbers: dict[str, float] = {}
        for name, item in tensor_arguments(node):
            if not isinstance(item, Node):
                numbers[name] = item
            elif item.op == "get_attr":
                constants[name] = self._look_up(item, values)
            else:
                stream = self._look_up(item, values)
                bare = not any(spec.format for spec in _specs(item).values())
                if bare and stream.is_floating_point():
                    # Streams with a format have this one: passes insert casts.
                    stream = self._rounded(node, name, formats.get(name), stream)
                streams[name] = stream
        constants |= {
            name: _tensor_of(number, [*streams.values(), *constants.values()])
            for name, number in numbers.items()
        }
        prepared = Prepared.of(operator)
        if self._modes(node):
            return arguments, streams, prepared.prepare_training(constants, arguments, streams)
        return arguments, streams, prepared.prepare(constants, arguments)

    def _call(self, node: Node, values: Mapping[Node, Tensor]) -> Tensor:
        args, kwargs = torch.fx.map_arg(
            (node.args, node.kwargs), lambda item: self._look_up(item, values)
        )
        if node.op == "call_module":
            result: Tensor = self._model.get_submodule(str(node.target))(*args, **kwargs)
            return result
        target = overload(node.target)
        if modes := self._modes(node):
            given = [item.name for item in target._schema.arguments]
            positional = dict(zip(given, args, strict=False))
            return target(**{**positional, **kwargs, **modes})
        return target(*args, **kwargs)

    def _modes(self, node: Node) -> dict[str, bool]:
        schema = getattr(node.target, "_schema", None)
        if not self._training or schema is None:
            return {}
        operator = operator_for(node.target)
        if self._frozen & {node.name, operator.name if operator else ""}:
            return {}
        return {item.name: True for item in schema.arguments if item.name in TRAINING_ARGUMENTS}

    def _look_up(self, node: Node, values: Mapping[Node, Tensor]) -> Tensor:
        return get_tensor(self._model, node.target) if node.op == "get_attr" else values[node]


def _formats(node: Node) -> dict[str, Format]:
    """Return the formats of a node; what its layer declares while no pass gave any."""
    formats = {name: spec.format for name, spec in _specs(node).items() if spec.format}
    return formats or dict(metadata(node).declared)


def _tensor_of(number: float, beside: Sequence[Tensor]) -> Tensor:
    """Return a Python number in the dtype that torch computes in, given the tensors beside it."""
    if not beside:
        return torch.tensor(number)
    like = next((item for item in beside if item.is_floating_point()), beside[0])
    return torch.tensor(number, dtype=torch.result_type(like, number), device=like.device)


def _specs(node: Node) -> dict[str, TensorSpec]:
    known = metadata(node).common
    return {} if known is None else {**known.operands, **known.results}
