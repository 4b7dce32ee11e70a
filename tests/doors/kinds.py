"""Small networks quantised by other libraries, one of each kind: `KINDS[name]()` builds one.

A builder returns a model that computes what it will in hardware, and inputs of four inferences or
more; files are built by `onnx_kinds`.
"""

from __future__ import annotations

import warnings

import torch
import torch.nn.functional as F
from torch import nn

KINDS = {}


def kind(function):
    KINDS[function.__name__] = function
    return function


def _inputs(*shape):
    return torch.randn(64, *shape, generator=torch.Generator().manual_seed(0))


def _calibrated(model, *shape):
    """Run a model in training mode, as scales that are statistics of inputs need it."""
    x = _inputs(*shape)
    model.train()
    for _ in range(3):
        model(x)
    return model.eval(), x


class Compose(nn.Module):
    """A network whose forward is written beside its layers."""

    def __init__(self, forward, **layers):
        super().__init__()
        self.layers = nn.ModuleDict(layers)
        self.computed = forward

    def forward(self, x):
        return self.computed(self.layers, x)


def _brevitas(forward, shape, **layers):
    return _calibrated(Compose(forward, **layers), *shape)


def _between(shape, layers, **entry):
    """Brevitas layers in a row between a rounding of the input and one of the result."""
    import brevitas.nn as qnn

    first = qnn.QuantIdentity(return_quant_tensor=True, **entry)
    return _calibrated(nn.Sequential(first, *layers, qnn.QuantIdentity(bit_width=8)), *shape)


@kind
def brevitas_identity_alone():
    import brevitas.nn as qnn

    return _calibrated(nn.Sequential(qnn.QuantIdentity(bit_width=5)), 7)


@kind
def brevitas_quant_tensor_result():
    import brevitas.nn as qnn

    layers = [qnn.QuantIdentity(return_quant_tensor=True), qnn.QuantLinear(6, 4, bias=True),
              qnn.QuantReLU(bit_width=4, return_quant_tensor=True)]  # fmt: skip
    return _calibrated(nn.Sequential(*layers), 6)


@kind
def brevitas_layer_with_output_quant():
    import brevitas.nn as qnn
    from brevitas.quant import Int8ActPerTensorFloat, Int32Bias

    layer = qnn.QuantLinear(
        6, 4, bias=True, input_quant=Int8ActPerTensorFloat, output_quant=Int8ActPerTensorFloat,
        bias_quant=Int32Bias, return_quant_tensor=True,
    )  # fmt: skip
    return _calibrated(nn.Sequential(layer), 6)


@kind
def brevitas_upsample():
    import brevitas.nn as qnn

    layers = [qnn.QuantReLU(bit_width=4, return_quant_tensor=True),
              qnn.QuantUpsample(scale_factor=2), qnn.QuantConv2d(2, 2, 3)]  # fmt: skip
    return _between((2, 4, 4), layers)


@kind
def brevitas_upsampling_nearest():
    import brevitas.nn as qnn

    layers = [qnn.QuantUpsamplingNearest2d(scale_factor=2, return_quant_tensor=True),
              qnn.QuantConv2d(2, 2, 3, weight_bit_width=3)]  # fmt: skip
    return _between((2, 4, 4), layers)


@kind
def brevitas_trunc_pool():
    import brevitas.nn as qnn
    from brevitas.quant import TruncTo8bit

    layers = [qnn.QuantReLU(bit_width=6, return_quant_tensor=True),
              qnn.TruncAvgPool2d(2, trunc_quant=TruncTo8bit, bit_width=5),
              qnn.QuantConv2d(2, 3, 1)]  # fmt: skip
    return _between((2, 4, 4), layers)


@kind
def brevitas_trunc_adaptive_pool():
    import brevitas.nn as qnn

    layers = [qnn.QuantReLU(bit_width=4, return_quant_tensor=True),
              qnn.TruncAdaptiveAvgPool2d(1, bit_width=4), nn.Flatten(),
              qnn.QuantLinear(2, 3, bias=True)]  # fmt: skip
    return _between((2, 4, 4), layers)


