"""What is guessed of states holds in them, and says what ties counters."""

import re

import numpy as np

from mase_hw._resources import rtl_folder, template_folder
from mase_hw.proof._network import FALSE, TRUE, Network
from mase_hw.proof._relations import PLACE, STAGES, WAIT, Implication, Sum, Table, relations
from mase_hw.proof._solver import Circuit

ROLE = re.compile(r'\(\* mase_register = "(\w+)" \*\)')


def states(*columns):
    """Return the bits of numbers `(values, width)`, and the groups of their registers."""
    bits, groups, place = [], {}, 0
    for name, values, width in columns:
        numbers = np.array(values)
        bits += [(numbers >> bit & 1).astype(np.uint8) for bit in range(width)]
        groups[name] = list(range(place, place + width))
        place += width
    return np.stack(bits, axis=1), groups


def holds(item, row):
    network = Network()
    return item.holds(network, [TRUE if bit else FALSE for bit in row]) == TRUE


def test_a_sum_of_counters_is_found():
    """Credits and what is on its way are five, whichever of two places it is in."""
    pairs = [(one, other) for one in range(4) for other in range(3) if one + other <= 5]
    found, groups = states(
        ("credits", [5 - one - other for one, other in pairs], 3),
        ("level", [one for one, _ in pairs], 2),
        ("queue", [other for _, other in pairs], 2),
    )
    guesses = relations(found, groups, {})
    assert all(holds(item, row) for item in guesses for row in found)
    sums = [item for item in guesses if isinstance(item, Sum)]
    assert sums
    wrong = np.array([1, 0, 1, 1, 0, 1, 0], np.uint8)
    assert not all(holds(item, wrong) for item in sums)


def test_a_sum_knows_how_many_stages_it_counts():
    """Three bits of one register weigh the same, those of the number that they add up to do not."""
    lines = range(8)
    found, groups = states(
        ("line", list(lines), 3), ("count", [line.bit_count() for line in lines], 2)
    )
    (found_sum,) = (item for item in relations(found, groups, {}) if isinstance(item, Sum))
    assert found_sum.stages == 3
    assert found_sum.moved(range(5)).stages == 3


def test_what_is_said_of_few_registers_is_said_by_itself():
    """A copy of the last bit of a sum of three counters is not said to be the rest of the sum."""
    counts = [(one, other) for one in range(4) for other in range(4)]
    found, groups = states(
        ("sum", [one + other for one, other in counts], 3),
        ("one", [one for one, _ in counts], 2),
        ("other", [other for _, other in counts], 2),
        ("copy", [other >> 1 for _, other in counts], 1),
    )
    sums = [item for item in relations(found, groups, {}) if isinstance(item, Sum)]
    assert sorted(len(item.registers) for item in sums) == [2, 7]
    assert all(holds(item, row) for item in sums for row in found)


def test_bits_of_a_wide_register_that_never_change_are_said():
    found, groups = states(("wide", [0, 1, 5, 100], 9))
    guesses = [item for item in relations(found, groups, {}) if isinstance(item, Sum)]
    assert all(holds(item, row) for item in guesses for row in found)
    for bit in (7, 8):
        wrong = found[0].copy()
        wrong[bit] = 1
        assert not all(holds(item, wrong) for item in guesses)


def test_registers_that_do_not_take_all_pairs_are_found():
    found, groups = states(("turn", [0, 1, 2, 3], 2), ("last", [0, 0, 0, 1], 1))
    guesses = relations(found, groups, {})
    assert any(isinstance(item, Table) for item in guesses)
    assert all(holds(item, row) for item in guesses for row in found)
    assert not all(holds(item, np.array([1, 0, 1], np.uint8)) for item in guesses)


def test_what_has_waited_is_as_far_along():
    """A result that has been due for n cycles is in stage n of three, or behind."""
    rows = [(wait, 1 << stage) for wait in range(3) for stage in range(wait, 3)]
    found, groups = states(
        ("late", [wait for wait, _ in rows], 2), ("line", [line for _, line in rows], 3)
    )
    roles = {"late": "wait", "line": "stages"}
    delays = [item for item in relations(found, groups, roles) if isinstance(item, Implication)]
    assert delays
    assert all(holds(item, row) for item in delays for row in found)
    assert not all(holds(item, np.array([0, 1, 1, 0, 0], np.uint8)) for item in delays)
    assert not any(isinstance(item, Implication) for item in relations(found, groups, {}))


def test_without_states_there_are_no_relations():
    assert relations(np.zeros((0, 2), np.uint8), {"any": [0, 1]}, {}) == []


def test_what_registers_are_is_said_in_the_modules():
    """By an attribute, of the sort that relations know; names do not matter."""
    sources = [*rtl_folder().rglob("*.sv"), *template_folder().rglob("*.j2")]
    given = [role for path in sources for role in ROLE.findall(path.read_text())]
    assert {STAGES, WAIT, PLACE} == set(given)
    assert len(given) > 20


def test_the_attribute_of_a_register_is_found_in_its_circuit(tmp_path):
    text = """
module line (input logic clk, input logic rst, input logic come, output logic gone);
  (* mase_register = "stages" *)
  logic [2:0] under_way_q;
  logic [2:0] other_q;
  always_ff @(posedge clk) under_way_q <= rst ? '0 : {under_way_q[1:0], come};
  always_ff @(posedge clk) other_q <= rst ? '0 : other_q + 3'(gone);
  assign gone = under_way_q[2];
endmodule
module top (input logic clk, input logic rst, input logic come);
  logic gone;
  line dut (.clk, .rst, .come, .gone);
  always_comb kept: assert (dut.other_q != 3'd7 || gone);
endmodule
"""
    (tmp_path / "top.sv").write_text(text)
    circuit = Circuit(["top.sv"], "top", tmp_path)
    assert circuit.names.roles == {"dut.under_way_q": "stages"}
    assert {"dut.under_way_q", "dut.other_q"} <= circuit.names.registers.keys()
