"""Interfaces of operators: who answers, what others get, and a member without its interface."""

from dataclasses import replace

import pytest
import torch

from mase_hw import ops
from mase_hw.approximation import FAST, Domain
from mase_hw.errors import UnitError
from mase_hw.formats.fixed import Fixed
from mase_hw.ops import Call, Interface, Masked, Numeric, Operator, Tiled, operators
from mase_hw.ops._composite import composition
from mase_hw.ops._formula import Formula
from mase_hw.ops.functions.table import EXP
from mase_hw.registry import discover


def test_an_operator_has_few_members():
    members = {name for name in vars(Operator) if not name.startswith("_")}
    assert len(members | Operator.__annotations__.keys()) <= 15


def test_an_operator_without_an_interface_gets_its_default_answers():
    by_name = operators()
    assert Numeric.of(by_name["relu"]) is by_name["relu"]
    assert not isinstance(by_name["batch_norm"], Tiled)
    assert Tiled.of(by_name["batch_norm"]).limits(None) == {}
    with pytest.raises(AssertionError, match="Masked has no default for"):
        Masked.of(by_name["relu"])


@pytest.mark.parametrize("interface", Interface.known)
def test_a_member_without_its_interface_is_refused(interface):
    members = [name for name in vars(interface) if not name.startswith("_")]
    for name in members:
        with pytest.raises(TypeError, match=f"Odd defines .*{interface.__name__}"):
            type("Odd", (Operator,), {name: None})


def test_two_operators_with_one_target_are_refused(monkeypatch):
    first, second = operators()["relu"], operators()["tanh"]
    monkeypatch.setattr(second, "targets", first.targets)
    ops._by_target.cache_clear()
    try:
        with pytest.raises(UnitError, match=r"relu and tanh both have the target aten\.relu"):
            ops.operator_for("aten.relu.default")
    finally:
        monkeypatch.undo()
        ops._by_target.cache_clear()


def test_a_row_of_a_table_is_an_operator():
    half = Formula(
        "half",
        "mase.half_of.default",
        lambda x, math, scale=1.0: math.clip(x, 0.0, 4.0) * scale / 2,
        knots=lambda scale=1.0: (4.0 * scale,),
        domain=Domain(high=8.0),
    )
    x = torch.tensor([-1.0, 2.0, 9.0], dtype=torch.float64)
    assert torch.ops.mase.half_of(x).tolist() == [0.0, 1.0, 2.0]
    assert half.function({"scale": 0.5})(x, FAST).tolist() == [0.0, 0.5, 1.0]
    assert half.function({"scale": 0.5}).knots == (2.0, 8.0)
    assert half.compute(None, {"self": None, "scale": 2.0}, {"data_in_0": x}).tolist() == [0, 2, 4]
    call = half.call(Fixed(8, 4), Fixed(8, 4), {})
    assert not half.problems(call)
    assert half.reference(call)(torch.tensor([-16, 32, 127])).tolist() == [0, 16, 32]


def test_a_composition_is_refused_whole_or_written():
    @composition(
        "mase.twice_or_not.default",
        examples=list,
        refusal=lambda call: ["no"] if call.attributes.get("refused") else [],
    )
    def twice_(call, data):
        """Twice the operand."""
        return data * 2

    operand = Call("x", twice_, {}, {})
    assert (twice_.name, twice_.__doc__) == ("twice", "Twice the operand.")
    assert twice_.expression(operand, {"data_in_0": 3}) == [6]
    assert "decompose" in twice_.problems(operand)[0]
    refused = replace(operand, attributes={"refused": True})
    assert twice_.expression(refused, {"data_in_0": 3}) is None
    assert twice_.problems(refused) == ["no"]


def test_instances_are_found_alone_and_in_tuples_and_private_classes_are_no_units():
    by_name = operators()
    assert by_name["exp"] is EXP
    assert isinstance(by_name["sin"], Formula)
    names = [cls.__name__ for cls in discover("mase_hw.ops", Operator)]
    assert "Conv2d" in names and not any(name.startswith("_") for name in names)
