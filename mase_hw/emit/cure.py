"""The format of a node that loses the most, and the configuration keys that mend it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor
from torch.fx import Node

from mase_hw._kinds import Record
from mase_hw.errors import FormatError
from mase_hw.formats import Format
from mase_hw.graph.metadata import ValueRange, common, metadata
from mase_hw.graph.streams import consumers, stream_operands
from mase_hw.ops import Numeric, operator_for
from mase_hw.passes.formats.expected_agreement import precision_db

MAX_OCTAVES = 64


def reason(node: Node, bits: int) -> str:
    """Return why a node loses more than its formats explain, and what to configure.

    What saturates comes first, then what is coarsest for its range.

    Args:
        node: a node whose agreement was measured.
        bits: how many are missing.
    """
    tensors = {**common(node).operands, **common(node).results}
    formats = {name: spec.format for name, spec in tensors.items() if spec.format is not None}
    if not formats:
        return "what it takes is too coarse for what it computes"
    known = metadata(node).agreement
    clipped = dict(known.saturated) if known else {}
    if clipped:
        name = max(clipped, key=lambda item: clipped[item])
        what, owners = f"clips {100 * clipped[name]:.1f} % of", [_owner(node, name)]
        fields = _held(node, name, formats[name])
    else:
        name = min(formats, key=lambda item: (precision_db(formats[item]), -_largest(node, item)))
        what, owners = "is coarse for", list(dict.fromkeys(_owners(node, name)))
        fields = _refitted(node, name, formats[name]) or _finer(formats[name], bits)
    seen = _range(node, name)
    between = f" (values from {seen.minimum:.3g} to {seen.maximum:.3g})" if seen else ""
    narrower = "" if clipped else ", or keep outliers and fill values out of its range"
    return f"{formats[name]} {what} {name}{between}: {_keys(owners, fields)}{narrower}"


def _range(node: Node, name: str) -> ValueRange | None:
    software = metadata(node).software
    if software is None and node.op == "call_function":
        # An inserted node, which carries what is made before it.
        return _range(node.all_input_nodes[0], "data_out_0")
    return software.ranges.get(name) if software else None


def _largest(node: Node, name: str) -> float:
    seen = _range(node, name)
    return max(abs(seen.minimum), abs(seen.maximum)) if seen else 0.0


def _finer(number_format: Format, bits: int) -> dict[str, object]:
    """Return the width with so many bits more; nothing where the format does not have it."""
    width = getattr(number_format, "width", None)
    if width is None:
        return {}
    fields = {"width": width + max(bits, 1)}
    try:
        type(number_format).fit(-1.0, 1.0, **fields)
    except FormatError:
        return {}
    return fields


def _refitted(node: Node, name: str, number_format: Format) -> dict[str, object]:
    """Return the fields with which a format has smaller steps, and holds all values as it is now.

    Nothing where it is as fine as it can be.
    """
    ends, found = _ends(node, name), None
    if ends is None:
        return {}
    for octaves in range(1, MAX_OCTAVES):
        narrower = number_format.scaled(-octaves)
        if narrower is None or not bool(narrower.in_range(ends).all()):
            break
        found = narrower
    return _changed(number_format, found)


def _held(node: Node, name: str, number_format: Format) -> dict[str, object]:
    """Return the fields with which a format holds the values that were seen of a tensor."""
    ends = _ends(node, name)
    if ends is None:
        return {}
    if _fields(number_format).get("signed") is False and bool((ends < 0).any()):
        return {"signed": True}
    for octaves in range(1, MAX_OCTAVES):
        wider = number_format.scaled(octaves)
        if wider is not None and bool(wider.in_range(ends).all()):
            return _changed(number_format, wider)
    return {}


def _ends(node: Node, name: str) -> Tensor | None:
    """Return the least and the largest value that were seen of a tensor."""
    seen = _range(node, name)
    return torch.tensor([seen.minimum, seen.maximum], dtype=torch.float64) if seen else None


def _changed(before: Format, after: Format | None) -> dict[str, object]:
    """Return the fields in which a format differs from another, and the width."""
    if after is None:
        return {}
    own = _fields(before)
    changed = {key: value for key, value in _fields(after).items() if value != own[key]}
    return {key: own[key] for key in ("width",) if key in own} | changed


def _fields(number_format: Format) -> Record:
    return {key: getattr(number_format, key) for key in number_format.field_names()}


def _keys(owners: Sequence[tuple[Node, str]], fields: Mapping[str, object]) -> str:
    """Keys of the configuration to write, by node."""
    if not fields:
        names = " and ".join(f"{word} of {owner.name}" for owner, word in owners)
        return f"give {names} a finer format"
    keys: dict[str, list[str]] = {}
    for owner, word in owners:
        entry = keys.setdefault(owner.name, [])
        entry += [f"{word}_{key} = {_text(value)}" for key, value in fields.items()]
    return "give " + " and ".join(f"{name} {', '.join(entry)}" for name, entry in keys.items())


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _owners(node: Node, name: str) -> Iterator[tuple[Node, str]]:
    """Yield where a tensor gets its format, and its producer's result before that."""
    yield _owner(node, name)
    producer = dict(stream_operands(node)).get(name) if node.op == "call_function" else None
    maker = _owner(producer, "data_out_0")[0] if producer is not None else None
    if maker is not None and maker.op == "call_function":
        # Parts of it may be so small that its operands are coarse for them, too.
        known = common(maker).operands
        yield from ((maker, word) for word, spec in known.items() if spec.format is not None)
        yield maker, "data_out"


def _owner(node: Node, name: str) -> tuple[Node, str]:
    """Return the node whose entry decides the format of a tensor, and its word for it."""
    if _has_entry(node):
        return node, "data_out" if name == "data_out_0" else name
    while _keeps(node):
        node = stream_operands(node)[0][1]
    if _has_entry(node):
        return node, "data_out"
    # An input or a cast has the format that is asked for behind it.
    found = _taker(node)
    if found is None and node.op == "call_function" and stream_operands(node):
        return _owner(stream_operands(node)[0][1], "data_out_0")
    return found or (node, "data_out")


def _taker(node: Node) -> tuple[Node, str] | None:
    """Return the first operand with an entry that takes a result."""
    for user, name in consumers(node):
        found = (user, name) if _has_entry(user) else _taker(user)
        if found is not None:
            return found
    return None


def _has_entry(node: Node) -> bool:
    operator = operator_for(node.target) if node.op == "call_function" else None
    return operator is not None and operator.role is None and not Numeric.of(operator).keeps_format


def _keeps(node: Node) -> bool:
    operator = operator_for(node.target) if node.op == "call_function" else None
    return Numeric.of(operator).keeps_format and bool(stream_operands(node))
