"""From a `torch.export.ExportedProgram` to a `MaseGraph`."""

from __future__ import annotations

import re
import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node
from torch.fx.operator_schemas import normalize_function
from torch.utils._pytree import TreeSpec, tree_leaves

from mase_hw.errors import CaptureError
from mase_hw.graph._canonical import canonicalize, relax_views
from mase_hw.graph._dense import check_values
from mase_hw.graph._rewriter import is_dynamic, shape_of
from mase_hw.graph._writes import out_of_place, writes
from mase_hw.graph.batch_dims import BatchDims, lead_with_batch
from mase_hw.graph.complex_numbers import split_complex
from mase_hw.graph.declared import DECLARED, absorb
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.graph.metadata import MaseMetadata
from mase_hw.graph.naming import SYSTEMVERILOG_KEYWORDS, node_names
from mase_hw.graph.nodes import location
from mase_hw.graph.rebuild import ancestors, get_tensor, rebuild, set_tensor
from mase_hw.graph.rounded import EXACT, ROUNDINGS, absorb_rounded
from mase_hw.graph.roundings import spell_roundings
from mase_hw.graph.source import origin

_PROBE_ROWS = 3


def from_exported(program: ExportedProgram, name: str, *, batched: bool) -> MaseGraph:
    """Return the graph of an exported program, cleaned, named and with its own weights.

    Args:
        program: what `torch.export` made.
        name: name of the design.
        batched: the leading dimension of the inputs may be dynamic; whether it is, and counts
            independent inferences, is found out and said by the result's `batched`.

    Raises:
        CaptureError: when the program holds what is no tensor arithmetic.
    """
    module, dynamic, dims = _clean(program)
    names = node_names(module.graph.nodes)
    check_values(module, names)
    relax_views(module)
    structure = module.graph._codegen.pytree_info.out_spec  # type: ignore[attr-defined]
    model = rebuild(
        module, names, output=lambda leaves: _structured(structure, iter(leaves)), meta=_metadata
    )
    if not any(node.op == "call_function" for node in model.graph.nodes):
        raise CaptureError(
            f"{name} has no operators: its outputs are its inputs or constants, "
            "so there is nothing to make hardware of"
        )
    graph = MaseGraph(model, name=_identifier(name))
    given = _given(program, _inputs(module))
    graph.batch_dims = dims
    # The batch is no dimension of a value but the first one.
    leads = not dims or not any(
        any(map(is_dynamic, shape_of(node)[1:])) for node in module.graph.nodes
    )
    # A state is one sequence.
    graph.batched = bool(batched and dynamic) and leads and not graph.keeps_state
    if graph.batched:
        inside = None if given is None else dims.inside(given)
        graph.batched = _rows_are_independent(graph, module, dynamic, inside)
    return graph


_Canonical = tuple[GraphModule, list[Node], BatchDims]


def _clean(program: ExportedProgram) -> _Canonical:
    """Return the canonical module of a program, its inputs with a dynamic batch, and where that is.

    Where one value that is written in place has several names, torch writes all as functions.
    """
    module = program.module()
    assert isinstance(module, GraphModule)
    spell_roundings(module)
    out_of_place(module.graph)
    if any(writes(node) for node in module.graph.nodes):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = program.run_decompositions({}).module()
        assert isinstance(module, GraphModule)
        spell_roundings(module)
    split_complex(module)
    dims = lead_with_batch(module)
    dynamic = [node for node in _inputs(module) if _has_dynamic_batch(node)]
    canonicalize(module)
    absorb(module)
    absorb_rounded(module)
    _name_shared(module, program)
    return module, dynamic, dims


def _name_shared(module: GraphModule, program: ExportedProgram) -> None:
    """Call what several names share by the first one, as `named_parameters` does."""
    first: dict[int, str] = {}
    for name, value in program.state_dict.items():
        first.setdefault(id(value), name)
    for node in module.graph.nodes:
        if node.op == "get_attr" and str(node.target) in program.state_dict:
            value = program.state_dict[str(node.target)]
            name = first[id(value)]
            if name != node.target:
                set_tensor(module, name, get_tensor(module, node.target))
                node.target = name


def _inputs(module: GraphModule) -> list[Node]:
    return [node for node in module.graph.nodes if node.op == "placeholder"]


def _has_dynamic_batch(node: Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, Tensor) and value.dim() > 0 and is_dynamic(value.shape[0])


def _metadata(node: Node) -> dict[str, object]:
    kept: dict[str, object] = {
        key: value for key, value in node.meta.items() if key in {"nn_module_stack", "stack_trace"}
    }
    kept["mase"] = MaseMetadata(
        *origin(node),
        declared=node.meta.get(DECLARED, {}),
        exact=bool(node.meta.get(EXACT)),
        roundings=node.meta.get(ROUNDINGS, ()),
    )
    return kept


def _structured(spec: TreeSpec, leaves: Iterator[object]) -> object:
    if spec.is_leaf():
        return next(leaves)
    members = [_structured(child, leaves) for child in spec.children()]
    context = spec.context[1] if spec.type is defaultdict else spec.context
    if isinstance(context, list) and context and len(context) == len(members):
        return dict(zip([str(key) for key in context], members, strict=True))
    return members if spec.type is list else tuple(members)


def _identifier(name: str) -> str:
    text = re.sub(r"[^A-Za-z0-9_]", "_", name)
    if not text or text[0].isdigit() or text in SYSTEMVERILOG_KEYWORDS:
        return f"model_{text}"
    return text


