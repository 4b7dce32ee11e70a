"""The netlist that nextpnr gets for ECP5, registers moved into blocks, is simulated as the RTL is.

Multipliers and block memories have models in `rtl/` beside this file; Yosys brings those of the
other primitives.
"""

import json
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.hardware.route import find_part, routable
from mase_hw.hardware.synth import Netlist, run_yosys, synthesize

MODELS = Path(__file__).with_name("rtl")
PRIMITIVES = ("common_sim.vh", "ccu2c_sim.vh")
ECP5 = routable("ecp5")
SAMPLES, STALL = 12, 0.3

Json = dict[str, Any]


def multiplier(cell: Json) -> Json:
    nets, given = cell["connections"], cell["parameters"]
    uses = {
        name: int(given.get(f"REG_{name}_CLK", "NONE") == "CLK0")
        for name in ("INPUTA", "INPUTB", "OUTPUT")
    }
    assert given.get("REG_PIPELINE_CLK", "NONE") == "NONE"
    for pin, level in {"CE0": "1", "RST0": "0", "SOURCEA": "0", "SOURCEB": "0"}.items():
        assert nets.get(pin, [level]) == [level]
    ports = {
        "clk": nets.get("CLK0", ["0"]),
        "a": bits(nets, "A", 18),
        "a_signed": nets["SIGNEDA"],
        "b": bits(nets, "B", 18),
        "b_signed": nets["SIGNEDB"],
        "p": bits(nets, "P", 36),
    }
    names = ("INPUT_A", "INPUT_B", "OUTPUT")
    return instance("mase_ecp5_multiplier", ports, dict(zip(names, uses.values(), strict=True)))


def memory(cell: Json) -> Json:
    nets, given = cell["connections"], cell["parameters"]
    words = 0
    for line in range(64):
        slots = int(given[f"INITVAL_{line:02X}"], 2)
        for slot in range(16):
            words |= (slots >> 20 * slot & (1 << 18) - 1) << 18 * (16 * line + slot)
    clocks = {nets[f"CLK{side}"][0] for side in "AB"} - {"0"}
    ports: Json = {"clk": [clocks.pop()]}
    parameters: Json = {"WORDS": f"{words:018432b}"}
    assert not clocks
    for side in "AB":
        assert nets[f"RST{side}"] == ["0"]
        assert given.get(f"CLK{side}MUX", f"CLK{side}") == f"CLK{side}"
        low = side.lower()
        for pin in ("CE", "OCE", "WE"):
            ports[f"{pin.lower()}{low}"] = nets[f"{pin}{side}"]
        for pin, count in (("AD", 14), ("DI", 18), ("DO", 18)):
            ports[f"{pin.lower()}{low}"] = bits(nets, f"{pin}{side}", count)
        parameters[f"WIDTH_{side}"] = int(given[f"DATA_WIDTH_{side}"], 2)
        parameters[f"REGISTER_{side}"] = int(given[f"REGMODE_{side}"] == "OUTREG")
    return instance("mase_ecp5_memory", ports, parameters)


def bits(nets: Json, name: str, count: int) -> list[int | str]:
    return [nets.get(f"{name}{bit}", ["0"])[0] for bit in range(count)]


def instance(module: str, ports: Json, parameters: Json) -> Json:
    outputs = {"p", "doa", "dob"}
    return {
        "type": module,
        "parameters": {
            name: value if isinstance(value, str) else f"{value:032b}"
            for name, value in parameters.items()
        },
        "attributes": {},
        "port_directions": {port: "output" if port in outputs else "input" for port in ports},
        "connections": ports,
    }


BLOCKS = {"MULT18X18D": multiplier, "DP16KD": memory}


def simulated(project: Path, folder: Path, netlist: Json) -> bool:
    """Return whether a netlist in place of a project's RTL is bit-exact under stalls."""
    shutil.copytree(project, folder)
    for module in netlist["modules"].values():
        for cell in module["cells"].values():
            if cell["type"] in BLOCKS:
                cell |= BLOCKS[cell["type"]](cell)
    netlist["modules"] = {
        name: module for name, module in netlist["modules"].items() if not is_primitive(module)
    }
    (folder / "netlist.json").write_text(json.dumps(netlist))
    run_yosys(["read_json netlist.json", "write_verilog -noattr netlist.v"], folder, None)
    sources = ["netlist.v"]
    for name in PRIMITIVES:
        text = (yosys_share() / "lattice" / name).read_text()
        sources.append(f"{Path(name).stem}.v")
        (folder / sources[-1]).write_text(f"`define NO_INCLUDES\n{text}")
    for model in MODELS.glob("*.sv"):
        shutil.copy(model, folder)
        sources.append(model.name)
    (folder / "files.f").write_text("".join(f"{name}\n" for name in sources))
    return mase_hw.simulate(folder, samples=SAMPLES, stall=STALL, seed=3).bit_exact


