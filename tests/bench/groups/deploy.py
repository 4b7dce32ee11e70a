"""Designs behind buses, on boards, and with weights that are loaded."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar

from mase_hw.errors import ConfigError
from mase_hw.registry import nearest
from tests.bench.base import Benchmark, Row, timed

BOARDS = ("ulx3s", "icebreaker", "tang-nano-20k")
MODEL, INFERENCES = "digits-mlp", 360
BUILD_MINUTES, WRAPPER_LUT = 10, 400
PAGES, PAGE_BYTES, PAGE_SECONDS = ("fashion-resnet8", "bert-tiny"), 3_000_000, 20
# Debian's qflow-tech-osu035.
LIBERTY = Path("/usr/share/qflow/tech/osu035/osu035_stdcells.lib")
ENERGY_SPREAD = 0.01
# What is measured by running tests, by figure: files and what is chosen of them.
TESTS: Mapping[str, tuple[str, str]] = {
    "buses": ("deploy/test_axi_stream.py", "equal"),
    "memory": ("deploy/test_axi_memory.py", "batches or outside"),
    "framing": ("deploy/test_serial.py", "fault or second or another"),
    "weights": ("deploy/test_weights.py", "loaded"),
    "fusesoc": ("deploy/test_projects.py", "fusesoc"),
    "compare": ("sim/test_compare.py", "fault"),
}


class Deploy(Benchmark):
    """Wrapped designs against other people's parts, boards, and the serial line of one."""

    name: ClassVar[str] = "deploy"
    title: ClassVar[str] = "Bus ports, boards, drivers, weights at run time"
    default: ClassVar[bool] = False

    def __init__(self, names: Sequence[str] = ()) -> None:
        self.names = names

    def only(self, names: Sequence[str]) -> Deploy:
        """Return the benchmark with some figures alone."""
        known = figures()
        for name in names:
            if name not in known:
                raise ConfigError(f"no figure is called {name!r}; {nearest(name, known)}")
        return Deploy(names)

    def rows(self, *, quick: bool = False) -> Iterator[Row]:
        """Yield the figures."""
        import torch

        torch.set_num_threads(1)
        known = figures()
        for name in self.names or known:
            with tempfile.TemporaryDirectory(prefix="mase-hw-bench-") as folder:
                yield from known[name](Path(folder), quick)


Measure = Callable[[Path, bool], Iterator[Row]]


def figures() -> dict[str, Measure]:
    """Return what measures each figure, by the name that `--only` takes."""
    return {
        **{name: partial(test_rows, name) for name in TESTS},
        "wrapper": wrapper_rows,
        "serial": serial_rows,
        **{board: partial(board_rows, board) for board in BOARDS},
        **{f"page-{model}": partial(page_rows, model) for model in PAGES},
        "energy": energy_rows,
    }


def test_rows(name: str, folder: Path, quick: bool) -> Iterator[Row]:
    """Run tests, a thousand inferences of each design behind a bus."""
    file, chosen = TESTS[name]
    count = "40" if quick else "1000"
    command = [sys.executable, "-m", "pytest", "-q", "-k", chosen, f"tests/{file}"]
    command += ["-m", "full or not full"]
    result = subprocess.run(
        ["env", f"MASE_HW_BUS_INFERENCES={count}", *command],
        capture_output=True,
        text=True,
        check=False,
    )
    lines = result.stdout.strip().splitlines() or ["nothing"]
    said = " ".join([*(line for line in lines if line.startswith("FAILED")), lines[-1]])
    what = {"buses": f"{count} inferences of each design under random pauses: tests"}
    yield Row(what.get(name, f"{name}: tests"), said, "no failure", result.returncode == 0)


def wrapper_rows(folder: Path, quick: bool) -> Iterator[Row]:
    """Count the look-up tables of bus ports and registers of 32 bits round a perceptron."""
    import torch

    from mase_hw import emit_verilog
    from mase_hw.deploy.bus import BusOptions
    from mase_hw.deploy.deployment import Deployment
    from mase_hw.hardware.synth import Entry, synthesize

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3))
    around = Deployment(BusOptions("axi-stream", 32))
    project = emit_verilog(
        model, torch.randn(16, 6), output=folder / "net", deployment=around
    ).folder
    entry = Entry("top_axis", "bus/files.f", "top_axis.u_top")
    lut = synthesize(project, "xcup", entry=entry).glue.lut
    yield Row(
        "LUT of AXI4-Stream and AXI4-Lite ports, 32 bits, Yosys xcup",
        f"{lut}",
        f"<= {WRAPPER_LUT}",
        lut <= WRAPPER_LUT,
    )