@kind
def brevitas_sum_read_by_layer():
    import brevitas.nn as qnn

    shared = qnn.QuantIdentity(bit_width=4, return_quant_tensor=True)

    def forward(m, x):
        x = m["x"](x)
        return m["out"](m["last"](m["shared"](m["a"](x)) + m["shared"](m["b"](x))))

    return _brevitas(
        forward, (2, 4, 4), x=qnn.QuantIdentity(return_quant_tensor=True), shared=shared,
        a=qnn.QuantConv2d(2, 3, 3, padding=1, weight_bit_width=4),
        b=qnn.QuantConv2d(2, 3, 1, weight_bit_width=4),
        last=qnn.QuantConv2d(3, 2, 1, weight_bit_width=3), out=qnn.QuantIdentity(bit_width=8),
    )  # fmt: skip


@kind
def brevitas_eltwise_add():
    import brevitas.nn as qnn

    return _brevitas(
        lambda m, x: m["out"](m["last"](m["sum"](m["a"](m["x"](x)), m["x"](x)))), (3, 4, 4),
        x=qnn.QuantIdentity(return_quant_tensor=True), a=qnn.QuantConv2d(3, 3, 3, padding=1),
        sum=qnn.QuantEltwiseAdd(return_quant_tensor=True), last=qnn.QuantConv2d(3, 2, 1),
        out=qnn.QuantIdentity(bit_width=8),
    )  # fmt: skip


@kind
def brevitas_cat_of_unlike_scales():
    import brevitas.nn as qnn

    return _brevitas(
        lambda m, x: m["out"](
            m["last"](torch.cat([m["qa"](m["a"](m["x"](x))), m["qb"](m["b"](m["x"](x)))], 1))
        ),
        (2, 4, 4), x=qnn.QuantIdentity(bit_width=4),
        a=qnn.QuantConv2d(2, 3, 1, weight_bit_width=4, bias=False), qa=qnn.QuantReLU(bit_width=2),
        b=qnn.QuantConv2d(2, 3, 1, weight_bit_width=4, bias=False), qb=qnn.QuantReLU(bit_width=8),
        last=qnn.QuantConv2d(6, 2, 1, weight_bit_width=4, bias=False),
        out=qnn.QuantIdentity(bit_width=8),
    )  # fmt: skip


@kind
def brevitas_cat_of_unlike_scales_alone():
    import brevitas.nn as qnn

    return _brevitas(
        lambda m, x: torch.cat([m["a"](x), m["b"](x)], 1), (5,),
        a=qnn.QuantReLU(bit_width=4), b=qnn.QuantIdentity(bit_width=6),
    )  # fmt: skip


@kind
def brevitas_binary():
    import brevitas.nn as qnn
    from brevitas.quant import SignedBinaryActPerTensorConst as Act
    from brevitas.quant import SignedBinaryWeightPerTensorConst as Weight

    given = {"weight_quant": Weight, "bias": False}
    layers = [qnn.QuantLinear(8, 8, **given), nn.BatchNorm1d(8), qnn.QuantIdentity(act_quant=Act),
              qnn.QuantLinear(8, 4, **given)]  # fmt: skip
    return _between((8,), layers, act_quant=Act)


@kind
def brevitas_ternary():
    import brevitas.nn as qnn
    from brevitas.quant import SignedTernaryActPerTensorConst as Act
    from brevitas.quant import SignedTernaryWeightPerTensorConst as Weight

    given = {"weight_quant": Weight, "bias": False}
    layers = [qnn.QuantLinear(8, 8, **given), qnn.QuantIdentity(act_quant=Act),
              qnn.QuantLinear(8, 4, **given)]  # fmt: skip
    return _between((8,), layers)


@kind
def brevitas_lstm():
    import brevitas.nn as qnn
    from brevitas.quant import Int8ActPerTensorFloat

    lstm = qnn.QuantLSTM(4, 3, batch_first=True, io_quant=Int8ActPerTensorFloat)
    return _brevitas(lambda m, x: m["lstm"](m["x"](x))[0], (5, 4), x=qnn.QuantIdentity(), lstm=lstm)


