"""Arguments and metadata of nodes as JSON values, and back."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Mapping
from typing import Any

import torch
from torch.fx import Node

from mase_hw._kinds import Table
from mase_hw.errors import DataError, MaseError
from mase_hw.graph import metadata
from mase_hw.graph.agreement import Agreement
from mase_hw.graph.declared import decode_format, encode_format
from mase_hw.graph.untrusted import check_identifier, check_path, find_operator
from mase_hw.ops import TensorSpec, operators

_TORCH_KINDS: tuple[tuple[str, type], ...] = (
    ("dtype", torch.dtype),
    ("memory_format", torch.memory_format),
    ("layout", torch.layout),
)


def encode_argument(value: object) -> object:
    """Return the JSON value of an argument of a node."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return {"float": value.hex()}
    if isinstance(value, Node):
        return {"node": value.name}
    if isinstance(value, torch.device):
        return {"device": str(value)}
    for kind, cls in _TORCH_KINDS:
        if isinstance(value, cls):
            return {kind: str(value).removeprefix("torch.")}
    if isinstance(value, slice):
        return {"slice": [encode_argument(item) for item in (value.start, value.stop, value.step)]}
    if isinstance(value, tuple):
        return {"tuple": [encode_argument(item) for item in value]}
    if isinstance(value, list):
        return [encode_argument(item) for item in value]
    if isinstance(value, Mapping):
        return {"dict": [[str(key), encode_argument(item)] for key, item in value.items()]}
    raise MaseError(f"an argument of type {type(value).__name__} cannot be saved: {value!r:.80}")