def outputs_agree(outputs: object, expected: object) -> bool:
    """True if two structures of outputs hold the same values, up to rounding."""
    left, right = tensors_of(outputs), tensors_of(expected)
    return len(left) == len(right) and all(map(_close, left, right))


def tensors_of(outputs: object) -> list[Tensor]:
    """Return the tensors of a structure of outputs, in their order."""
    return [leaf for leaf in tree_leaves(outputs) if isinstance(leaf, Tensor)]


def _close(left: Tensor, right: Tensor) -> bool:
    if left.shape != right.shape or left.dtype != right.dtype:
        return False
    if not left.is_floating_point():
        return torch.equal(left, right)
    finite = right[right.isfinite()].abs().to(torch.float64)
    scale = float(finite.max()) if finite.numel() else 1.0
    return torch.allclose(
        left.double(), right.double(), rtol=1e-3, atol=1e-4 * scale, equal_nan=True
    )


def _given(program: ExportedProgram, inputs: Sequence[Node]) -> list[Tensor] | None:
    if program.example_inputs is None:
        return None
    args, kwargs = program.example_inputs
    leaves = tensors_of(args)
    leaves += tensors_of([kwargs.get(str(node.target)) for node in inputs[len(leaves) :]])
    return leaves if len(leaves) == len(inputs) else None


def _rows_are_independent(
    graph: MaseGraph, captured: GraphModule, dynamic: list[Node], given: list[Tensor] | None
) -> bool:
    """True if a batch of inferences equals the inferences one by one.

    Real numbers are random, whole numbers are 0 and 1. Where the model does not run on those, first
    whole numbers, which may be indices or corners of boxes, are rows of the examples, then all
    numbers are, which may be probabilities; rows of the examples have to differ.
    """
    results = tree_leaves(captured.graph.output_node().args)
    # A constant with a row for each inference is one row in the graph: it does not count rows.
    computed = [
        not _is_constant(node) or _has_dynamic_batch(node)
        for node in results
        if isinstance(node, Node)
    ]
    if not all(map(_counts_rows, results)):
        return False
    generator = torch.Generator().manual_seed(0)
    inputs = [_random(node.meta["val"], node in dynamic, generator) for node in _inputs(captured)]
    carries = [node in dynamic for node in _inputs(captured)]
    independent = _is_independent(graph, inputs, carries, computed)
    for kinds in ((False,), (False, True)):
        if independent is not None or given is None:
            break
        rows = [
            _example_rows(value, drawn) if carried and drawn.is_floating_point() in kinds else drawn
            for value, drawn, carried in zip(given, inputs, carries, strict=True)
        ]
        differ = [row for row in rows if row is not None]
        if len(differ) == len(rows):
            independent = _is_independent(graph, differ, carries, computed)
    return bool(independent)


def _counts_rows(result: Any) -> bool:
    """True if a result has as many rows as the batch: not the first three, as `x[:3]`."""
    value = result.meta.get("val") if isinstance(result, Node) else None
    alone = not isinstance(value, Tensor) or value.dim() == 0 or _is_constant(result)
    return alone or _has_dynamic_batch(result)


def _is_constant(node: Node) -> bool:
    return all(item.op in ("get_attr", "call_function") for item in ancestors(node))


def _example_rows(given: Tensor, drawn: Tensor) -> Tensor | None:
    rows = given[torch.arange(len(drawn)) % len(given)]
    return None if torch.equal(rows, rows[:1].expand_as(rows)) else rows


def _is_independent(
    graph: MaseGraph, inputs: Sequence[Tensor], carries: Sequence[bool], computed: Sequence[bool]
) -> bool | None:
    """True if rows together equal rows one by one; None where the graph does not run.

    Results that are constant, by `computed`, do not count.
    """
    try:
        with torch.no_grad():
            together = tensors_of(graph.model(*inputs))
            for row in range(_PROBE_ROWS):
                one = [
                    value[row : row + 1] if carried else value
                    for value, carried in zip(inputs, carries, strict=True)
                ]
                results = zip(together, tensors_of(graph.model(*one)), computed, strict=True)
                pairs = [(a, b) for a, b, counts in results if counts and a.dim()]
                if not all(_close(a[row : row + 1], b) for a, b in pairs):
                    return False
    except (RuntimeError, IndexError, ValueError):
        return None
    return True


def _random(value: Tensor, carried: bool, generator: torch.Generator) -> Tensor:
    sizes = [int(size) if isinstance(size, int) else _PROBE_ROWS for size in value.shape]
    if carried:
        sizes[0] = _PROBE_ROWS
    if value.dtype.is_floating_point:
        return torch.randn(sizes, generator=generator).to(value.dtype)
    return torch.randint(0, 2, sizes, generator=generator).to(value.dtype)


# Arguments without which an operator draws nothing.
_SWITCHES = ("train", "training", "dropout_p", "p")


def drawing(mg: MaseGraph) -> Iterator[str]:
    """Yield a note on each random draw, as of dropout that does not end with training."""
    for node in mg.nodes:
        tags = getattr(node.target, "tags", ())
        if torch.Tag.nondeterministic_seeded in tags and all(_switches(node)):
            yield f"{node.target} at {location(node)} draws random numbers"


def _switches(node: Node) -> Iterator[bool]:
    assert callable(node.target)
    arguments = normalize_function(
        node.target, node.args, node.kwargs, normalize_to_only_use_kwargs=True
    )
    for name in _SWITCHES:
        if arguments is not None and name in arguments.kwargs:
            yield bool(arguments.kwargs[name])
