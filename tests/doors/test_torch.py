"""Quantised programs and modules of torch: pt2e, torchao, fake-quantised modules."""

from __future__ import annotations

import pytest
import torch

import mase_hw
from mase_hw.emit.flow import lowered, quantize
from mase_hw.errors import CaptureError
from mase_hw.graph.reference import IntegerReference, spec
from tests.doors.torch_models import codes_of as integers_of
from tests.doors.torch_models import (
    exported_quantised,
    fake_quantised,
    last_rounded,
    network,
    weights_only,
)


def codes_of(model, x):
    low = lowered(quantize(mase_hw.trace(model, x)))
    reference = IntegerReference(low)
    (entry,), (output,) = reference.inputs, reference.outputs
    return reference([spec(entry).quantized.encode(x)])[output.name], spec(output).quantized, low


def test_fake_quantised_modules_keep_their_codes():
    import torch.ao.quantization as ao

    model, x = fake_quantised()
    with pytest.raises(CaptureError, match="disable_observer"):
        mase_hw.trace(model, x)
    model.apply(ao.disable_observer)
    more = torch.randn(1000, 3, 4, 4) * 1.2
    found, number, _ = codes_of(model, more)
    wanted = number.encode(model(more).detach()).reshape(found.shape)
    assert len(wanted.unique()) > 20
    assert int((found != wanted).sum()) == 0


def test_a_program_of_pt2e_keeps_its_codes():
    model, x = exported_quantised()
    x = torch.randn(1000, 3, 4, 4)[: len(x)] * 1.2
    low = lowered(quantize(mase_hw.trace(model, x)))
    producer = last_rounded(low)
    reference = IntegerReference(low)
    (entry,) = reference.inputs
    found = reference([spec(entry).quantized.encode(x)], [producer.name])[producer.name]
    wanted = integers_of(model, x).reshape(found.shape).long()
    assert len(wanted.unique()) > 20
    assert int((found != wanted).sum()) == 0


def test_weights_of_torchao_keep_their_codes(tmp_path):
    model, x = weights_only()
    graph = quantize(mase_hw.trace(model, x))
    call = next(graph.call(node) for node in graph.nodes if node.name.endswith("linear_3"))
    codes = call.constant_codes("weight")
    assert torch.equal(codes, model[3].weight.qdata.long())
    torch.testing.assert_close(mase_hw.trace(model, x)(x), model(x), rtol=1e-4, atol=1e-4)


def test_weights_of_torchao_keep_their_zero_points():
    from torchao.quantization import IntxWeightOnlyConfig, MappingType, PerAxis, quantize_

    model, x = network()
    options = {"granularity": PerAxis(0), "mapping_type": MappingType.ASYMMETRIC}
    quantize_(model, IntxWeightOnlyConfig(weight_dtype=torch.int8, **options))
    assert model[3].weight.zero_point.any()
    torch.testing.assert_close(mase_hw.trace(model, x)(x), model(x), rtol=1e-4, atol=1e-4)


def test_a_layer_that_finds_scales_as_it_runs_is_refused():
    from torchao.quantization import Int8DynamicActivationInt8WeightConfig, quantize_

    model, x = network()
    quantize_(model, Int8DynamicActivationInt8WeightConfig())
    with pytest.raises(CaptureError, match="as it runs"):
        mase_hw.trace(model, x)