def serial_rows(folder: Path, quick: bool) -> Iterator[Row]:
    """Compare the classes of all digits, host to host through the serial pins."""
    import numpy as np
    import torch

    from mase_hw import emit_verilog
    from mase_hw.cli._model import load_subject
    from mase_hw.cli._progress import Display
    from mase_hw.deploy.bus import BusOptions
    from mase_hw.deploy.deployment import Deployment
    from mase_hw.deploy.driver import Model
    from mase_hw.deploy.driver.serial_device import SerialDevice
    from mase_hw.deploy.driver.simulated import SimulatedLine, build
    from mase_hw.emit.design import DesignSummary
    from mase_hw.emit.project import load_reference

    subject = load_subject(MODEL, Display(json_output=True))
    assert subject.split is not None
    count = 10 if quick else INFERENCES
    project = emit_verilog(
        subject.mg,
        output=folder / "net",
        config=subject.config,
        deployment=Deployment(BusOptions("uart")),
    ).folder
    images = subject.split.test_inputs[:count]
    with SimulatedLine(build(project, folder / "build"), project) as line:
        model = Model(SerialDevice(line), project)
        codes = np.asarray(model.encode(images.numpy()))
        found = np.asarray(model(codes))
    shape = DesignSummary.load(project).inputs[0].spec.shape
    (wanted,) = load_reference(project)([torch.from_numpy(codes).reshape(-1, *shape)]).values()
    differs = found.reshape(len(found), -1) != wanted.reshape(len(found), -1).numpy()
    equal = int((~differs.any(axis=1)).sum())
    right = (found.argmax(axis=-1) == subject.split.test_labels[:count].numpy()).mean()
    yield Row(
        f"{MODEL} over a serial line in simulation, host to host: inferences equal",
        f"{equal} of {count}; {right:.1%} of the classes are right",
        "all",
        equal == count,
    )


def board_rows(board: str, folder: Path, quick: bool) -> Iterator[Row]:
    """Make the bitstream of a board."""
    from mase_hw.api import build
    from mase_hw.cli._model import load_subject
    from mase_hw.cli._progress import Display

    subject = load_subject(MODEL, Display(json_output=True))
    with timed() as elapsed:
        _, report = build(
            subject.mg, board=board, output=folder / "net", config=subject.config, parallelism=1
        )
    used = ", ".join(f"{name} {taken:,}" for name, (taken, _) in report.median.used.items())
    yield Row(
        f"{MODEL} to a bitstream of {board}, CPU time",
        f"{elapsed.cpu:.0f} s; {report.fmax_mhz:.0f} MHz; {used}",
        f"<= {BUILD_MINUTES} minutes",
        elapsed.cpu <= 60 * BUILD_MINUTES and report.is_met,
    )


def page_rows(model: str, folder: Path, quick: bool) -> Iterator[Row]:
    """Make the page of a network: its size, and the time with and without the simulator at hand."""
    from mase_hw import emit_verilog
    from mase_hw.cli._model import load_subject
    from mase_hw.cli._progress import Display
    from mase_hw.report import write_report

    subject = load_subject(model, Display(json_output=True))
    # That of the transformer is of its linear layers alone.
    config = None if model == "bert-tiny" else subject.config
    project = emit_verilog(
        subject.mg, output=folder / "net", config=config, parallelism="auto"
    ).folder
    with timed() as first:
        path = write_report(project, folder / "page.html")
    with timed() as again:
        write_report(project, folder / "again.html")
    size = path.stat().st_size
    yield Row(
        f"page of {model}: size; time to make, simulator built / at hand",
        f"{size / 1e6:.2f} MB; {first.cpu:.0f} / {again.cpu:.0f} CPU s",
        f"<= {PAGE_BYTES / 1e6:.0f} MB; {PAGE_SECONDS} s",
        size <= PAGE_BYTES and again.cpu <= PAGE_SECONDS,
    )


def energy_rows(folder: Path, quick: bool) -> Iterator[Row]:
    """Count the area and the energy of a network as standard cells."""
    from mase_hw import emit_verilog
    from mase_hw.cli._model import load_subject
    from mase_hw.cli._progress import Display
    from mase_hw.hardware.gates import synthesize_gates
    from mase_hw.sim.energy import count_energy

    if not LIBERTY.is_file():
        raise ConfigError(f"{LIBERTY} is missing: apt install qflow-tech-osu035")
    subject = load_subject(MODEL, Display(json_output=True))
    project = emit_verilog(
        subject.mg, output=folder / "net", config=subject.config, parallelism=1
    ).folder
    gates = synthesize_gates(project, LIBERTY)
    one, other, seeded = (count_energy(project, gates, seed=seed) for seed in (0, 0, 1))
    spread = abs(one.joules - other.joules) / one.joules
    yield Row(
        f"{MODEL} in {one.library}, estimated: area; energy an inference, two runs of one seed",
        f"{gates.total.area:,.0f}; {1e6 * one.joules:.3g} uJ, {spread:.2%} apart (another seed: "
        f"{abs(one.joules - seeded.joules) / one.joules:.2%})",
        f"<= {ENERGY_SPREAD:.0%} apart",
        spread <= ENERGY_SPREAD,
    )