@kind
def brevitas_rnn():
    import brevitas.nn as qnn

    rnn = qnn.QuantRNN(4, 3, batch_first=True)
    return _brevitas(lambda m, x: m["rnn"](m["x"](x))[0], (5, 4), x=qnn.QuantIdentity(), rnn=rnn)


@kind
def brevitas_attention():
    import brevitas.nn as qnn

    attention = qnn.QuantMultiheadAttention(
        8, 2, batch_first=True, packed_in_proj=False, attn_output_weights_bit_width=8
    )
    return _brevitas(
        lambda m, x: m["out"](m["mha"](m["x"](x), m["x"](x), m["x"](x))[0]), (5, 8),
        x=qnn.QuantIdentity(return_quant_tensor=True), mha=attention, out=qnn.QuantIdentity(),
    )  # fmt: skip


@kind
def brevitas_bias_of_32_bits():
    import brevitas.nn as qnn
    from brevitas.quant import Int8WeightPerChannelFloat, Int32Bias

    layer = qnn.QuantConv2d(
        2, 3, 3, bias=True, bias_quant=Int32Bias, weight_quant=Int8WeightPerChannelFloat
    )
    return _between((2, 5, 5), [layer, qnn.QuantReLU(bit_width=5)])


@kind
def brevitas_bias_of_8_bits():
    import brevitas.nn as qnn
    from brevitas.quant import Int8BiasPerTensorFloatInternalScaling as Bias

    return _between((6,), [qnn.QuantLinear(6, 4, bias=True, bias_quant=Bias)])


@kind
def brevitas_hard_tanh():
    import brevitas.nn as qnn

    act = qnn.QuantHardTanh(bit_width=4, min_val=-1.0, max_val=1.0, return_quant_tensor=True)
    return _between((6,), [qnn.QuantLinear(6, 4, bias=True), act, qnn.QuantLinear(4, 3, bias=True)])


@kind
def brevitas_sigmoid_and_tanh():
    import brevitas.nn as qnn

    layers = [qnn.QuantLinear(6, 4, bias=True), qnn.QuantSigmoid(bit_width=6),
              qnn.QuantLinear(4, 3, bias=True), qnn.QuantTanh(bit_width=6)]  # fmt: skip
    return _between((6,), layers)


@kind
def brevitas_depthwise_by_channel():
    import brevitas.nn as qnn
    from brevitas.quant import Int8WeightPerChannelFloat

    layers = [qnn.QuantConv2d(4, 4, 3, groups=4, weight_quant=Int8WeightPerChannelFloat),
              nn.BatchNorm2d(4), qnn.QuantReLU(bit_width=4)]  # fmt: skip
    return _between((4, 5, 5), layers)


@kind
def brevitas_transposed():
    import brevitas.nn as qnn

    return _between((2, 4, 4), [qnn.QuantConvTranspose2d(2, 3, 2, stride=2, weight_bit_width=4)])


@kind
def brevitas_conv1d():
    import brevitas.nn as qnn

    return _between((2, 9), [qnn.QuantConv1d(2, 3, 3, weight_bit_width=4), qnn.QuantReLU()])


@kind
def brevitas_fixed_point():
    import brevitas.nn as qnn
    from brevitas.quant import Int8ActPerTensorFixedPoint as Act
    from brevitas.quant import Int8WeightPerTensorFixedPoint as Weight
    from brevitas.quant import Uint8ActPerTensorFixedPoint as Positive

    layers = [qnn.QuantConv2d(2, 3, 3, weight_quant=Weight, bias=False),
              qnn.QuantReLU(act_quant=Positive), nn.MaxPool2d(2)]  # fmt: skip
    return _between((2, 6, 6), layers, act_quant=Act)


