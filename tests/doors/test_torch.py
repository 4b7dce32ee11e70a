"""Quantised programs and modules of torch: pt2e, torchao, fake-quantised modules."""

from __future__ import annotations

import copy
import warnings

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.emit.flow import lowered, quantize
from mase_hw.errors import CaptureError
from mase_hw.graph.reference import IntegerReference, spec


def network():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(6 * 16, 5)
    ).eval(), torch.randn(64, 3, 4, 4)


def exported_quantised():
    """Return a program of pt2e whose result is rounded, too."""
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
    from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86

    model, x = network()
    model = nn.Sequential(*model, nn.Linear(5, 5).eval())
    quantizer = x86.X86InductorQuantizer()
    quantizer.set_global(x86.get_default_x86_inductor_quantization_config())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        prepared = prepare_pt2e(torch.export.export(model, (x,)).module(), quantizer)
        prepared(x)
        return convert_pt2e(prepared), x


def fake_quantised():
    import torch.ao.quantization as ao

    model, x = network()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wrapped = ao.QuantWrapper(copy.deepcopy(model).train())
        wrapped.qconfig = ao.get_default_qat_qconfig("fbgemm")
        prepared = ao.prepare_qat(wrapped.train())
        for _ in range(5):
            prepared(x)
    prepared.eval()
    return prepared, x


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


class Codes(torch.fx.Interpreter):
    """Runs a program and keeps the integers of its quantisers."""

    def run_node(self, node):
        value = super().run_node(node)
        if str(node.target).endswith(".quantize_per_tensor.default"):
            self.codes = value
        return value


def test_a_program_of_pt2e_keeps_its_codes():
    model, x = exported_quantised()
    x = torch.randn(1000, 3, 4, 4)[: len(x)] * 1.2
    low = lowered(quantize(mase_hw.trace(model, x)))
    # What the last layer takes, rounded.
    last = next(node for node in reversed(list(low.nodes)) if node.name.startswith("linear"))
    (producer,) = [item for item in last.all_input_nodes if item.op == "call_function"]
    reference = IntegerReference(low)
    (entry,) = reference.inputs
    found = reference([spec(entry).quantized.encode(x)], [producer.name])[producer.name]
    run = Codes(model)
    with torch.no_grad():
        run.run(x)
    wanted = run.codes.reshape(found.shape).long()
    assert len(wanted.unique()) > 20
    assert int((found != wanted).sum()) == 0


def test_weights_of_torchao_keep_their_codes(tmp_path):
    from torchao.quantization import Int8WeightOnlyConfig, quantize_

    model, x = network()
    model.eval()
    quantize_(model, Int8WeightOnlyConfig())
    graph = quantize(mase_hw.trace(model, x))
    call = next(graph.call(node) for node in graph.nodes if node.name.endswith("linear_3"))
    codes = call.constant_codes("weight")
    assert torch.equal(codes, model[3].weight.qdata.long())
    torch.testing.assert_close(mase_hw.trace(model, x)(x), model(x), rtol=1e-4, atol=1e-4)


def test_a_layer_that_finds_scales_as_it_runs_is_refused():
    from torchao.quantization import Int8DynamicActivationInt8WeightConfig, quantize_

    model, x = network()
    quantize_(model, Int8DynamicActivationInt8WeightConfig())
    with pytest.raises(CaptureError, match="as it runs"):
        mase_hw.trace(model, x)
