"""Element-wise functions against an independent oracle, torch, and their modules."""

import os
import random
import subprocess
import sys
from fractions import Fraction
from math import inf
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath.libmp import to_rational
from torch import nn

from mase_hw.approximation import FAST, Domain, Precise
from mase_hw.approximation.errors import sample_codes
from mase_hw.approximation.piecewise import Piecewise, fit
from mase_hw.approximation.table import Bounded, FunctionTable
from mase_hw.approximation.wave import Wave
from mase_hw.errors import UnsupportedError
from mase_hw.formats.fixed import OVERFLOW_MODES, ROUNDING_MODES, Fixed
from mase_hw.ops import (
    Call,
    Numeric,
    TensorSpec,
    Unary,
    operator_for,
    operators,
    torch_target,
    unary_operators,
)
from tests.cells.rational import fixed_code

# Of another precision than that with which the package decides ties.
EXACT = Precise(400)
MP = EXACT.context


NAMES = sorted(operator.name for operator in unary_operators())
# Functions of which wide operands may take too many segments.
STEEP = {
    *("acos", "acosh", "asin", "asinh", "atan", "atanh", "base_power", "cosh", "erfc", "exp2"),
    *("logit", "sinc", "sinh"),
}


def exact(name: str, **attributes):
    """Return a function's own equation on one real, to 400 bits."""
    operator = operators()[name]
    function = operator.function(attributes or operator.required_attributes)
    return lambda x: MP.mpf(function(MP.mpf(x), EXACT))


def oracle_code(value, result: Fixed) -> int:
    """Round one high-precision real, by the definition of the format; infinities saturate."""
    if MP.isinf(value):
        return result.maximum_code if value > 0 else result.minimum_code
    return fixed_code(result, Fraction(*to_rational(value._mpf_)))


def oracle(function, codes: torch.Tensor, operand: Fixed, result: Fixed) -> torch.Tensor:
    scale = MP.mpf(2) ** -operand.frac_width
    return torch.tensor([oracle_code(MP.mpf(function(c * scale)), result) for c in codes.tolist()])


def all_codes(number: Fixed) -> torch.Tensor:
    return torch.arange(number.minimum_code, number.maximum_code + 1)


def evaluate(name: str, codes: torch.Tensor, operand: Fixed, result: Fixed, **attributes):
    operator = operators()[name]
    call = operator.call(operand, result, attributes or None)
    return operator.reference(call)(codes)


def in_torch(name: str, x: torch.Tensor) -> torch.Tensor:
    operator = operators()[name]
    names = [key for key, operand in operator.operand_names.items() if operand == "data_in_0"]
    target = torch_target(operator.targets[0])
    operand = next(item.name for item in target._schema.arguments if item.name in names)
    result: torch.Tensor = target(**{operand: x}, **operator.required_attributes)
    return result