@kind
def brevitas_zero_points():
    import brevitas.nn as qnn
    from brevitas.quant import ShiftedUint8ActPerTensorFloat as Act
    from brevitas.quant import ShiftedUint8WeightPerTensorFloat as Weight

    layers = [qnn.QuantLinear(6, 5, bias=True, weight_quant=Weight),
              qnn.QuantIdentity(act_quant=Act), qnn.QuantLinear(5, 3, bias=True)]  # fmt: skip
    return _between((6,), layers, act_quant=Act)


@kind
def brevitas_scale_bias():
    import brevitas.nn as qnn

    scale = qnn.QuantScaleBias(4, bias=True, runtime_shape=(1, -1))
    return _between((6,), [qnn.QuantLinear(6, 4, bias=True), qnn.QuantIdentity(), scale])


@kind
def brevitas_accumulator_aware():
    import brevitas.nn as qnn
    from brevitas.quant import Int8AccumulatorAwareWeightQuant as Weight

    layer = qnn.QuantConv2d(2, 3, 3, weight_quant=Weight, weight_accumulator_bit_width=12)
    return _between((2, 5, 5), [layer, qnn.QuantReLU(bit_width=4)])


@kind
def brevitas_decoupled():
    import brevitas.nn as qnn
    from brevitas.quant import Int8WeightPerChannelFloatDecoupled as Weight

    return _between((6,), [qnn.QuantLinear(6, 5, bias=True, weight_quant=Weight)])


@kind
def brevitas_embedding():
    import brevitas.nn as qnn

    model = nn.Sequential(qnn.QuantEmbedding(11, 4, weight_bit_width=4))
    return model.eval(), torch.randint(0, 11, (64, 5), generator=torch.Generator().manual_seed(0))


@kind
def brevitas_float8():
    import brevitas.nn as qnn
    from brevitas.quant.experimental.float_quant_ocp import Fp8e4m3OCPActPerTensorFloat as Act
    from brevitas.quant.experimental.float_quant_ocp import Fp8e4m3OCPWeightPerTensorFloat as Weight

    return _between((6,), [qnn.QuantLinear(6, 4, weight_quant=Weight, bias=False)], act_quant=Act)


@kind
def brevitas_mx():
    import brevitas.nn as qnn
    from brevitas.quant.experimental.mx_quant_ocp import MXInt8Act, MXInt8Weight

    layer = qnn.QuantLinear(32, 4, bias=False, weight_quant=MXInt8Weight, input_quant=MXInt8Act)
    return _calibrated(nn.Sequential(layer), 32)


@kind
def brevitas_mx_float():
    import brevitas.nn as qnn
    from brevitas.quant.experimental.mx_quant_ocp import MXFloat8e4m3Act, MXFloat8e4m3Weight

    layer = qnn.QuantLinear(
        32, 4, bias=False, weight_quant=MXFloat8e4m3Weight, input_quant=MXFloat8e4m3Act
    )
    return _calibrated(nn.Sequential(layer), 32)


def _qat(model, *shape, backend="fbgemm", fuse=None):
    import torch.ao.quantization as ao

    x = _inputs(*shape)
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if fuse:
            model = ao.fuse_modules_qat(model.train(), fuse)
        wrapped = ao.QuantWrapper(model.train())
        wrapped.qconfig = ao.get_default_qat_qconfig(backend)
        prepared = ao.prepare_qat(wrapped.train())
        for _ in range(5):
            prepared(x)
    prepared.eval()
    prepared.apply(ao.disable_observer)
    return prepared, x


def _conv_net(*behind):
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(2, 3, 3, padding=1), nn.BatchNorm2d(3), nn.ReLU(), *behind)


@kind
def ao_qat_conv_norm():
    layers = nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.Conv2d(3, 2, 1))
    return _qat(layers, 2, 5, 5, fuse=[["0", "1"]])


@kind
def ao_qat_conv_norm_relu():
    behind = nn.MaxPool2d(2), nn.Flatten(), nn.Linear(12, 4)
    return _qat(_conv_net(*behind), 2, 4, 4, fuse=[["0", "1", "2"]])


@kind
def ao_qat_linear_norm():
    layers = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Linear(5, 3))
    return _qat(layers, 6, fuse=[["0", "1"]])


