"""Raise the masks of attention to which keys count, as an input says, and a constant."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import torch
from torch import Tensor, nn
from torch.fx import Node

from mase_hw._aten import aten
from mase_hw._kinds import Argument, Table
from mase_hw.graph import MaseGraph
from mase_hw.graph.nodes import aten_arguments, common
from mase_hw.graph.rebuild import ancestors, evaluate
from mase_hw.ops import EXCLUDED, Mask, Masked, Masking, Repeating, maskings, operator_for, scaling
from mase_hw.passes._pass import Result, graph_pass
from mase_hw.passes.canonical._rewrite import rewrite
from mase_hw.passes.canonical.common_metadata import add_common_metadata_analysis_pass

# A mask is computed of few nodes.
_LARGEST = 64
_RANDOM_PROBES = 32
_ELEMENTS_AT_ONCE = 1 << 22


@graph_pass
def raise_masks_transform_pass(mg: MaseGraph) -> Result:
    """Say of every attention which keys an input leaves out, and which a constant does.

    A mask that is computed for all queries and keys of an input `[batch, keys]`, however it is
    spelled, is tried on inputs: where it is a constant one in which the keys are left out that are
    zero in the input, or those that are not, `Masked.masked` writes the node with both. So it
    does for scores to which such a mask, or a constant one, is added, or that are filled where it
    is not. A query that sees no key at all has zeros for a result. Where a mask is the same for
    all inferences and one for each of the rows of an inference, as those of shifted windows, these
    rows become a dimension of their own.

    Args:
        mg: a graph with common metadata, constants folded.

    Returns:
        The graph, with common metadata, and `{"raised": names of the nodes}`.
    """
    mg = mg.copy()
    masks = _Masks(mg)
    opened = [node for node in mg.nodes if _open(mg, node, masks)]
    raised = [
        node.name
        for node in list(mg.nodes)
        if node.op == "call_function"
        and isinstance(operator := operator_for(node.target), Masked)
        and _raise(mg, node, operator, masks)
    ]
    if not raised and not opened:
        return mg, {"raised": raised}
    mg.fx_graph.eliminate_dead_code()
    mg.recompile()
    return add_common_metadata_analysis_pass(mg, {})[0], {"raised": raised}


def _open(mg: MaseGraph, node: Node, masks: _Masks) -> bool:
    """Read scores themselves, where the mask that is put on them hides nothing."""
    arguments = list(aten_arguments(node).values()) if node.op == "call_function" else []
    for masking in maskings(node.target, arguments):
        scores, mask = masking.scores, masking.mask
        if not isinstance(scores, Node) or not isinstance(mask, Node) or mask.op != "get_attr":
            continue
        hides = masks.of(mask, negated=masking.negated) != Mask(None, None, None)
        alike = common(scores).results.items() == common(node).results.items()
        if alike and not hides and not isinstance(mg.constant(mask), nn.Parameter):
            node.replace_all_uses_with(scores)
            return True
    return False


def _raise(mg: MaseGraph, node: Node, operator: Masked, masks: _Masks) -> bool:
    mask, scale = None, 1.0
    inputs: dict[str, Node] = {}
    if operator.mask_argument is not None:
        argument = aten_arguments(node).get(operator.mask_argument)
        if isinstance(argument, Node) and argument.op != "get_attr":
            mask = masks.of(argument)
    elif operator.masked_argument is not None:
        masked = masks.on(aten_arguments(node)[operator.masked_argument])
        if masked is not None:
            scores, mask = masked
            scaled = scaling(scores.target, list(aten_arguments(scores).values()))
            scores, scale = scaled or (scores, 1.0)
            name = operator.masked_argument
            inputs[mg.call(node).operator.operand_names.get(name, name)] = scores
    if mask is None:
        return False
    call = mg.call(node)
    if mask.kept is not None:
        inputs["kept"] = mask.kept
    parts = [item for item in (mask.seen, mask.bias) if item is not None]
    rows = max((len(item) for item in parts if item.dim() == len(call.result.shape)), default=1)

    def write(operands: Table) -> list[Argument] | None:
        own = replace(mask, kept=operands.get("kept"))
        if rows > 1:
            apart = (aten.unflatten.int(item, 0, [-1, rows]) for item in operands.values())
            operands = dict(zip(operands, apart, strict=True))
        result = operator.masked(call, operands, own, scale)
        if rows > 1 and result is not None:
            result = aten.flatten.using_ints(result, 0, 1)
        return None if result is None else [result]

    return rewrite(mg, node, call, write, inputs)


class _Masks:
    def __init__(self, mg: MaseGraph) -> None:
        self._mg = mg
        self._cache: dict[tuple[Node, bool], Mask | None] = {}

    def is_excluded(self, value: object) -> bool:
        if isinstance(value, Node):
            if value.op != "get_attr" or self._mg.constant(value).numel() != 1:
                return False
            value = float(self._mg.constant(value))
        return isinstance(value, int | float) and value <= EXCLUDED

    def on(self, data: object) -> tuple[Node, Mask] | None:
        """Return scores and their mask, where scores are masked, once or again."""
        if not isinstance(data, Node) or data.op != "call_function":
            return None
        for masking in maskings(data.target, list(aten_arguments(data).values())):
            mask = self._put_on(masking)
            if mask is None:
                continue
            deeper = None if mask.bias is not None else self.on(masking.scores)
            both = None if deeper is None else mask.with_mask(deeper[1])
            return (masking.scores, mask) if deeper is None or both is None else (deeper[0], both)
        return None

    def _put_on(self, masking: Masking) -> Mask | None:
        nodes = (masking.scores, masking.mask)
        if any(not isinstance(item, Node) for item in nodes) or masking.scores.op == "get_attr":
            return None
        if masking.value is not None and not self.is_excluded(masking.value):
            return None
        mask = self.of(masking.mask, negated=masking.negated)
        adds = masking.value is None
        return None if mask and adds and mask.kept is None and mask.seen is None else mask

    def of(self, node: Node, *, negated: bool = False) -> Mask | None:
        """Return the parts of a mask; None for other nodes.

        Args:
            node: boolean, or what is added to scores.
            negated: true for a boolean one that is true where nothing is seen.
        """
        key = (node, negated)
        if key not in self._cache:
            self._cache[key] = self._apart(node, negated)
        return self._cache[key]

    def _apart(self, node: Node, negated: bool) -> Mask | None:
        if node.op == "get_attr":
            value = self._mg.constant(node)
            return _parts(value, negated) if value.dim() else None
        inside = set(islice(ancestors(node), _LARGEST + 1))
        inputs = any(item.op == "placeholder" for item in inside)
        if len(inside) > _LARGEST or not inputs or len(common(node).results) != 1:
            return None
        keys = common(node).results["data_out_0"].shape[-1:]
        for source in self._mg.nodes:
            if source in inside and source.op != "get_attr":
                shape = common(source).results["data_out_0"].shape
                if len(shape) == 2 and shape[1:] == keys:
                    mask = self._tried(node, source, inside, negated)
                    if mask is not None:
                        return mask
        return self._same_for_all(node, inside, negated)

    def _same_for_all(self, node: Node, inside: set[Node], negated: bool) -> Mask | None:
        order = [item for item in self._mg.nodes if item in inside]
        try:
            # Of some operands the rows alone are read.
            blanks = dict[Node, dict[Node, Argument]]()
            for item in order:
                operator = operator_for(item.target) if item.op == "call_function" else None
                if isinstance(operator, Repeating):
                    like = aten_arguments(item)[operator.counted_argument]
                    blanks[item] = {like: torch.empty(common(like).results["data_out_0"].shape)}
            value = evaluate(self._mg.model, order, {}, blanks)[node]
        except (RuntimeError, KeyError):
            # It depends on more than the rows of an input.
            return None
        return _parts(value, negated)

    def _tried(self, node: Node, source: Node, inside: set[Node], negated: bool) -> Mask | None:
        spec = common(source).results["data_out_0"]
        probes = _probes(spec.shape[1])
        # Of any number, or where that is none, of ones and zeros; or those turned.
        for turned in (False, True):
            for numbers in (probes, probes.clamp(max=1)):
                rows = numbers.to(getattr(torch, spec.dtype))
                mask = self._tried_on(node, source, inside, negated, rows, turned)
                if mask is not None:
                    return mask
        return None

    def _tried_on(
        self, node: Node, source: Node, inside: set[Node], negated: bool, probes: Tensor,
        turned: bool,
    ) -> Mask | None:  # fmt: skip
        order = [item for item in self._mg.nodes if item in inside]

        def compute(rows: Tensor) -> Tensor:
            values: Tensor = evaluate(self._mg.model, order, {source: rows})[node]
            return values.expand(len(rows), *values.shape[1:])

        try:
            everything = probes[:1] * (not turned)
            first = _parts(compute(everything)[0], negated)
            if first is None:
                return None
            step = max(1, _ELEMENTS_AT_ONCE // max(1, common(node).results["data_out_0"].elements))
            for part in torch.split(probes, step):
                rows = (part == 0).to(part.dtype) if turned else part
                if not _follows(compute(rows), part, first, negated):
                    return None
        except (RuntimeError, KeyError, IndexError, TypeError):
            # It depends on something else, or does not take any batch.
            return None
        return Mask(source, first.seen, first.bias, turned)


def _probes(keys: int) -> Tensor:
    """Return inputs `[probes, keys]`: all keys, none, each alone, all but each, and random ones."""
    random = torch.randint(0, 4, (_RANDOM_PROBES, keys), generator=torch.Generator().manual_seed(0))
    one = torch.eye(keys, dtype=torch.int64)
    return torch.cat([torch.ones(1, keys, dtype=torch.int64), one * 0, one, 1 - one, random])


def _parts(value: Tensor, negated: bool) -> Mask | None:
    if value.dtype is torch.bool:
        seen = ~value if negated else value
        return Mask(None, None if bool(seen.all()) else seen, None)
    if negated or not value.is_floating_point():
        return None
    seen = value > EXCLUDED
    bias = torch.where(seen, value, 0.0)
    return Mask(None, None if bool(seen.all()) else seen, bias if bool(bias.any()) else None)


def _follows(values: Tensor, rows: Tensor, first: Mask, negated: bool) -> bool:
    """True if masks are the first one, without the keys that are zero in each row."""
    kept = (rows != 0).reshape(len(rows), *[1] * (values.dim() - 2), -1)
    seen = kept if first.seen is None else kept & first.seen
    if values.dtype is torch.bool:
        return torch.equal(values ^ negated, seen.expand_as(values))
    if not torch.equal(values > EXCLUDED, seen.expand_as(values)):
        return False
    bias = torch.zeros(()) if first.bias is None else first.bias
    return torch.equal(
        torch.where(seen, values, 0.0), torch.where(seen, bias.to(values), 0.0).expand_as(values)
    )