@pytest.mark.parametrize("name", NAMES)
def test_an_equation_is_what_torch_computes(name):
    """In float64, near zero and far from it; infinities and NaN are the domain's business."""
    operator = operators()[name]
    attributes = operator.required_attributes
    far = torch.pow(2.0, torch.arange(-40, 41).double() / 4)
    x = torch.cat([torch.linspace(-9, 9, 361).double(), far, -far])
    expected = in_torch(name, x)
    found = operator.compute(None, attributes, {"data_in_0": x})
    assert not bool(torch.isnan(found).any())
    defined = ~torch.isnan(expected)
    assert int(defined.sum()) > 30
    assert torch.allclose(found[defined], expected[defined], rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", NAMES)
def test_8_bit_results_are_correctly_rounded(name):
    pairs = [
        (Fixed(8, 4), Fixed(8, 4)),
        (Fixed(8, 5), Fixed(6, 2, rounding="nearest_up")),
        (Fixed(8, 4, signed=False), Fixed(9, 6, signed=False, rounding="floor")),
        (Fixed(8, 3), Fixed(12, 8, rounding="toward_zero")),
        (Fixed(8, 5), Fixed(7, 5, overflow="wrap", rounding="floor")),
        (Fixed(7, -2), Fixed(16, 9)),
    ]
    for operand, result in pairs:
        codes = all_codes(operand)
        expected = oracle(exact(name), codes, operand, result)
        assert torch.equal(evaluate(name, codes, operand, result), expected), (operand, result)


@pytest.mark.parametrize("exponent", [0, 1, 4, 2.5, -1, -3, -0.5, -1.5, 0.3, -0.7, 0.5 + 2.0**-20])
def test_a_power_has_any_constant_exponent(exponent):
    """Correctly rounded where it is defined; at zero and below what its domain says."""

    def power(x):
        if x < 0 and exponent != int(exponent):
            x = MP.mpf(0)
        if x == 0:
            return MP.inf if exponent < 0 else MP.mpf(exponent == 0)
        return MP.power(x, MP.mpf(exponent))

    operand, result = Fixed(8, 4), Fixed(12, 6)
    codes = all_codes(operand)
    found = evaluate("pow", codes, operand, result, exponent=exponent)
    assert torch.equal(found, oracle(power, codes, operand, result))
    call = operators()["pow"].call(operand, result, {"exponent": inf})
    assert operators()["pow"].problems(call) == [
        f"its exponent is inf; allowed are numbers from -{2**31} to {2**31}"
    ]


@pytest.mark.parametrize("frac_width", [-10, 60])
def test_extreme_scales_are_rounded_on_the_right_side(frac_width):
    # Here the limit is so close that float64 equals it: 1 - tanh(x) is below 2**-53.
    operand = Fixed(8, frac_width)
    for result in (Fixed(8, 6, rounding="floor"), Fixed(8, 6, rounding="toward_zero")):
        codes = torch.tensor([-128, -1, 0, 1, 127])
        tanh = evaluate("tanh", codes, operand, result).tolist()
        low = -1 if result.rounding == "floor" else 0
        if frac_width < 0:
            bottom = -64 if result.rounding == "floor" else -63
            assert tanh == [bottom, bottom, 0, 63, 63]
        else:
            assert tanh == [low, low, 0, 0, 0]


WIDE = {
    13: (Fixed(13, 8), Fixed(13, 8)),
    14: (Fixed(14, 4), Fixed(14, 10, rounding="nearest_up")),
    15: (Fixed(15, 12), Fixed(16, 13, rounding="toward_zero")),
    16: (Fixed(16, 11), Fixed(16, 11)),
    24: (Fixed(24, 18), Fixed(24, 18)),
    32: (Fixed(32, 22), Fixed(32, 22)),
}
UNSIGNED = {
    width: (Fixed(width, width - 3, signed=False), Fixed(16, 11, rounding="floor"))
    for width in WIDE
}


def is_refused(name: str, operand: Fixed, result: Fixed) -> bool:
    """Return whether a pair of formats has too many segments, which only some functions have."""
    problems = operators()[name].problems(operators()[name].call(operand, result))
    assert all("8192 segments" in problem for problem in problems)
    return bool(problems)


@pytest.mark.first(*(f"{name}-16" for name in NAMES), "gelu-32", "cos-32", "tanh-13")
@pytest.mark.parametrize("width", [13, 16, 24, 32])
@pytest.mark.parametrize("name", NAMES)
def test_wide_operands_are_within_one_step_and_a_part_of_the_value(name, width):
    rng = random.Random(f"{name}{width}")
    if name not in STEEP:
        assert not is_refused(name, *WIDE[width])
    for operand, result in (WIDE[width], UNSIGNED[width]):
        if is_refused(name, operand, result):
            continue
        low, high = operand.minimum_code, operand.maximum_code
        ends = [low, low + 1, -2, -1, 0, 1, 2, high - 1, high]
        spread = [rng.randint(low, high) for _ in range(40)]
        near = [int(rng.gauss(0, 1) * 2**operand.frac_width) for _ in range(40)]
        small = [rng.randint(-300, 300) for _ in range(40)]
        codes = torch.tensor([code for code in ends + spread + near + small if low <= code <= high])
        found = evaluate(name, codes, operand, result)
        expected = oracle(exact(name), codes, operand, result)
        evaluator = operators()[name].evaluator(operators()[name].call(operand, result))
        part = evaluator.relative if isinstance(evaluator, Piecewise) else 0.0
        far = (found - expected).abs() - part * expected.abs()
        assert float(far.max()) <= 1, (operand, result, codes[far.argmax()])


@pytest.mark.full
@pytest.mark.parametrize("width", [14, 15, 16])
@pytest.mark.parametrize("name", NAMES)
def test_all_wide_operands_are_within_one_step(name, width):
    for operand, result in (WIDE[width], UNSIGNED[width]):
        if is_refused(name, operand, result):
            continue
        codes = all_codes(operand)
        expected = oracle(exact(name), codes, operand, result)
        steps = (evaluate(name, codes, operand, result) - expected).abs()
        assert int(steps.max()) <= 1, (operand, result, codes[steps.argmax()])


DOMAINS = [
    # name, operand format, codes, result format, expected codes
    ("log", Fixed(8, 4), [-128, -1, 0, 16], Fixed(8, 4), [-128, -128, -128, 0]),
    ("log", Fixed(8, 4), [0, 16], Fixed(8, 4, overflow="wrap"), [-128, 0]),
    ("log", Fixed(8, 4, signed=False), [0, 16], Fixed(8, 4, signed=False), [0, 0]),
    ("log2", Fixed(14, 4), [-1, 0, 16, 32, 4096], Fixed(14, 9), [-8192, -8192, 0, 512, 4096]),
    ("log10", Fixed(8, -1), [0, 5, 50], Fixed(8, 4, rounding="floor"), [-128, 16, 32]),
    ("log1p", Fixed(8, 4), [-17, -16, 0], Fixed(8, 4), [-128, -128, 0]),
    ("log1p", Fixed(14, 10), [-1025, -1024, 0], Fixed(14, 9), [-8192, -8192, 0]),
    ("sqrt", Fixed(8, 4), [-128, -1, 0, 64], Fixed(8, 4), [0, 0, 0, 32]),
    ("sqrt", Fixed(16, 4), [-128, -1, 0, 64], Fixed(16, 4), [0, 0, 0, 32]),
    ("rsqrt", Fixed(8, 4), [-1, 0, 1, 64], Fixed(8, 4), [127, 127, 64, 8]),
    ("rsqrt", Fixed(16, 4), [-1, 0, 64], Fixed(16, 4, rounding="floor"), [32767, 32767, 8]),
    ("reciprocal", Fixed(8, 4), [-1, 0, 1, 64], Fixed(8, 4), [-128, 127, 127, 4]),
    ("reciprocal", Fixed(8, 4), [0, 64], Fixed(8, 4, overflow="wrap"), [127, 4]),
    ("reciprocal", Fixed(16, 4), [-1, 0, 1], Fixed(16, 4), [-256, 32767, 256]),
    ("reciprocal", Fixed(16, 4), [0, 1], Fixed(8, 0, overflow="wrap"), [127, 16]),
]


@pytest.mark.parametrize(("name", "operand", "codes", "result", "expected"), DOMAINS)
def test_poles_and_what_lies_outside_a_domain(name, operand, codes, result, expected):
    found = evaluate(name, torch.tensor(codes), operand, result)
    tolerance = int(operand.width > 12)
    steps = (found - torch.tensor(expected)).abs()
    assert bool((steps <= tolerance).all()), found
    # The fake-quantised model gives the same, and a gradient.
    values = operand.decode(torch.tensor(codes)).requires_grad_()
    real = operators()[name].compute(None, {}, {"data_in_0": values})
    rounded = result.fake_quantize(real)
    assert bool(((result.encode(rounded) - torch.tensor(expected)).abs() <= tolerance).all())
    rounded.sum().backward()
    assert not bool(values.grad.isnan().any())


@pytest.mark.parametrize(
    ("domain", "operands", "expected"),
    [
        (Domain(low=-1, high=2, poles={-1: -inf, 2: inf, 0.5: inf}), [-3, -1, 0.5, 1, 2, 9],
         [-inf, -inf, inf, 10, inf, inf]),
        (Domain(high=1, poles={1: inf}), [-inf, 0, 1, 2], [-inf, 0, inf, inf]),
        (Domain(poles={0: inf, 1: -inf}), [-2, -0.0, 1, inf], [-20, inf, -inf, inf]),
    ],
)  # fmt: skip
def test_a_domain_extends_a_function(domain, operands, expected):
    asked = []

    def function(x):
        asked.append(x)
        return x * 10

    found = domain.extend(function, torch.tensor(operands, dtype=torch.float64), FAST)
    assert found.tolist() == expected
    finite = [x for x in operands if abs(x) != inf]
    for x, wanted in zip(
        finite, [y for x, y in zip(operands, expected, strict=True) if x in finite], strict=True
    ):
        assert domain.extend(function, MP.mpf(x), EXACT) == wanted
    values = [
        float(value)
        for item in asked
        for value in (item.flatten() if isinstance(item, torch.Tensor) else [item])
    ]
    assert not set(values) & set(domain.poles)
    assert all(domain.low <= value <= domain.high for value in values)


@pytest.mark.parametrize(
    ("name", "attributes", "torch_function"),
    [
        ("leaky_relu", {"negative_slope": 0.3}, lambda x: F.leaky_relu(x, 0.3)),
        ("elu", {"alpha": 0.7}, lambda x: F.elu(x, 0.7)),
        ("celu", {"alpha": 1.7}, lambda x: F.celu(x, 1.7)),
        ("softplus", {"beta": 2, "threshold": 3}, lambda x: F.softplus(x, 2, 3)),
        ("softshrink", {"lambd": 1.25}, lambda x: F.softshrink(x, 1.25)),
        ("hardshrink", {"lambd": 1.25}, lambda x: F.hardshrink(x, 1.25)),
        ("hardtanh", {"min_val": -0.3, "max_val": 2.7}, lambda x: F.hardtanh(x, -0.3, 2.7)),
        ("clamp", {"min": 0.1}, lambda x: torch.clamp(x, min=0.1)),
        ("clamp", {"min": None, "max": 1.5}, lambda x: torch.clamp(x, max=1.5)),
        ("clamp", {"min": 2, "max": -1}, lambda x: torch.clamp(x, 2, -1)),
        ("threshold", {"threshold": 0.5, "value": -3}, lambda x: F.threshold(x, 0.5, -3)),
        ("gelu", {"approximate": "tanh"}, lambda x: F.gelu(x, approximate="tanh")),
    ],
)
@pytest.mark.parametrize("width", [9, 14])
def test_attributes_mean_what_torch_means(name, attributes, torch_function, width):
    operand, result = Fixed(width, width - 4), Fixed(20, 10)
    codes = all_codes(operand)
    found = result.decode(evaluate(name, codes, operand, result, **attributes))
    error = (found - torch_function(operand.decode(codes))).abs().max() * 2**10
    assert float(error) <= (0.5 if width <= 12 else 1.0) + 1e-6


@pytest.mark.full
def test_error_table_is_what_is_promised():
    formats = [(Fixed(8, 4), Fixed(8, 4)), (Fixed(16, 10), Fixed(16, 10))]
    formats.append((Fixed(20, 14), Fixed(18, 13, rounding="nearest_up")))
    rows = [
        operator.error(operator.call(*pair)) for pair in formats for operator in unary_operators()
    ]
    assert len(rows) == 3 * len(NAMES)
    for row in rows:
        if row.module is None:
            assert row.operator in STEEP, row
            continue
        assert row.exhaustive == (row.operand.width <= 16)
        assert row.worst_steps <= 1
        if row.module == "mase_clamp_fixed" or row.operand.width == 8:
            assert (row.worst_steps, row.misrounded) == (0, 0.0)
        if row.result.rounding == "nearest_even":
            assert row.worst_ulps <= (0.5 if row.worst_steps == 0 else 1.0) + 1e-9
    assert any(row.misrounded > 0 for row in rows), "a table that never finds an error is broken"


def test_error_table_sees_a_wrong_table():
    class Wrong(type(operators()["gelu"])):
        def reference(self, call):
            right = super().reference(call)
            return lambda codes: right(codes) + (codes == 17) * 2

    wrong = Wrong()
    row = wrong.error(wrong.call(Fixed(8, 4), Fixed(8, 4)))
    assert row.worst_steps == 2
    assert row.misrounded == 1 / 256
    assert row.worst_ulps > 1.5


def test_what_cannot_be_met_is_refused():
    operand = Fixed(32, 22)
    call = operators()["sinc"].call(operand, operand)
    (problem,) = operators()["sinc"].problems(call)
    assert "8192 segments" in problem and "fixed<32,22>" in problem
    assert operators()["sinc"].error(call).module is None
    (problem,) = operators()["sin"].problems(operators()["sin"].call(operand, Fixed(32, 30)))
    assert "sin from fixed<32,22> to fixed<32,30> needs a phase of 67 bits" in problem
    with pytest.raises(UnsupportedError, match="knots"):
        fit(lambda x, math: x, (1.0, 2.0, 3.0), operand, operand, "many")
    nan = lambda x, math: x / (x - x)  # noqa: E731
    with pytest.raises(UnsupportedError, match="segments"):
        fit(nan, (), Fixed(16, 8), Fixed(16, 8), "undefined")
    with pytest.raises(UnsupportedError, match="wrap"):
        evaluate("exp", torch.tensor([0]), Fixed(8, 0), Fixed(8, 0, overflow="wrap"))


@pytest.mark.parametrize("name", ["sin", "cos"])
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_sines_of_any_range_are_within_a_step(name, data):
    """Steps of a millionth of a turn to many turns, in 13 to 32 bits."""
    width, rounding = data.draw(st.integers(13, 32)), data.draw(st.sampled_from(ROUNDING_MODES))
    operand = Fixed(width, data.draw(st.integers(-20, width - 4)), data.draw(st.booleans()))
    bits = data.draw(st.integers(4, 59 - width if width > 27 else 32))
    result = Fixed(
        bits,
        data.draw(st.integers(-2, bits - 2)),
        data.draw(st.booleans()),
        rounding,
        data.draw(st.sampled_from(OVERFLOW_MODES)),
    )
    ends = [operand.minimum_code, operand.minimum_code + 1, operand.maximum_code, 0, 1]
    drawn = data.draw(st.lists(st.integers(operand.minimum_code, operand.maximum_code)))
    codes = torch.tensor(ends + drawn)
    found = evaluate(name, codes, operand, result)
    steps = (found - oracle(exact(name), codes, operand, result)).abs()
    if result.overflow == "wrap":
        steps = torch.minimum(steps, (1 << bits) - steps)
    assert int(steps.max()) <= 1, (operand, result, codes[steps.argmax()])


def test_narrow_features_are_not_missed():
    # The interesting part of gelu covers one ten-thousandth of this operand's range.
    operand, result = Fixed(32, 16), Fixed(16, 10)
    codes = torch.arange(-8 << 16, 8 << 16, 97)
    real = F.gelu(operand.decode(codes))
    error = (result.decode(evaluate("gelu", codes, operand, result)) - real).abs().max()
    assert float(error) <= 2**-10


@pytest.mark.full
def test_products_fit_the_integers_of_the_reference():
    worst = Fixed(32, 31), Fixed(32, 24, overflow="wrap")
    served: list[str] = []
    for operator in unary_operators():
        try:
            piecewise = operator.evaluator(operator.call(*worst))
        except UnsupportedError:
            continue
        if isinstance(piecewise, Bounded | Wave):
            continue
        served.append(operator.name)
        assert isinstance(piecewise, Piecewise)
        assert piecewise.slope_bits + piecewise.grid.t_bits + 1 <= 62
        assert piecewise.sum_bits <= 62
        codes = sample_codes(worst[0])
        c0, c1, c2 = piecewise.coefficients.tolist()[0]
        index, t = piecewise.grid.locate((codes - piecewise.regions[-1].origin).abs())
        assert int(t.max()) < 2**piecewise.grid.t_bits and int(index.min()) == 0
        assert max(abs(c0), abs(c1), abs(c2)) < 2**61
    assert len(served) >= 25


FORMATS = st.builds(
    Fixed,
    width=st.integers(2, 32),
    frac_width=st.integers(-8, 34),
    signed=st.booleans(),
    rounding=st.sampled_from(ROUNDING_MODES),
    overflow=st.sampled_from(OVERFLOW_MODES),
)
BOUNDS = st.one_of(st.none(), st.floats(-9, 9), st.integers(-8, 8).map(lambda x: x / 4))


@settings(max_examples=150, deadline=None)
@given(FORMATS, FORMATS, BOUNDS, BOUNDS, st.data())
def test_clamps_are_exact(operand, result, low, high, data):
    attributes = {"min": low, "max": high}
    infinite = (float("-inf") if low is None else low, float("inf") if high is None else high)
    if Bounded.between(infinite, operand, result) is None:
        return
    code = data.draw(st.integers(operand.minimum_code, operand.maximum_code))
    x = Fraction(code) * Fraction(2) ** -operand.frac_width
    if low is not None:
        x = max(x, Fraction(low))
    if high is not None:
        x = min(x, Fraction(high))
    expected = oracle_code(MP.mpf(x.numerator) / x.denominator, result)
    found = evaluate("clamp", torch.tensor([code]), operand, result, **attributes)
    assert found.tolist() == [expected]


def test_clamp_falls_back_where_its_bounds_are_no_codes():
    operand, result = Fixed(8, 4), Fixed(6, 4, overflow="wrap")
    clamp = operators()["clamp"]
    call = clamp.call(operand, result, {"min": -0.3, "max": 5.0})
    assert clamp.hardware(call).main.module == "mase_unary_table"
    codes = all_codes(operand)
    expected = oracle(lambda x: min(max(x, MP.mpf(-0.3)), 5), codes, operand, result)
    assert torch.equal(clamp.reference(call)(codes), expected)


def test_formats_that_are_kept_hold_the_results():
    kept = [operator for operator in unary_operators() if Numeric.of(operator).keeps_format]
    assert {operator.name for operator in kept} >= {"relu", "relu6", "hardtanh", "clamp"}
    number = Fixed(9, 5)
    codes = all_codes(number)
    assert torch.equal(evaluate("relu", codes, number, number), codes.clamp(min=0))


def test_targets_exist_in_torch():
    for operator in [*unary_operators(), operators()["prelu"]]:
        for target in operator.targets:
            namespace, name, overload = target.split(".")
            assert operator_for(target) is operator
            if namespace == "aten":
                getattr(getattr(torch.ops.aten, name), overload)


MODULES = [
    nn.ReLU(), nn.ReLU(inplace=True), nn.ReLU6(), nn.LeakyReLU(), nn.LeakyReLU(0.2, inplace=True),
    nn.PReLU(), nn.PReLU(8), nn.Hardtanh(-2, 3), nn.Hardtanh(inplace=True), nn.Hardsigmoid(),
    nn.Hardsigmoid(inplace=True), nn.Hardswish(), nn.Hardswish(inplace=True), nn.Sigmoid(),
    nn.Tanh(), nn.GELU(), nn.GELU("tanh"), nn.SiLU(), nn.SiLU(inplace=True), nn.Mish(),
    nn.Mish(inplace=True), nn.ELU(0.7), nn.ELU(inplace=True), nn.SELU(), nn.SELU(inplace=True),
    nn.CELU(0.7), nn.CELU(inplace=True), nn.Softplus(2, 10), nn.Softshrink(), nn.Hardshrink(),
    nn.LogSigmoid(), nn.Threshold(0.1, 0.2), nn.Threshold(0.1, 0.2, inplace=True),
]  # fmt: skip
FUNCTIONS = [
    F.relu, torch.relu_, F.relu6, F.leaky_relu, F.hardtanh, torch.clip, F.sigmoid, torch.sigmoid_,
    torch.log, torch.log2, torch.log10, torch.log1p, torch.special.log1p, torch.expm1, torch.sqrt,
    torch.rsqrt, torch.reciprocal, torch.sin, torch.cos, torch.erf, torch.special.erf, torch.square,
    torch.special.expm1, torch.log_, torch.sqrt_, torch.reciprocal_, torch.square_, torch.sin_,
    torch.tanh_, F.elu_, torch.abs_, torch.neg, torch.exp_, torch.special.expit, F.logsigmoid,
    lambda x: x.clamp(min=0), lambda x: x.clamp_(-1, 1), lambda x: torch.clamp_min(x, 0.5),
    lambda x: torch.clamp_max_(x, 0.5), lambda x: F.threshold_(x, 0.1, 0.2), abs,
]  # fmt: skip


class Stack(nn.Module):
    def __init__(self, functions):
        super().__init__()
        self.functions = functions

    def forward(self, x):
        # Each works on a tensor of its own, so that those in place may.
        return [function(x * 1.0) for function in self.functions]


@pytest.mark.parametrize("functions", [nn.ModuleList(MODULES), FUNCTIONS], ids=["nn", "function"])
def test_what_torch_exports_is_known(functions):
    if functions is FUNCTIONS:
        functions = [
            f if f is not torch.clip else lambda x: torch.clip(x, -1, 1) for f in FUNCTIONS
        ]
    exported = torch.export.export(Stack(functions), (torch.randn(2, 8),), strict=False)
    called = [str(node.target) for node in exported.graph.nodes if node.op == "call_function"]
    known = [target for target in called if target != "aten.mul.Tensor"]
    assert len(known) == len(functions)
    assert [target for target in known if operator_for(target) is None] == []


def prelu_call(shape, slopes, operand, weight, result, parallelism=(1, 1)):
    data = TensorSpec(shape, parallelism=parallelism)
    operator = operators()["prelu"]
    given = Call(
        "prelu",
        operator,
        {
            "data_in_0": data.with_format(operand),
            "weight": TensorSpec(tuple(slopes.shape), format=weight, parallelism=parallelism),
        },
        {"data_out_0": data.with_format(result)},
        {"weight": slopes},
    )
    return operator.bind(given)


@pytest.mark.parametrize("shape", [(1, 6), (1, 6, 5), (1, 6, 4, 3)])
@pytest.mark.parametrize("channels", [1, 6])
def test_prelu_agrees_with_torch(shape, channels):
    torch.manual_seed(0)
    slopes = (torch.rand(channels) * 16).round() / 16
    operand, weight, result = Fixed(9, 5), Fixed(6, 4), Fixed(20, 10)
    call = prelu_call(shape, slopes, operand, weight, result)
    assert call.operator.problems(call) == []
    codes = torch.randint(operand.minimum_code, operand.maximum_code + 1, (7, *shape[1:]))
    found = result.decode(call.operator.reference(call)(codes))
    assert torch.equal(found, F.prelu(operand.decode(codes), slopes.double()))


def test_prelu_rom_is_the_shortest():
    formats = (Fixed(8, 4), Fixed(6, 4), Fixed(8, 4))
    slopes = torch.arange(6) / 16
    cases = [
        ((1, 6), (1, 2), (3, 1)),
        ((5, 6), (1, 2), (3, 1)),
        ((1, 6, 8), (2, 4), (3, 2)),
        ((1, 6, 4, 3), (1, 3), (6, 4)),
    ]
    for shape, parallelism, (depth, hold) in cases:
        call = prelu_call(shape, slopes, *formats, parallelism)
        source = call.operator.hardware(call).source("weight")
        assert (source.depth, source.hold) == (depth, hold)
        stream = [word for word in source.image.words for _ in range(hold)]
        spec = call.operands["weight"]
        repeated = stream * (spec.beats // len(stream))
        assert repeated == pack(spec.to_beats(call.constant_codes("weight")), spec.format)
    with pytest.raises(UnsupportedError, match="dimension 1"):
        prelu_call((1, 5), slopes, *formats)


def pack(codes: torch.Tensor, number: Fixed) -> list[int]:
    """Return beats `[beats, lanes]` as integers, lane 0 in the low bits."""
    bits = number.to_fields(codes)[""].tolist()
    return [sum(lane << (i * number.width) for i, lane in enumerate(beat)) for beat in bits]


@pytest.mark.parametrize("name", NAMES)
def test_evaluators_are_what_the_width_says(name):
    operator = operators()[name]
    assert isinstance(operator, Unary)
    narrow = operator.evaluator(operator.call(Fixed(12, 6), Fixed(8, 4)))
    if operator.bounds(operator.required_attributes):
        assert isinstance(narrow, Bounded)
        return
    assert isinstance(narrow, FunctionTable)
    if not is_refused(name, Fixed(13, 6), Fixed(8, 4)):
        wide = operator.evaluator(operator.call(Fixed(13, 6), Fixed(8, 4)))
        assert isinstance(wide, Wave if operator.quarters is not None else Piecewise)


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (0.0, inf), (-inf, 1.0)])
def test_a_clamp_has_slope_one_at_its_bounds(low, high):
    """Values that were rounded lie on bounds; torch's own slope there depends on its version."""
    x = torch.tensor([-1.0, 0.0, 0.5, 1.0, 2.0, float("nan")], requires_grad=True)
    y = FAST.clip(x, low, high)
    y.nansum().backward()
    assert torch.equal(y.detach()[:5], x.detach()[:5].clamp(low, high)) and y[5].isnan()
    inside = [low <= value <= high for value in x.tolist()[:5]]
    assert x.grad[:5].tolist() == [float(item) for item in inside]


ROOT = Path(__file__).resolve().parents[2]
SOURCE = """
from math import inf

from mase_hw.approximation import Domain
from mase_hw.ops import Unary


class Logit(Unary):
    name = "logit"
    targets = ("aten.logit.default",)

    def equation(self, x, math, attributes):
        return math.log(x / (1 - x))

    def domain(self, attributes):
        return Domain(low=0.0, high=1.0, poles={0.0: -inf, 1.0: inf})
"""


@pytest.mark.full
def test_a_new_function_needs_no_edit(tmp_path):
    (tmp_path / "logit.py").write_text(SOURCE)
    metadata = tmp_path / "logit-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: logit\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[mase_hw.operators]\nlogit = logit:Logit\n")
    files = [f"tests/{name}.py" for name in ("ops/test_unary", "ops/test_elementwise")]
    files += [f"tests/{name}.py" for name in ("passes/test_raise_patterns", "test_conformance")]
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rA", *files],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout
    assert result.stdout.count("[logit") >= 8, result.stdout
