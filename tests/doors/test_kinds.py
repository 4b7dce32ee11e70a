"""Networks of other libraries, one of each kind: codes are those of the library's own forward."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch.utils._pytree import tree_leaves

import mase_hw
from mase_hw.emit.flow import lowered, quantize
from mase_hw.errors import MaseError
from mase_hw.graph._given import plain
from mase_hw.graph.nodes import metadata
from mase_hw.graph.reference import IntegerReference, spec
from tests.doors.kinds import KINDS

for library in ("brevitas", "torchao"):
    pytest.importorskip(library)

# What has no hardware, by a part of the message that says why, or what to give instead.
REFUSED = {
    "brevitas_cat_of_unlike_scales_alone": "takes it as fixed",
    "brevitas_float8": "FloatQuant of Brevitas",
    "brevitas_mx": "in groups",
    "brevitas_mx_float": "in groups",
    "brevitas_sigmoid_and_tanh": "before it is rounded",
    "torchao_dynamic": "as it runs",
    "torchao_float8_weights": "sums take",
    "torchao_int4_qat_dynamic": "as it runs",
    "torchao_int4_qat_weights": "one scale for each channel",
    "torchao_int4_weights_in_groups": "one scale for each channel",
    "x86_qat": "before it is rounded",
    "x86_residual": "before it is rounded",
    "xnnpack_dynamic": "quantise statically",
}


def differing(model, x):
    """Return by result how many codes differ from the model's, and how many values there are."""
    low = lowered(quantize(mase_hw.trace(model, x)))
    reference = IntegerReference(low)
    (entry,) = reference.inputs
    if not metadata(entry).roundings and x.is_floating_point():
        # What the model does not round has our format.
        x = spec(entry).quantized.round_values(x)
    found = reference([spec(entry).quantized.encode(x if low.batched else x[None])])
    with torch.no_grad():
        results = [item for item in tree_leaves(plain(model(x))) if isinstance(item, torch.Tensor)]
    for node, result in zip(reference.outputs, results, strict=True):
        number = spec(node).quantized
        codes = found[node.name].reshape(result.shape)
        yield int((codes != number.encode(result)).sum()), len(codes.unique())


@pytest.mark.first("brevitas_upsample", "torch_ao_converted")
@pytest.mark.parametrize("name", KINDS)
def test_codes_are_the_librarys_own(name):
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model, x = KINDS[name]()
        if name in REFUSED:
            with pytest.raises(MaseError, match=REFUSED[name]):
                list(differing(model, x))
            return
        counts = list(differing(model, x))
    assert counts
    for off, values in counts:
        assert off == 0
        assert values > 2
