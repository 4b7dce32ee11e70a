"""Gates of a library are those of the design; the energy of their changes is what was counted."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw import cli
from mase_hw.emit.project import Project
from mase_hw.errors import SimulationError, SynthesisError
from mase_hw.hardware.gates import GateReport, synthesize_gates
from mase_hw.sim.energy import count_energy
from tests.flow.perceptrons import command

LIBRARY = Path(__file__).parents[1] / "hardware" / "cells.lib"
Made = tuple[Project, GateReport]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 2), nn.ReLU())
    folder = tmp_path_factory.mktemp("energy") / "net"
    config = {
        "by": "type",
        "default": {"config": {"name": "fixed", "data_in_width": 4, "weight_width": 4}},
    }
    project = mase_hw.emit_verilog(model, torch.randn(16, 3), output=folder, config=config)
    return project, synthesize_gates(folder, LIBRARY)


def test_gates_compute_what_the_reference_does(made):
    project, gates = made
    assert list(gates.nodes)[:1] == ["linear_0"]
    cells = [gate.cell for gate in gates.netlist.gates]
    assert gates.total.flip_flops == cells.count("REGISTER") > 10
    assert gates.total.area == 10 * cells.count("REGISTER") + sum(
        {"BUFFER": 3, "NOT": 2.5, "NAND": 4, "NOR": 4}.get(cell, 0) for cell in cells
    )
    first, again, other = (count_energy(project.folder, gates, seed=seed) for seed in (0, 0, 1))
    assert first == again
    assert other.joules == pytest.approx(first.joules, rel=0.05)
    assert first.inferences == 4
    # The clock's pins: two changes a cycle of each flip-flop's 2 units of 10 fF at 2 V.
    clock = 2 * first.cycles * gates.total.flip_flops * 0.5 * 20e-15 * 4 / 4
    assert sum(of_clock for _, of_clock in first.nodes.values()) == pytest.approx(clock)
    assert first.joules > clock


def test_energy_follows_the_numbers_of_the_library(made):
    project, gates = made
    base = count_energy(project.folder, gates, samples=2)
    bigger = replace(gates, library=replace(gates.library, capacitance_unit=2e-14))
    assert count_energy(project.folder, bigger, samples=2).joules == pytest.approx(2 * base.joules)
    higher = replace(gates, library=replace(gates.library, voltage=4.0))
    found = count_energy(project.folder, higher, samples=2)
    # Charge with the square of the voltage; what the cells take inside stays.
    free = replace(gates, library=replace(gates.library, voltage=0.0))
    inside = count_energy(project.folder, free, samples=2).joules
    assert 0 < inside < base.joules
    assert found.joules - inside == pytest.approx(4 * (base.joules - inside))


def test_a_wrong_gate_is_noticed(made):
    project, gates = made
    broken = [
        replace(gate, cell="NOR") if (gate.node, gate.cell) == ("relu_1", "NAND") else gate
        for gate in gates.netlist.gates
    ]
    assert broken != list(gates.netlist.gates)
    wrong = replace(gates, netlist=replace(gates.netlist, gates=tuple(broken)))
    with pytest.raises(SimulationError, match=r"differ between the gates|gave no result"):
        count_energy(project.folder, wrong)


@pytest.mark.full
def test_what_has_no_energy_is_said(made):
    project, gates = made
    with pytest.raises(SimulationError, match="samples is 17; allowed: 1 to 16"):
        count_energy(project.folder, gates, samples=17)
    few = synthesize_gates(project.folder, LIBRARY, macro_bits=4)
    assert few.total.macro_bits > 0
    assert few.total.area < gates.total.area
    with pytest.raises(SimulationError, match="bits in macros, of which a library of cells knows"):
        count_energy(project.folder, few)


@pytest.mark.full
def test_the_command_prints_both(made, tmp_path, monkeypatch, capsys):
    project, gates = made
    options = ("synth", str(project.folder), "--liberty", str(LIBRARY))
    status, text = command(monkeypatch, capsys, *options, "--energy", "2", "--json")
    found = json.loads(text)
    assert status == 0
    assert found["area"] == gates.total.area
    assert found["energy"]["joules"] == count_energy(project.folder, gates, samples=2).joules
    for wrong, told in (
        (["synth", str(project.folder), "--energy", "2"], "add --liberty FILE"),
        ([*options, "--route"], "--route belongs to an FPGA"),
        ([*options, "--target", "ecp5"], "--target belongs to an FPGA"),
    ):
        monkeypatch.setattr("sys.argv", ["mase-hw", *wrong])
        with pytest.raises(SystemExit):
            cli.main()
        assert told in capsys.readouterr().err


@pytest.mark.full
def test_a_library_without_gates_is_said(made, tmp_path):
    project, _ = made
    path = tmp_path / "none.lib"
    path.write_text(LIBRARY.read_text().replace('clocked_on : "CK"', 'clocked_on : "!CK"'))
    gates = synthesize_gates(project.folder, path)
    with pytest.raises(SimulationError, match="must have flip-flops on a rising clock"):
        count_energy(project.folder, gates)
    with pytest.raises(SynthesisError, match="is not a mase-hw project"):
        synthesize_gates(tmp_path, LIBRARY)
