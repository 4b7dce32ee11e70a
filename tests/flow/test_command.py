"""The commands: from a model's name to a checked project, tables and JSON."""

import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
import pytest
import torch
import typer
from torch import nn

import mase_hw
from mase_hw._stages import listening
from mase_hw.cli import build_app
from mase_hw.cli._model import Subject, read_hardware
from mase_hw.cli._options import HardwareOptions, Targets
from mase_hw.cli._options import command as add_command
from mase_hw.passes.hardware.options import Hardware
from tests.flow.perceptrons import command, json_command, seeded

SIMULATION_KEYS = {
    *("bit_exact", "elements", "mismatches", "inferences", "cycles", "interval_cycles", "engine"),
    *("predicted_interval_cycles", "latency_cycles", "predicted_latency_cycles", "seconds"),
    "cycles_per_second",
}
RESOURCE_KEYS = {"lut", "ff", "carry", "dsp", "bram", "nodes"}
HELP = """
import sys
from mase_hw.cli import main

sys.argv = ["mase-hw", "emit-verilog", "--help"]
try:
    main()
except SystemExit:
    print("imported", *sys.modules)
"""
FACTORY = """
import torch
from tests.flow.perceptrons import seeded


def factory():
    model, inputs = seeded(4, 6, 3)
    return model, (inputs,)
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    (tmp_path / "net.py").write_text(FACTORY)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_factory_is_no_emoji(capsys):
    from mase_hw.cli._progress import Display

    display = Display()
    display.console.print("net.py:factory: 3 trials", markup=False)
    display.errors.print("net.py:factory: 3 trials")
    found = capsys.readouterr()
    assert found.out == found.err == "net.py:factory: 3 trials\n"


def test_float_accuracy_is_the_models_whatever_weights_are_given(here, monkeypatch, capsys):
    from mase_hw.models import models

    module = models()["digits-mlp"].load().module
    given = {key: value.sign() for key, value in module.state_dict().items()}
    torch.save(given, here / "trained.pt")
    arguments = ["emit-verilog", "digits-mlp", "-o", "digits", "--samples", "100"]
    plain = json_command(monkeypatch, capsys, *arguments)["accuracy"]
    assert plain["unrounded"] is None
    arguments += ["--weights", "trained.pt"]
    accuracy = json_command(monkeypatch, capsys, *arguments)["accuracy"]
    assert accuracy["float_model"] == plain["float_model"]
    assert accuracy["unrounded"] < accuracy["float_model"]
    _, table = command(monkeypatch, capsys, *arguments)
    assert re.search("given weights unrounded .* 0\\.", table), table


def test_the_main_job_on_a_part_of_the_test_set(here, monkeypatch, capsys):
    arguments = ["emit-verilog", "digits-mlp", "-o", "digits", "--simulate", "--samples", "100"]
    entry = json_command(monkeypatch, capsys, *arguments)
    simulation, accuracy = entry["simulation"], entry["accuracy"]
    assert simulation["bit_exact"] is True
    assert (simulation["elements"], simulation["inferences"]) == (1000, 100)
    assert simulation["interval_cycles"] == entry["predicted_interval_cycles"] == 256
    assert simulation["latency_cycles"] == entry["predicted_latency_cycles"]
    assert accuracy["samples"] == 100
    assert accuracy["float_model"] > 0.9
    assert accuracy["rtl"] == accuracy["quantized"] > 0.9
    assert entry["multipliers"] == 3 * 16
    status, table = command(monkeypatch, capsys, *arguments)
    assert status == 0
    for row in ("bit-exact .* yes", "measured on the RTL .* 0.9", "interval, simulated .* 256"):
        assert re.search(row, table), table


def test_a_factory_and_its_exported_program_become_the_same_hardware(here, monkeypatch, capsys):
    model, inputs = seeded(4, 6, 3)
    program = torch.export.export(
        model, (inputs,), dynamic_shapes=({0: torch.export.Dim.AUTO},), strict=False
    )
    torch.export.save(program, "net.pt2")
    entries = {}
    for argument, folder in (("net.py:factory", "a"), ("net.pt2", "b")):
        entries[folder] = json_command(monkeypatch, capsys, "emit-verilog", argument, "-o", folder)
    for key in ("predicted_interval_cycles", "predicted_latency_cycles", "multipliers"):
        assert entries["a"][key] == entries["b"][key]
    assert entries["a"]["simulation"] is entries["a"]["accuracy"] is None
    images = [
        {path.name: path.read_text() for path in (here / folder / "mem").iterdir()}
        for folder in ("a", "b")
    ]
    assert images[0] == images[1]
    assert len(images[0]) == 4


def test_simulate_and_synth_print_one_object(here, monkeypatch, capsys):
    project = mase_hw.emit_verilog(*seeded(4, 6, 3), output="out", parallelism=2)
    np.savez("x.npz", data_in_0=np.linspace(-2, 2, 20).reshape(5, 4))
    options = ["--inputs", "x.npz", "--outputs", "y.npz", "--stall", "0.2", "--probe", "relu_1"]
    entry = json_command(monkeypatch, capsys, "simulate", "out", *options)
    assert entry.keys() >= SIMULATION_KEYS
    assert (entry["bit_exact"], entry["inferences"]) == (True, 5)
    assert entry["elements"] == 5 * (3 + 6)
    saved = np.load("y.npz")
    assert set(saved) == {"codes", "values"}
    step = 2.0 ** -project.design.outputs[0].spec.quantized.frac_width
    assert saved["codes"].shape == (5, 3)
    assert np.array_equal(saved["values"], saved["codes"] * step)
    resources = json_command(monkeypatch, capsys, "synth", "out", "--target", "ecp5")
    assert resources.keys() >= RESOURCE_KEYS
    assert set(resources["nodes"]) == {"linear_0", "relu_1", "linear_2"}
    assert resources["dsp"] == 8


def test_the_wave_is_written_and_the_table_names_its_rows(here, monkeypatch, capsys):
    mase_hw.emit_verilog(*seeded(4, 6, 3), output="out", parallelism=2)
    options = ["--samples", "3", "--waves", "--engine", "cocotb"]
    status, table = command(monkeypatch, capsys, "simulate", "out", *options)
    assert status == 0
    assert re.search("bit-exact .* yes", table)
    assert "$enddefinitions" in (here / "out" / "sim" / "waves.vcd").read_text()


def test_emit_verilog_alone_has_the_options_of_the_subcommand():
    texts = []
    for words in (["mase-hw", "emit-verilog"], ["emit-verilog"]):
        program = Path(sysconfig.get_path("scripts")) / words[0]
        result = subprocess.run(
            [program, *words[1:], "--help"], capture_output=True, text=True, check=True
        )
        texts.append(result.stdout.partition("Write MODEL")[2])
    assert texts[0] == texts[1]
    assert "--parallelism" in texts[0]


def test_help_imports_nothing_heavy():
    done = subprocess.run([sys.executable, "-c", HELP], capture_output=True, text=True, check=True)
    imported = set(done.stdout.partition("\nimported ")[2].split())
    assert "typer" in imported
    assert not imported & {"torch", "numpy", "transformers", "optuna", "matplotlib", "jinja2"}


def test_long_steps_say_what_they_do(tmp_path):
    torch.manual_seed(0)
    found = []
    with listening(found.append):
        graph = mase_hw.trace(nn.Linear(3, 2), torch.randn(2, 3))
        project = mase_hw.emit_verilog(graph, output=tmp_path / "design")
        mase_hw.simulate(project, samples=1)
    builds = ["translating for the simulation", "compiling the simulation"]
    assert [item for item in found if item not in builds] == [
        "capturing",
        "number formats",
        "agreement with the float model",
        "what has hardware",
        "parallelism and queues",
        "that it cannot stop for good",
        "cycles",
        "files",
        "the integer reference",
        "simulating",
    ]
    count = len(found)
    mase_hw.trace(nn.Linear(3, 2), torch.randn(2, 3))
    assert len(found) == count


def test_every_option_is_described():
    from typer.main import get_command

    commands = dict(get_command(build_app()).commands)  # type: ignore[attr-defined]
    commands |= commands.pop("profile").commands
    assert len(commands) >= 20
    for name, item in commands.items():
        for parameter in item.params:
            assert parameter.help, f"{name}: {parameter.name}"


def test_a_description_of_no_option_is_refused():
    def simulate(*, samples: int = 1) -> None:
        """Simulate.

        Options:
            sample: inferences.
        """

    with pytest.raises(TypeError, match="simulate describes sample, which is no option of it"):
        add_command(app=typer.Typer())(simulate)


def test_options_take_the_place_of_a_configuration_file(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text('parallelism = 2\nmemory = "external"\n[queues]\na = 3\n')
    subject = Subject(mase_hw.trace(nn.Linear(3, 2), torch.randn(2, 3)))
    by_file = read_hardware(HardwareOptions(path)).settle(subject).hardware
    assert (by_file.parallelism, by_file.memory, by_file.queues) == (2, "external", {"a": 3})
    options = HardwareOptions(path, "auto", 9, Targets(max_lut=5), "on-chip", "logic")
    table = {"default": "auto", "max_lut": 5}
    style = {"default": "on-chip", "style": "logic"}
    settings = read_hardware(options).settle(subject)
    assert settings.hardware == Hardware(table, 9, style, {"a": 3})