def is_primitive(module: Json) -> bool:
    names = ("blackbox", "whitebox")
    return any(int(module["attributes"].get(name, "0"), 2) for name in names)


def yosys_share() -> Path:
    # Without importing it: beside its library, what torch compiles computes nonsense.
    found = find_spec("pyosys")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent / "share"


def blocks(netlist: Json, kind: str) -> list[Json]:
    modules = netlist["modules"].values()
    return [cell for item in modules for cell in item["cells"].values() if cell["type"] == kind]


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A layer whose weights lie in block memory, and whose products lie in multipliers."""
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("ecp5") / "layer"
    lanes = {"default": 1, "linear": {"data_in_0_dim_0": 4, "data_out_0_dim_0": 1}}
    inputs = (torch.randn(16, 32),)
    return mase_hw.emit_verilog(nn.Linear(32, 12), inputs, output=folder, parallelism=lanes).folder


@pytest.fixture(scope="module")
def plain(project):
    """The netlist of Yosys."""
    path = project.parent / "plain.json"
    synthesize(project, "ecp5", netlist=Netlist(path, None, find_part(ECP5, None, None, None)))
    return path.read_text()


def test_the_netlist_of_a_layer_computes_what_the_layer_does(project, plain, tmp_path):
    netlist = json.loads(plain)
    assert ECP5.mend(netlist)
    multipliers, memories = blocks(netlist, "MULT18X18D"), blocks(netlist, "DP16KD")
    assert len(multipliers) == 4
    for name in ("INPUTA", "INPUTB", "OUTPUT"):
        assert {cell["parameters"].get(f"REG_{name}_CLK") for cell in multipliers} == {"CLK0"}
    assert {cell["parameters"]["REGMODE_B"] for cell in memories} == {"OUTREG"}
    assert simulated(project, tmp_path / "netlist", netlist)


@pytest.mark.full
def test_what_lies_in_several_blocks_is_chosen_behind_their_registers(tmp_path):
    """2,500 words of 16 bits: three blocks of 1,024, one above the other, and what is replayed."""
    torch.manual_seed(0)
    lanes = {"default": 1, "linear": {"data_in_0_dim_0": 2, "data_out_0_dim_0": 1}}
    inputs = (torch.randn(16, 100),)
    project = mase_hw.emit_verilog(
        nn.Linear(100, 50), inputs, output=tmp_path / "layer", parallelism=lanes
    ).folder
    path = tmp_path / "netlist.json"
    synthesize(project, "ecp5", netlist=Netlist(path, None, find_part(ECP5, None, None, None)))
    netlist = json.loads(path.read_text())
    memories = blocks(netlist, "DP16KD")
    assert len(memories) == 4
    assert ECP5.mend(netlist)
    modes = [[cell["parameters"][f"REGMODE_{side}"] for side in "AB"] for cell in memories]
    assert all("OUTREG" in item for item in modes)
    assert simulated(project, tmp_path / "simulated", netlist)


@pytest.mark.full
def test_the_netlist_of_yosys_is_simulated_alike(project, plain, tmp_path):
    assert simulated(project, tmp_path / "netlist", json.loads(plain))


@pytest.mark.full
@pytest.mark.parametrize(
    ("kind", "parameter", "value"),
    [
        ("MULT18X18D", "REG_OUTPUT_CLK", "NONE"),
        ("MULT18X18D", "REG_INPUTB_CLK", "NONE"),
        ("DP16KD", "REGMODE_B", "NOREG"),
    ],
)
def test_a_register_that_is_lost_on_its_way_is_found(
    project, plain, tmp_path, kind, parameter, value
):
    netlist = json.loads(plain)
    assert ECP5.mend(netlist)
    blocks(netlist, kind)[0]["parameters"][parameter] = value
    assert not simulated(project, tmp_path / "netlist", netlist)