@kind
def ao_qat_qnnpack():
    return _qat(_conv_net(nn.Conv2d(3, 2, 1)), 2, 4, 4, backend="qnnpack", fuse=[["0", "1", "2"]])


class _Skip(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.norm = nn.Conv2d(2, 3, 3, padding=1), nn.BatchNorm2d(3)
        self.second = nn.Conv2d(3, 3, 3, padding=1)
        self.add = torch.ao.nn.quantized.FloatFunctional()
        self.last = nn.Linear(108, 4)

    def forward(self, x):
        x = F.relu(self.norm(self.first(x)))
        return self.last(self.add.add(x, self.second(x)).flatten(1))


@kind
def ao_qat_residual():
    return _qat(_Skip(), 2, 6, 6)


def _fx(model, *shape, reference=False):
    from torch.ao.quantization import QConfigMapping, disable_observer, get_default_qat_qconfig
    from torch.ao.quantization.quantize_fx import convert_to_reference_fx, prepare_qat_fx

    x = _inputs(*shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mapping = QConfigMapping().set_global(get_default_qat_qconfig("fbgemm"))
        prepared = prepare_qat_fx(model.train(), mapping, (x,))
        for _ in range(5):
            prepared(x)
        prepared.eval()
        if reference:
            return convert_to_reference_fx(prepared), x
    prepared.apply(disable_observer)
    return prepared, x


@kind
def ao_fx_qat():
    return _fx(_conv_net(nn.Flatten(), nn.Linear(108, 4)), 2, 6, 6)


@kind
def ao_fx_reference():
    return _fx(_conv_net(nn.Flatten(), nn.Linear(48, 4)), 2, 4, 4, reference=True)


@kind
def torch_ao_converted():
    import torch.ao.quantization as ao

    prepared, x = _qat(_conv_net(nn.Conv2d(3, 2, 1)), 2, 4, 4, fuse=[["0", "1", "2"]])
    return ao.convert(prepared), x


def _exported(model, quantizer, *shape, qat=False, **kwargs):
    from torchao.quantization.pt2e import move_exported_model_to_eval as to_eval
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e, prepare_qat_pt2e

    x = _inputs(*shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = model.train() if qat else model.eval()
        program = torch.export.export(model, (x,), **kwargs).module()
        prepared = (prepare_qat_pt2e if qat else prepare_pt2e)(program, quantizer)
        for _ in range(3):
            prepared(x)
        if qat:
            to_eval(prepared)
        return convert_pt2e(prepared), x


def _xnnpack(**given):
    from torchao.testing.pt2e import _xnnpack_quantizer as xnnpack

    quantizer = xnnpack.XNNPACKQuantizer()
    return quantizer.set_global(xnnpack.get_symmetric_quantization_config(**given))


def _x86(**given):
    from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86

    quantizer = x86.X86InductorQuantizer()
    return quantizer.set_global(x86.get_default_x86_inductor_quantization_config(**given))


def _perceptron():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))


class _Plain(nn.Module):
    """Convolutions around a sum, a concatenation, and pools."""

    def __init__(self, joined=False, relu=True):
        super().__init__()
        torch.manual_seed(0)
        self.joined, self.relu = joined, relu
        self.first, self.norm = nn.Conv2d(2, 3, 3, padding=1), nn.BatchNorm2d(3)
        self.second = nn.Conv2d(3, 3, 3, padding=1)
        self.third = nn.Conv2d(6 if joined else 3, 3, 1)
        self.last = nn.Linear(3, 4)

    def forward(self, x):
        x = F.relu(self.norm(self.first(x)))
        y = self.second(x)
        y = torch.cat([x, y], 1) if self.joined else x + y
        y = self.third(F.relu(y) if self.relu else y)
        return self.last(F.adaptive_avg_pool2d(F.max_pool2d(y, 2), 1).flatten(1))


@kind
def xnnpack_linear():
    return _exported(_perceptron(), _xnnpack(), 6)


@kind
def xnnpack_residual():
    return _exported(_Plain(), _xnnpack(is_per_channel=True), 2, 6, 6)


@kind
def xnnpack_residual_without_relu():
    return _exported(_Plain(relu=False), _xnnpack(), 2, 6, 6)


@kind
def xnnpack_concatenation():
    return _exported(_Plain(joined=True), _xnnpack(is_per_channel=True), 2, 6, 6)


@kind
def xnnpack_qat():
    given = {"is_qat": True, "is_per_channel": True}
    return _exported(
        _conv_net(nn.Flatten(), nn.Linear(48, 4)), _xnnpack(**given), 2, 4, 4, qat=True
    )


@kind
def xnnpack_dynamic():
    return _exported(_perceptron(), _xnnpack(is_dynamic=True), 6)


@kind
def xnnpack_mul():
    class Gate(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.a, self.b = nn.Linear(6, 5), nn.Linear(6, 5)

        def forward(self, x):
            return self.a(x) * F.hardtanh(self.b(x))

    return _exported(Gate(), _xnnpack(), 6)


@kind
def x86_linear():
    return _exported(_perceptron(), _x86(), 6)


@kind
def x86_residual():
    return _exported(_Plain(), _x86(), 2, 6, 6)


@kind
def x86_concatenation():
    return _exported(_Plain(joined=True), _x86(), 2, 6, 6)


@kind
def x86_qat():
    return _exported(_Plain(), _x86(is_qat=True), 2, 4, 4, qat=True)


@kind
def x86_fixed_batch_as_pool():
    model = _conv_net(nn.AvgPool2d(3), nn.Conv2d(3, 2, 1), nn.Hardtanh())
    return _exported(model, _x86(), 2, 6, 6)


class _Rounded(nn.Module):
    def forward(self, x):
        return torch.fake_quantize_per_tensor_affine(x, 0.031, 3, -128, 127)


def _torchao(config):
    from torchao.quantization import quantize_

    torch.manual_seed(0)
    model = nn.Sequential(_Rounded(), nn.Linear(64, 32), nn.ReLU(), _Rounded(), nn.Linear(32, 32))
    model.eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quantize_(model, config)
    return model, _inputs(64)


@kind
def torchao_int8_weights():
    from torchao.quantization import Int8WeightOnlyConfig

    return _torchao(Int8WeightOnlyConfig())


@kind
def torchao_int4_weights_in_groups():
    from torchao.quantization import IntxWeightOnlyConfig, PerGroup

    return _torchao(IntxWeightOnlyConfig(torch.int4, granularity=PerGroup(32)))


@kind
def torchao_int4_weights_by_row():
    from torchao.quantization import IntxWeightOnlyConfig, PerAxis

    return _torchao(IntxWeightOnlyConfig(torch.int4, granularity=PerAxis(0)))


@kind
def torchao_static():
    from torchao.quantization import Int8StaticActivationInt8WeightConfig
    from torchao.quantization.granularity import PerTensor

    config = Int8StaticActivationInt8WeightConfig(
        act_quant_scale=torch.tensor([[0.0213]]), granularity=PerTensor()
    )
    return _torchao(config)


@kind
def torchao_dynamic():
    from torchao.quantization import Int8DynamicActivationInt8WeightConfig

    return _torchao(Int8DynamicActivationInt8WeightConfig())


@kind
def torchao_float8_weights():
    from torchao.quantization import Float8WeightOnlyConfig

    return _torchao(Float8WeightOnlyConfig())


@kind
def torchao_int4_qat_weights():
    from torchao.quantization.qat import IntxFakeQuantizeConfig, QATConfig

    weights = IntxFakeQuantizeConfig(torch.int4, group_size=32)
    return _torchao(QATConfig(weight_config=weights, step="prepare"))


@kind
def torchao_int4_qat_dynamic():
    from torchao.quantization.qat import IntxFakeQuantizeConfig, QATConfig

    inputs = IntxFakeQuantizeConfig(torch.int8, "per_token", is_symmetric=False)
    weights = IntxFakeQuantizeConfig(torch.int4, group_size=32)
    return _torchao(QATConfig(activation_config=inputs, weight_config=weights, step="prepare"))
