"""Registers move into ECP5's multipliers and memories where nothing else reads or stops them."""

from typing import Any

from mase_hw.hardware.targets._ecp5_registers import absorb_registers

CLOCK = 2
OPERAND, PRODUCT = 18, 36


def flip_flop(data: int, output: int, **changed: Any) -> dict[str, Any]:
    nets = {"CLK": [CLOCK], "DI": [data], "LSR": ["0"], "Q": [output]} | changed
    directions = dict.fromkeys(nets, "input") | {"Q": "output"}
    # Yosys writes a space behind a string that could be a number.
    parameters = {"CEMUX": "CE" if "CE" in nets else "1 ", "CLKMUX": "CLK", "REGSET": "RESET"}
    return cell("TRELLIS_FF", nets, directions, parameters)


def cell(kind: str, nets: Any, directions: Any, parameters: Any) -> dict[str, Any]:
    return {
        "type": kind,
        "connections": nets,
        "port_directions": directions,
        "parameters": parameters,
    }


def module(**changed: Any) -> dict[str, Any]:
    """Return a multiplier of one bit each, between registers: 10, 11 -> 20, 21 -> 30 -> 40."""
    nets = {f"A{bit}": [20 if bit == 0 else "0"] for bit in range(OPERAND)}
    nets |= {f"B{bit}": [21 if bit == 0 else "0"] for bit in range(OPERAND)}
    nets |= {f"P{bit}": [30 if bit == 0 else 100 + bit] for bit in range(PRODUCT)}
    directions = {name: "output" if name[0] == "P" else "input" for name in nets}
    cells = {
        "a": flip_flop(10, 20),
        "b": flip_flop(11, 21),
        "product": cell("MULT18X18D", nets, directions, {}),
        "p": flip_flop(30, 40),
    }
    ports = {"out": {"direction": "output", "bits": [40]}}
    return {"cells": cells | changed, "ports": ports}


def test_all_three_registers_of_a_multiplier_are_used():
    found = module()
    assert absorb_registers(found) == 3
    (multiplier,) = found["cells"].values()
    nets, parameters = multiplier["connections"], multiplier["parameters"]
    assert (nets["A0"], nets["B0"], nets["P0"]) == ([10], [11], [40])
    assert (nets["CLK0"], nets["CE0"], nets["RST0"]) == ([CLOCK], ["1"], ["0"])
    for register in ("INPUTA", "INPUTB", "OUTPUT"):
        assert parameters[f"REG_{register}_CLK"] == "CLK0"


def test_a_register_that_something_else_reads_stays():
    """The operand's is copied, the product's cannot be: its reader would see it a cycle late."""
    found = module(also=flip_flop(20, 50), beside=flip_flop(30, 60))
    assert absorb_registers(found) == 1
    assert {"a", "p", "also", "beside"} <= set(found["cells"])
    multiplier = found["cells"]["product"]
    assert multiplier["connections"]["A0"] == [10]
    assert multiplier["connections"]["P0"] == [30]
    assert "REG_OUTPUT_CLK" not in multiplier["parameters"]


def test_registers_with_an_enable_a_reset_or_another_clock_stay():
    for changed in ({"CE": [5]}, {"LSR": [6]}):
        found = module(a=flip_flop(10, 20, **changed), p=flip_flop(30, 40, **changed))
        assert absorb_registers(found) == 1
        assert found["cells"]["product"]["connections"]["A0"] == [20]
    found = module(b=flip_flop(11, 21, CLK=[3]))
    assert absorb_registers(found) == 2
    assert found["cells"]["product"]["connections"]["B0"] == [21]


def memory(wide: bool) -> dict[str, Any]:
    nets: dict[str, Any] = {f"DO{side}{bit}": [200 + bit] for side in "AB" for bit in range(18)}
    nets |= {f"DOB{bit}": [300 + bit] for bit in range(18)}
    directions = dict.fromkeys(nets, "output")
    controls: dict[str, Any] = {"CLKA": ["0" if wide else CLOCK], "CLKB": [CLOCK]}
    controls |= {name: ["0"] for name in ("OCEA", "OCEB", "RSTA", "RSTB")}
    width = f"{36 if wide else 9:032b}"
    parameters = {"DATA_WIDTH_A": width, "DATA_WIDTH_B": width}
    parameters |= {"REGMODE_A": "NOREG", "REGMODE_B": "NOREG"}
    cells = {
        "memory": cell(
            "DP16KD", nets | controls, directions | dict.fromkeys(controls, "input"), parameters
        ),
        "low": flip_flop(200, 400, CE=[7]),
        "high": flip_flop(300, 401, CE=[7 if wide else 8]),
    }
    return {"cells": cells, "ports": {"out": {"direction": "output", "bits": [400, 401]}}}


def test_each_side_of_a_memory_has_a_register_with_an_enable_of_its_own():
    found = memory(wide=False)
    assert absorb_registers(found) == 2
    (ram,) = found["cells"].values()
    assert (ram["connections"]["DOA0"], ram["connections"]["DOB0"]) == ([400], [401])
    assert (ram["connections"]["OCEA"], ram["connections"]["OCEB"]) == ([7], [8])


def test_the_halves_of_a_wide_word_are_registered_together():
    found = memory(wide=True)
    assert absorb_registers(found) == 2
    (ram,) = found["cells"].values()
    assert {ram["parameters"][f"REGMODE_{side}"] for side in "AB"} == {"OUTREG"}
    assert (ram["connections"]["CLKA"], ram["connections"]["OCEA"]) == ([CLOCK], [7])
    apart = memory(wide=True)
    apart["cells"]["high"]["connections"]["CE"] = [8]
    assert absorb_registers(apart) == 0
