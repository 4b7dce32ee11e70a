"""The modules of element-wise operators and casts against their references, bit by bit."""

import numpy as np
import pytest
import torch

from mase_hw.cells.rom_source import pack_words
from mase_hw.formats import make_format
from mase_hw.ops import Call, TensorSpec, operators
from mase_hw.timing.order import room
from mase_hw.timing.stages import NodeStages
from tests.rtl_bench import FIRST_CYCLE, PRESSURE_MODES, Bench, cell_case, lint

SHAPE = (1, 2, 6)
INFERENCES = 8
FIXED = {"name": "fixed", "width": 8, "frac_width": 4}
UNSIGNED = {**FIXED, "width": 6, "frac_width": 2, "signed": False, "rounding": "floor"}
WRAPPING = {**FIXED, "width": 9, "frac_width": 7, "overflow": "wrap", "rounding": "toward_zero"}
E4M3 = {"name": "fp8_e4m3"}
IEEE = {"name": "fp8_e5m2", "saturate": False}
MXINT = {"name": "mxint", "width": 6, "block_size": 4}
SHORT = {"name": "mxint", "width": 4, "block_size": 2, "exponent_width": 5}
BLOCK_FP = {"name": "block_fp", "width": 5, "block_size": 4}
MXFP4 = {"name": "mxfp4", "block_size": 4}
NVFP4 = {"name": "nvfp4"}
TERNARY = {"name": "ternary", "scale": 1.0}
SCALED = {"name": "scaled_integer", "width": 8, "scale": 0.3}
LOG = {"name": "log", "width": 5}

BINARY = [(FIXED, UNSIGNED, WRAPPING), (WRAPPING, FIXED, UNSIGNED), (IEEE, E4M3, IEEE),
          (E4M3, UNSIGNED, FIXED), (MXINT, SHORT, BLOCK_FP), (SHORT, SHORT, SHORT)]  # fmt: skip
UNARY = [("gelu", E4M3, IEEE), ("tanh", IEEE, UNSIGNED), ("exp", MXINT, SHORT),
         ("gelu", SHORT, BLOCK_FP), ("sigmoid", UNSIGNED, WRAPPING)]  # fmt: skip
CASTS = [(FIXED, UNSIGNED), (UNSIGNED, WRAPPING), (FIXED, MXINT), (MXINT, E4M3), (E4M3, MXFP4),
         (MXFP4, FIXED), (NVFP4, MXINT), (FIXED, NVFP4), (TERNARY, LOG), (LOG, TERNARY),
         (SCALED, FIXED), (E4M3, SCALED), (BLOCK_FP, SHORT)]  # fmt: skip


def element_call(name: str, *formats: dict[str, object], **attributes: object) -> Call:
    spec = TensorSpec(SHAPE, parallelism=(2, 2))
    *given, result = (spec.with_format(make_format(item)) for item in formats)
    operands = {f"data_in_{number}": item for number, item in enumerate(given)}
    call = Call(name, operators()[name], operands, {"data_out_0": result}, attributes=attributes)
    assert call.operator.problems(call) == []
    return call


def _words(spec: TensorSpec, beats: torch.Tensor) -> list[int]:
    octets = pack_words(spec.quantized, beats, spec.parallelism[0])
    return [int.from_bytes(row.tobytes(), "little") for row in octets]


def element_calls() -> dict[str, Call]:
    calls = {
        f"{name}_{number}": element_call(name, *formats)
        for name in ("add", "sub", "mul")
        for number, formats in enumerate(BINARY)
    }
    calls |= {f"unary_{number}": element_call(*given) for number, given in enumerate(UNARY)}
    calls |= {f"cast_{number}": element_call("cast", *given) for number, given in enumerate(CASTS)}
    calls["div"] = element_call("div", FIXED, WRAPPING, divisor=4.0)
    calls["div_negative"] = element_call("div", UNSIGNED, FIXED, divisor=-0.5)
    return calls


def random_codes(spec: TensorSpec, generator: torch.Generator) -> torch.Tensor:
    """Return codes, of floats all patterns, infinities and NaN too."""
    number, shape = spec.quantized, (INFERENCES, *spec.shape[1:])
    if number.name == "fp8_e5m2":
        return torch.randint(0, 1 << number.layout.width, shape, generator=generator)
    codes = number.random_codes(shape, generator)
    if number.encoding.is_block:
        # Scales that meet: those of random codes are far apart.
        values = torch.randn(shape, generator=generator) * 4
        codes = number.encode(values.double())
    return codes


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    generator = torch.Generator().manual_seed(4)
    cases, expected, calls = [], {}, element_calls()
    for name, call in calls.items():
        codes = {key: random_codes(spec, generator) for key, spec in call.operands.items()}
        inputs = {}
        for key, spec in call.operands.items():
            beats = spec.to_beats(codes[key])
            inputs[key] = _words(spec, beats)
        cases.append(cell_case(name, call.operator.hardware(call).main, inputs))
        result, found = call.result, call.operator.reference(call)(*codes.values())
        expected[name] = _words(result, result.to_beats(found))
    return Bench(cases, tmp_path_factory.mktemp("bench")), expected, calls


@pytest.mark.full
@pytest.mark.parametrize("mode", PRESSURE_MODES)
def test_modules_equal_their_references(bench, mode):
    compiled, expected, _ = bench
    used = {case.module for case in compiled.cases}
    assert len(used) == 7
    for name, output in compiled.run(mode).items():
        assert output.complaints == []
        assert output.beats == list(expected[name]), name


@pytest.mark.full
def test_results_are_offered_when_predicted(bench):
    compiled, _, calls = bench
    for name, output in compiled.run("none").items():
        netlist = calls[name].operator.hardware(calls[name])
        arrivals = {key: np.arange(port.beats * INFERENCES) for key, port in netlist.inputs.items()}
        _, predicted = NodeStages(netlist, arrivals).run(arrivals)
        assert output.offered == [FIRST_CYCLE + cycle for cycle in predicted.tolist()], name


@pytest.mark.full
def test_modules_are_clean_for_verilator(bench, tmp_path):
    for case in bench[0].cases:
        lint(case, tmp_path)


def test_batch_norm_is_an_exact_product_and_a_rounded_sum():
    spec = TensorSpec((1, 4, 3), parallelism=(1, 3))
    fixed = make_format(FIXED)
    number = {
        name: TensorSpec((4,)).with_format(fixed) for name in ("weight", "bias", "mean", "variance")
    }
    operator = operators()["batch_norm"]
    given = Call(
        "norm",
        operator,
        {"data_in_0": spec.with_format(fixed), **number},
        {"data_out_0": spec.with_format(make_format(UNSIGNED))},
        {name: torch.arange(1, 5) / 4 for name in number},
        {"eps": 1e-5},
    )
    call = operator.bind(given)
    netlist = call.operator.hardware(call)
    product, total = netlist.cells["product_inst"], netlist.main
    assert (product.multipliers, total.multipliers, netlist.multipliers) == (3, 0, 3)
    assert product.data_out_0.width == 16 and product.data_out_0.fraction == 8
    arrivals = {"data_in_0": np.array([5, 9, 10, 30])}
    assert NodeStages(netlist, arrivals).run(arrivals)[1].tolist() == [15, 19, 20, 40]
    # The product alone has room for 7 beats.
    assert (room(netlist, "data_in_0", np.arange(4)) < 0).all()
