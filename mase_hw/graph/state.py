"""State of a graph beside its parameters: number formats and ranges, in `state_dict` under one key.

The entry is the bytes of a JSON object: for every node what it computes, the number formats of its
tensors, with the fields that were fitted to values, the ranges that were seen, and which parameters
are pruned. A state is taken where nodes and formats are of one kind, so that all else is fitted: a
graph that was made by the same recipe from other weights or data then computes the same numbers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, Node

from mase_hw._kinds import Record
from mase_hw.errors import DataError, MaseError
from mase_hw.formats import Format
from mase_hw.graph import encoding
from mase_hw.graph.captured import CapturedGraph
from mase_hw.graph.metadata import CommonMetadata, MaseMetadata
from mase_hw.graph.nodes import metadata
from mase_hw.graph.rebuild import append_node
from mase_hw.graph.untrusted import check_identifier
from mase_hw.ops import Numeric, TensorSpec, operator_for_role, operators

KEY = "number_formats"
_CAST = "cast"
_SHOWN = 5
_DAMAGES = (ArithmeticError, AttributeError, LookupError, MaseError, TypeError, ValueError)
_KEPT = ("common", "software", "pruned", "declared", "exact", "folded", "asked")
Entry = Record


def state_of(mg: CapturedGraph) -> Tensor | None:
    """Return the entry of a graph, uint8; None for one as it was captured, in float."""
    known = [metadata(node) for node in mg.nodes]
    changed = any(item.pruned or (item.common and item.common.options) for item in known)
    if not (changed or mg.is_quantized):
        return None
    text = json.dumps([_entry(node) for node in mg.nodes])
    return torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8).clone()


def take_state(mg: CapturedGraph, state: Tensor) -> None:
    """Give a graph, in place, the formats of a state.

    Args:
        mg: the graph.
        state: what `state_of` returned.

    Raises:
        DataError: for a state of another recipe, naming what differs; nothing is changed then.
    """
    own = state_of(mg)
    if own is None:
        raise DataError(
            f"the state is of a graph with number formats, pruned parameters or adapters, and "
            f"{mg.name} has none: make it as that one was made; to take the weights alone, leave "
            f"{KEY!r} out"
        )
    try:
        mine, given = _entries(own), _entries(state)
        differences = [] if mine == given else list(_differences(mine, given))
        graph = None if mine == given or differences else _graph(mg, given)
    except _DAMAGES as error:
        raise DataError(f"the state's {KEY!r} is damaged: {error!r:.200}") from error
    if differences:
        more = len(differences) - _SHOWN
        shown = "; ".join(differences[:_SHOWN]) + (f"; and {more} more" if more > 0 else "")
        raise DataError(f"the state is of another recipe than {mg.name}: {shown}")
    if graph is not None:
        mg.model.graph = graph
        mg.release()
        mg.recompile()


def _entry(node: Node) -> Entry:
    kept = MaseMetadata(**{name: getattr(metadata(node), name) for name in _KEPT})
    return {
        "name": node.name,
        "op": node.op,
        "target": encoding.encode_target(node),
        "args": encoding.encode_argument(tuple(node.args)),
        "kwargs": encoding.encode_argument(dict(node.kwargs)),
        "metadata": encoding.encode_metadata(kept),
    }


def _entries(state: Tensor) -> list[Entry]:
    if state.dtype != torch.uint8:
        raise TypeError(f"it is {state.dtype}, not bytes")
    return json.loads(state.cpu().numpy().tobytes())  # type: ignore[no-any-return]


def _is_cast(entry: Entry) -> bool:
    return bool(entry["target"] in operator_for_role(_CAST).targets)


def _computed(entries: list[Entry]) -> dict[str, tuple[Any, ...]]:
    """The computation of each node but casts, with operands as they are before casts."""
    casts: dict[str, str] = {}
    computed = {}

    def uncast(value: object) -> Any:
        if isinstance(value, list):
            return [uncast(item) for item in value]
        if isinstance(value, dict):
            if isinstance(name := value.get("node"), str):
                return {"node": casts.get(name, name)}
            return {key: uncast(item) for key, item in value.items()}
        return value

    for entry in entries:
        if _is_cast(entry):
            (producer,) = uncast(entry["args"])["tuple"]
            casts[entry["name"]] = producer["node"]
        else:
            arguments = uncast(entry["args"]), uncast(entry["kwargs"])
            computed[entry["name"]] = (entry["op"], entry["target"], *arguments)
    return computed


def _differences(own: list[Entry], given: list[Entry]) -> Iterator[str]:
    """Yield the differences of two states, but for fitted numbers."""
    mine, theirs = _computed(own), _computed(given)
    yield from (f"{name} is in the graph alone" for name in mine if name not in theirs)
    yield from (f"{name} is in the state alone" for name in theirs if name not in mine)
    others = {entry["name"]: encoding.decode_metadata(entry["metadata"]) for entry in given}
    for entry in own:
        name = entry["name"]
        if name in mine and name in theirs:
            if mine[name] != theirs[name]:
                yield f"{name} computes something else, or with other constants"
            known = encoding.decode_metadata(entry["metadata"])
            yield from (f"{name}{text}" for text in _unlike(known, others[name]))


def _unlike(own: MaseMetadata, given: MaseMetadata) -> Iterator[str]:
    """Yield the differences of one node's metadata in two states."""
    if own.pruned != given.pruned:
        yield f" is pruned {'here' if own.pruned else 'in the state'} alone"
    mine, theirs = _formats(own), _formats(given)
    for key in {**mine, **theirs}:
        fitted = {"width"} if key in _shared(own) else set()
        if text := _other_kind(mine.get(key), theirs.get(key), key in _whole(own), fitted):
            yield f".{key}: {text}"
    for left, right in [(own.common, given.common)] if own.common and given.common else []:
        if left.options != right.options:
            yield f": {dict(left.options)} here, {dict(right.options)} in the state"


