"""Liberty is read with the dialects that files have; functions become truth tables."""

import re
from itertools import product
from pathlib import Path

import pytest

from mase_hw.errors import SynthesisError
from mase_hw.hardware.liberty import Library, truth_table

LIBRARY = Path(__file__).with_name("cells.lib")


# Other words for the same.
DIALECTS = {
    "/* A": "// A comment\n/* A",
    "cell (NAND) {": 'cell("NAND"){',
    '"!A"': '"A\'"',
    '"!(A*B)"': '"(A B)\'"',
    "nom_voltage : 20;": 'nom_voltage : "20" ;',
    "capacitive_load_unit (10, ff);": 'capacitive_load_unit(10,"ff")',
}


@pytest.mark.parametrize("dialects", [{}, DIALECTS], ids=["plain", "others"])
def test_a_library_is_read(dialects, tmp_path):
    text = LIBRARY.read_text()
    for usual, other in dialects.items():
        assert usual in text
        text = text.replace(usual, other, 1)
    path = tmp_path / "cells.lib"
    path.write_text(text)
    library = Library.load(path)
    assert library.name == "small"
    assert library.voltage == pytest.approx(2.0)
    assert library.voltage_unit == pytest.approx(0.1)
    assert library.capacitance_unit == pytest.approx(1e-14)
    # Latches are not asked for.
    assert list(library.cells) == ["BUFFER", "NOT", "NAND", "NOR", "REGISTER"]
    inverter, register = library.cells["NOT"], library.cells["REGISTER"]
    assert (inverter.area, inverter.inputs, inverter.outputs) == (2.5, ("A",), ("Z",))
    # The middle of the slopes, half way between two loads; beside it what no load changes.
    assert inverter.pins["Z"].energy(5.0) == pytest.approx(((1 + 3) / 2 + 4) / 2)
    assert inverter.pins["A"].energy(5.0) == 0.0
    assert library.cells["NAND"].inputs == ("A", "B")
    assert (register.state, register.clock) == (("IQ", "IQN"), "CK")
    assert truth_table(register.next_state, ["D", "R"]) & 15 == 0b1000


@pytest.mark.parametrize(
    ("function", "python"),
    [
        ("A'", "not A"),
        ("!A B + C", "(not A and B) or C"),
        ("(!(A B+C))", "not ((A and B) or C)"),
        ("A ^ B * C", "(A ^ B) and C"),
        ("((A^B)^C)'", "not (A ^ B ^ C)"),
        ("A&B | C&!(A)", "(A and B) or (C and not A)"),
        ("(A B)' C'", "not (A and B) and not C"),
        ("1", "True"),
    ],
)
def test_functions_are_those_of_the_grammar(function, python):
    table = truth_table(function, ["A", "B", "C"])
    for row, (c, b, a) in enumerate(product([False, True], repeat=3)):
        assert bool(table >> row & 1) == bool(eval(python, {"A": a, "B": b, "C": c})), row


@pytest.mark.parametrize("function", ["A +", "(A", "A)", "D", "", "A ! B)"])
def test_what_is_no_function_is_said(function):
    with pytest.raises(SynthesisError, match="is no function of A, B"):
        truth_table(function, ["A", "B"])


def test_too_many_inputs_are_said():
    with pytest.raises(SynthesisError, match="has 7 inputs; at most 6"):
        truth_table("A", list("ABCDEFG"))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda text: "module top; endmodule", "does not begin with library"),
        (lambda text: text[: len(text) // 2], "ends inside a group"),
        (lambda text: text.replace("area : 10", "area : ten"), "could not convert"),
        (lambda text: text.replace("area : 10;", ""), "no flip-flop with an area"),
        (lambda text: re.sub(r"capacitive_load_unit.*", "", text), "lacks 'capacitive_load_unit'"),
        (lambda text: text.replace("100mV", "1 volt"), "voltage_unit is '1 volt'"),
    ],
)
def test_what_is_no_library_is_said(change, told, tmp_path):
    path = tmp_path / "cells.lib"
    path.write_text(change(LIBRARY.read_text()))
    with pytest.raises(SynthesisError, match=told):
        Library.load(path)


def test_a_file_that_is_not_there_is_said(tmp_path):
    with pytest.raises(SynthesisError, match="cannot be read: No such file"):
        Library.load(tmp_path / "none.lib")
