"""A network quantised by the tools of torch: pt2e, fake-quantised modules, weights of torchao."""

from __future__ import annotations

import copy
import warnings

import torch
from torch import nn


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


def weights_only():
    from torchao.quantization import Int8WeightOnlyConfig, quantize_

    model, x = network()
    quantize_(model, Int8WeightOnlyConfig())
    return model, x


class Codes(torch.fx.Interpreter):
    """Runs a program and keeps the integers of its quantisers."""

    def run_node(self, node):
        value = super().run_node(node)
        if str(node.target).endswith(".quantize_per_tensor.default"):
            self.codes = value
        return value


def codes_of(program, x):
    run = Codes(program)
    with torch.no_grad():
        run.run(x)
    return run.codes


def last_rounded(low):
    """Return the node whose result the last layer takes, rounded."""
    last = next(node for node in reversed(list(low.nodes)) if node.name.startswith("linear"))
    (producer,) = [item for item in last.all_input_nodes if item.op == "call_function"]
    return producer