def decode_argument(value: object, nodes: Mapping[str, Node]) -> Any:
    """Read what `encode_argument` wrote; `nodes` holds the nodes so far by name."""
    if isinstance(value, list):
        return [decode_argument(item, nodes) for item in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "float":
        return float.fromhex(content)
    if kind == "node":
        return nodes[content]
    if kind == "device":
        return torch.device(content)
    if kind in dict(_TORCH_KINDS):
        found = getattr(torch, check_identifier(content, f"a {kind}"), None)
        if not isinstance(found, dict(_TORCH_KINDS)[kind]):
            raise DataError(f"torch has no {kind} {content!r}")
        return found
    if kind == "slice":
        return slice(*(decode_argument(item, nodes) for item in content))
    if kind == "tuple":
        return tuple(decode_argument(item, nodes) for item in content)
    if kind == "dict":
        return {str(key): decode_argument(item, nodes) for key, item in content}
    raise MaseError(f"the file holds an argument of unknown kind {kind!r}")


def encode_target(node: Node) -> str:
    """Return the name of what a node calls or reads."""
    if node.op != "call_function" or isinstance(node.target, str):
        return str(node.target)
    if isinstance(node.target, torch._ops.OpOverload):
        return str(node.target)
    name = f"operator.{getattr(node.target, '__name__', '')}"
    if getattr(operator, name.removeprefix("operator."), None) is node.target:
        return name
    raise MaseError(f"node {node.name} calls {node.target}, which cannot be saved")


def decode_target(op: str, target: str) -> Any:
    """Read what `encode_target` wrote.

    Raises:
        DataError: for an operator that is not registered with torch, or a name that is none.
    """
    if op in ("placeholder", "output"):
        return check_identifier(target, f"the target of a {op}")
    if op == "get_attr":
        return check_path(target, "the target of a get_attr")
    if op != "call_function":
        raise DataError(f"the file holds a node that is a {op!r}")
    return find_operator(target)


def encode_metadata(known: metadata.MaseMetadata) -> dict[str, object]:
    """Return the JSON value of a node's metadata."""
    declared = {name: encode_format(item) for name, item in known.declared.items()}
    return {
        "module_path": known.module_path,
        "source": dataclasses.asdict(known.source),
        "common": _encode_common(known.common) if known.common else None,
        "software": _encode_software(known.software) if known.software else None,
        "hardware": _encode_hardware(known.hardware) if known.hardware else None,
        **({"pruned": True} if known.pruned else {}),
        **({"declared": declared} if declared else {}),
        **({"exact": True} if known.exact else {}),
        **({"folded": True} if known.folded else {}),
        **({"asked": True} if known.asked else {}),
        **(
            {"fills": [[item.bound.hex(), item.magnitude.hex()] for item in known.fills]}
            if known.fills
            else {}
        ),
        **({"agreement": known.agreement.to_dict()} if known.agreement else {}),
        **({"roundings": [*map(_encode_rounding, known.roundings)]} if known.roundings else {}),
        **({"configured": True} if known.configured else {}),
    }


def decode_metadata(entry: Table) -> metadata.MaseMetadata:
    """Read what `encode_metadata` wrote."""
    return metadata.MaseMetadata(
        entry["module_path"],
        metadata.SourceLocation(**entry["source"]),
        _decode_common(entry["common"]) if entry["common"] else None,
        _decode_software(entry["software"]) if entry["software"] else None,
        _decode_hardware(entry["hardware"]) if entry["hardware"] else None,
        bool(entry.get("pruned", False)),
        {name: decode_format(item) for name, item in entry.get("declared", {}).items()},
        bool(entry.get("exact", False)),
        bool(entry.get("folded", False)),
        bool(entry.get("asked", False)),
        fills=tuple(metadata.Fill(*map(float.fromhex, item)) for item in entry.get("fills", ())),
        agreement=Agreement.from_dict(entry["agreement"]) if "agreement" in entry else None,
        roundings=tuple(map(_decode_rounding, entry.get("roundings", ()))),
        configured=bool(entry.get("configured", False)),
    )


def _encode_rounding(rounding: metadata.Rounding) -> dict[str, object]:
    return {**vars(rounding), "number": encode_format(rounding.number)}


def _decode_rounding(entry: Table) -> metadata.Rounding:
    return metadata.Rounding(**{**entry, "number": decode_format(entry["number"])})


def _encode_common(known: metadata.CommonMetadata) -> dict[str, object]:
    return {
        "operator": known.operator,
        "operands": [[name, spec.to_dict()] for name, spec in known.operands.items()],
        "results": [[name, spec.to_dict()] for name, spec in known.results.items()],
        **({"options": dict(known.options)} if known.options else {}),
    }


def _decode_common(entry: Table) -> metadata.CommonMetadata:
    name = entry["operator"]
    if name is not None and name not in operators():
        raise DataError(f"the file names an operator {name!r:.40}, which there is not")
    return metadata.CommonMetadata(
        name,
        {name: TensorSpec.from_dict(spec) for name, spec in entry["operands"]},
        {name: TensorSpec.from_dict(spec) for name, spec in entry["results"]},
        entry.get("options", {}),
    )


def _encode_software(known: metadata.SoftwareMetadata) -> dict[str, object]:
    ranges = [
        [name, *(value.hex() for value in (item.minimum, item.maximum, item.sparsity))]
        for name, item in known.ranges.items()
    ]
    return {"order": known.order, "ranges": ranges, "examples": known.examples}


def _decode_software(entry: Table) -> metadata.SoftwareMetadata:
    ranges = {
        name: metadata.ValueRange(*map(float.fromhex, item)) for name, *item in entry["ranges"]
    }
    return metadata.SoftwareMetadata(ranges, entry["order"], entry.get("examples", 0))


def _encode_hardware(known: metadata.HardwareMetadata) -> dict[str, object]:
    return {
        field.name: encode_argument(getattr(known, field.name))
        for field in dataclasses.fields(known)
    }


def _decode_hardware(entry: Mapping[str, object]) -> metadata.HardwareMetadata:
    return metadata.HardwareMetadata(
        **{key: decode_argument(value, {}) for key, value in entry.items()}
    )