def _formats(known: MaseMetadata) -> dict[str, Format]:
    specs = _specs(known).items()
    return {
        **known.declared,
        **{name: spec.format for name, spec in specs if spec.format is not None},
    }


def _specs(known: MaseMetadata) -> dict[str, TensorSpec]:
    common = known.common or CommonMetadata(None, {}, {})
    return {**common.operands, **common.results}


def _whole(known: MaseMetadata) -> set[str]:
    real, specs = ("float", "bfloat"), _specs(known).items()
    return {name for name, spec in specs if not spec.dtype.startswith(real)}


def _shared(known: MaseMetadata) -> set[str]:
    """The tensors whose format follows from those of all their consumers, its width too."""
    common = known.common or CommonMetadata(None, {}, {})
    operator = operators()[common.operator] if common.operator is not None else None
    numeric = Numeric.of(operator)
    kept = numeric.keeps_format or numeric.shares_format
    cast = operator is not None and operator.role is not None
    results = () if known.asked else common.results
    return {*results, *(common.operands if kept or cast else ())}


def _other_kind(own: Format | None, given: Format | None, whole: bool, fitted: set[str]) -> str:
    """Return in what two formats differ that is not fitted to values; nothing for none.

    Args:
        own: the format of a tensor here.
        given: that in the state.
        whole: whether it holds whole numbers.
        fitted: fields that are fitted beside those that its class fits.
    """
    if own is None or given is None or own.name != given.name:
        names = ["float" if item is None else item.name for item in (own, given)]
        return f"{names[0]} here, {names[1]} in the state" if own is not given else ""
    here, there = own.to_dict(), given.to_dict()
    fields = [key for key in here if key not in {*own.fitted, *fitted} and here[key] != there[key]]
    if whole or not fields:
        return ""
    return f"{own.name}, {fields[0]} {here[fields[0]]} here, {there[fields[0]]} in the state"


def _graph(mg: CapturedGraph, given: list[Entry]) -> Graph:
    own = {node.name: node for node in mg.nodes}
    graph, nodes = Graph(), dict[str, Node]()
    for entry in given:
        name, known = str(entry["name"]), encoding.decode_metadata(entry["metadata"])
        args, kwargs = (encoding.decode_argument(entry[key], nodes) for key in ("args", "kwargs"))
        if _is_cast(entry):
            target: Any = encoding.decode_target("call_function", entry["target"])
            origin = metadata(args[0])
            meta = {"mase": replace(known, module_path=origin.module_path, source=origin.source)}
            check_identifier(name, "the name of a node")
        else:
            target, meta = own[name].target, dict(own[name].meta)
            meta["mase"] = _refitted(metadata(own[name]), known)
        nodes[name] = append_node(graph, entry["op"], target, args, kwargs, name, meta)
    return graph


def _refitted(own: MaseMetadata, given: MaseMetadata) -> MaseMetadata:
    common = own.common
    if common is not None and given.common is not None:
        operands, results = (
            {name: spec.with_format(theirs[name].format) for name, spec in mine.items()}
            for mine, theirs in (
                (common.operands, given.common.operands),
                (common.results, given.common.results),
            )
        )
        common = replace(common, operands=operands, results=results)
    return replace(
        own, common=common, software=given.software, declared=given.declared, exact=given.exact
    )
