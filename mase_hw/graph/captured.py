"""The nodes and constants of a captured model, and the operator, call and cells of each node."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from torch import Tensor, nn
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_aggregate

from mase_hw._kinds import Argument
from mase_hw.cells import Device, Netlist
from mase_hw.errors import MaseError
from mase_hw.graph import calls
from mase_hw.graph.batch_dims import BatchDims
from mase_hw.graph.lengths import ONE_LENGTH, Lengths
from mase_hw.graph.memory import AUTO, GENERIC
from mase_hw.graph.nodes import metadata, returned
from mase_hw.graph.rebuild import drop_unused_state, get_tensor
from mase_hw.ops import Call, Stateful, operator_for

# Style of memories, device, constants outside the chip.
Making = tuple[str, str, frozenset[str]]


class CapturedGraph(nn.Module):
    """What drawing, saving and running ask of a graph; see `MaseGraph`.

    Args:
        model: the graph module, which passes work on. By itself it computes in real numbers, and
            as captured.
        name: the model's name.
        batched: whether a dimension of the inputs counts independent inferences.
        batch_dims: which dimension that is for callers.
        example_inputs: tensors in the order of the inputs.
        frozen: names of nodes and operators that stay in evaluation mode.
        lengths: which sequences callers may give shorter.
    """

    model: GraphModule

    def __init__(
        self, model: GraphModule, *, name: str, batched: bool, batch_dims: BatchDims,
        example_inputs: Sequence[Tensor], frozen: Collection[str], lengths: Lengths = ONE_LENGTH,
    ) -> None:  # fmt: skip
        super().__init__()
        # The state is the graph module's own, under its own names.
        self.__dict__["model"] = model
        for state in ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set"):
            self.__dict__[state] = model.__dict__[state]
        self.name = name
        self.batched = batched
        self.batch_dims = batch_dims
        self.example_inputs = tuple(example_inputs)
        self.frozen = frozenset(frozen)
        self.lengths = lengths
        self._calls: dict[Node, tuple[tuple[object, tuple[object, ...]], Call]] = {}
        # Calls of the graph that this one is a copy of, without the constants.
        self._before: dict[Node, tuple[tuple[object, ...], Call]] = {}
        self._netlists: dict[Node, tuple[Call, Making | None, Netlist]] = {}

    @property
    def fx_graph(self) -> Graph:
        """The `torch.fx.Graph` that the nodes belong to."""
        return self.model.graph

    @property
    def nodes(self) -> Iterator[Node]:
        """The nodes in topological order."""
        return iter(list(self.fx_graph.nodes))

    @property
    def inputs(self) -> list[Node]:
        """The input nodes in order."""
        return [node for node in self.nodes if node.op == "placeholder"]

    @property
    def outputs(self) -> list[Node]:
        """The nodes whose results leave the graph, in order, as often as they are returned."""
        return [leaf for _, leaf in self.returned() if isinstance(leaf, Node)]

    @property
    def output_names(self) -> tuple[str, ...]:
        """Where the model's result holds each of `outputs`: keys and positions, as `past.0`.

        The only output of a model that returns a tensor is called `output`.
        """
        return tuple(name for name, leaf in self.returned() if isinstance(leaf, Node))

    @property
    def output_dims(self) -> tuple[int, ...]:
        """The dimension that counts inferences in each of `outputs`, as a caller has it."""
        leaves = enumerate(self.returned())
        return tuple(
            self.batch_dims.of_result(number)
            for number, (_, leaf) in leaves
            if isinstance(leaf, Node)
        )

    def returned(self) -> list[tuple[str, Argument]]:
        """Return the results of the graph by name: nodes, None, and Python constants."""
        (output,) = (node for node in self.nodes if node.op == "output")
        return returned(output)

    def one_inference(self) -> tuple[Tensor, ...]:
        """Return example inputs of a single inference, with a batch of 1 first, if there is one."""
        if not self.batched:
            return self.example_inputs
        examples = self.batch_dims.inside(self.example_inputs)
        count = batch_size(examples)
        return tuple(
            value[:1] if value.dim() and value.shape[0] == count else value for value in examples
        )

    def drop_constant_results(self) -> None:
        """Return None, in place, for every result that depends on no input."""
        (output,) = (node for node in self.nodes if node.op == "output")
        output.args = map_aggregate(
            output.args,
            lambda leaf: None if isinstance(leaf, Node) and leaf.op == "get_attr" else leaf,
        )
        self.fx_graph.eliminate_dead_code()
        self.recompile()

    @property
    def is_quantized(self) -> bool:
        """True when any tensor has a number format: some inputs, such as indices, never have."""
        if any(metadata(node).declared for node in self.nodes):
            return True
        return self.has_formats

    @property
    def has_formats(self) -> bool:
        """True when a pass gave number formats, beside those that the model's layers declare."""
        known = [item for node in self.nodes if (item := metadata(node).common) is not None]
        tensors = (
            spec for item in known for spec in (*item.operands.values(), *item.results.values())
        )
        return any(spec.format is not None for spec in tensors)

    @property
    def keeps_state(self) -> bool:
        """True when a result depends on inferences before, as with a cache of keys and values.

        Every call of the graph is then the next inference; the first one after `reset`.
        """
        operators = (operator_for(node.target) for node in self.nodes if node.op == "call_function")
        return any(isinstance(operator, Stateful) for operator in operators)

    def node(self, name: str) -> Node:
        """Return the node called `name`.

        Raises:
            MaseError: when there is none.
        """
        for node in self.nodes:
            if node.name == name:
                return node
        known = ", ".join(node.name for node in self.nodes)
        raise MaseError(f"{self.name} has no node called {name!r}; known: {known}")

    def constant(self, node: Node) -> Tensor:
        """Return the parameter or buffer that a `get_attr` node reads."""
        if node.op != "get_attr":
            raise MaseError(f"node {node.name} is a {node.op}, not a parameter or buffer")
        return get_tensor(self.model, node.target)

    def call(self, node: Node) -> Call:
        """Return the operator's view of a node, with the formats and parallelism of its metadata.

        Raises:
            UnsupportedError: when no operator covers the node's target.
        """
        # Kept while neither the metadata nor the constants change.
        stamp = metadata(node), self._stamp(node)
        known = self._calls.get(node)
        if known is None or known[0] != stamp:
            call = calls.call_of(self.model, node)
            before = self._before.get(node) if known is None else (known[0][1], known[1])
            if before and before[0] == stamp[1]:
                call = call.after(before[1])
            known = self._calls[node] = stamp, call
        return known[1]

    def _stamp(self, node: Node) -> tuple[object, ...]:
        constants = [self.constant(item) for item in node.all_input_nodes if item.op == "get_attr"]
        versions = [None if item.is_inference() else item._version for item in constants]
        return node.target, node.args, *zip(map(id, constants), versions, strict=True)

    def knows_of(self, other: CapturedGraph) -> None:
        """Keep what is known of the constants of a graph that this one is a copy of."""
        for node, own in zip(other.nodes, self.nodes, strict=True):
            known = other._calls.get(node)
            if known is not None and known[0][1] == other._stamp(node):
                self._before[own] = self._stamp(own), replace(known[1], constants={})

    def netlist(
        self,
        node: Node,
        style: str | None = None,
        device: str | None = None,
        outside: Collection[str] | None = None,
    ) -> Netlist:
        """Return the cells of a node, built once for each call and the rest that is asked for.

        Args:
            node: a node that computes.
            style: of what memories of constants are made; by default what its metadata say.
            device: whose blocks its cells use; by default what its metadata say.
            outside: constant operands outside the chip; by default what its metadata say.
        """
        call, hardware = self.call(node), metadata(node).hardware
        if style is None:
            style = hardware.memory_style if hardware else AUTO
        if device is None:
            device = hardware.device if hardware else GENERIC
        if outside is None:
            outside = hardware.outside if hardware else ()
        key = style, device, frozenset(outside)
        known = self._netlists.get(node)
        if known is None or known[0] is not call:
            known = call, None, call.operator.hardware(call)
        if known[1] != key:
            netlist = known[2].styled(style).on(Device.of(device), outside)
            known = self._netlists[node] = call, key, netlist
        return known[2]

    def rounds(self, node: Node) -> int:
        """Return how often the cells of a node compute in one inference."""
        return 1

    def release(self) -> None:
        """Forget what is kept to be fast alone: calls with constants in float64, and cells."""
        self._calls.clear()
        self._before.clear()
        self._netlists.clear()

    def recompile(self) -> None:
        """Check the graph and make the model compute what it says, after nodes were changed.

        Parameters and buffers that no node reads any more are dropped.
        """
        self.fx_graph.lint()
        drop_unused_state(self.model)
        self.model.recompile()


def batch_size(inputs: Sequence[Tensor]) -> int | None:
    """Return the leading size that the inputs share, None when no input can have a batch."""
    return next((int(value.shape[0]) for value in inputs if value.dim() >= 2), None)
