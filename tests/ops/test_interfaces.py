"""Interfaces of operators: who answers, what others get, and a member without its interface."""

import pytest

from mase_hw import ops
from mase_hw.errors import UnitError
from mase_hw.ops import Interface, Masked, Numeric, Operator, Tiled, operators


def test_an_operator_has_few_members() -> None:
    members = {name for name in vars(Operator) if not name.startswith("_")}
    assert len(members | Operator.__annotations__.keys()) <= 15


def test_an_operator_without_an_interface_gets_its_default_answers() -> None:
    by_name = operators()
    assert Numeric.of(by_name["relu"]) is by_name["relu"]
    assert not isinstance(by_name["batch_norm"], Tiled)
    assert Tiled.of(by_name["batch_norm"]).limits(None) == {}
    with pytest.raises(AssertionError, match="Masked has no default for"):
        Masked.of(by_name["relu"])


@pytest.mark.parametrize("interface", Interface.known)
def test_a_member_without_its_interface_is_refused(interface: type[Interface]) -> None:
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
