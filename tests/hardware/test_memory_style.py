"""Of what memories of constants are made: as asked, and by their size otherwise."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from typer.testing import CliRunner

import mase_hw
from mase_hw.cells import RomSource
from mase_hw.cli import build_app
from mase_hw.errors import ConfigError
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.hardware.estimate import estimate
from mase_hw.hardware.synth import synthesize
from tests.engines import exact


def emit(folder: Path, memory: Any) -> Any:
    """Two layers, the first of which has more weights than look-up tables should hold."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(24, 8), nn.Linear(8, 4))
    return mase_hw.emit_verilog(
        model, (torch.randn(8, 24),), output=folder, parallelism=2, memory=memory
    )


def parameters(mg: MaseGraph) -> dict[str, tuple[Any, Any]]:
    """Return BLOCK and LOGIC of the memory of each layer's weights."""
    return {
        node.name: (source.parameters["BLOCK"], source.parameters["LOGIC"])
        for node in mg.nodes
        if node.op == "call_function"
        for source in [mg.netlist(node).source("weight")]
    }


@pytest.mark.parametrize(
    ("memory", "first", "second"),
    [
        ("on-chip", (True, False), (False, False)),
        ({"style": "auto"}, (True, False), (False, False)),
        ({"style": "block"}, (True, False), (True, False)),
        ({"style": "logic"}, (False, True), (False, True)),
        ({"style": "distributed"}, (False, True), (False, True)),
        ({"linear_0": {"style": "logic"}}, (False, True), (False, False)),
        ({"style": "logic", "linear_1": {"style": "block"}}, (False, True), (True, False)),
    ],
)
def test_a_style_holds_for_all_memories_or_those_of_a_node(tmp_path, memory, first, second):
    assert parameters(emit(tmp_path, memory).mg) == {"linear_0": first, "linear_1": second}


def test_a_style_stands_beside_a_place(tmp_path):
    memory = {"style": "logic", "linear_0": {"weight": "external", "style": "block"}}
    cells = emit(tmp_path, memory).mg.netlist(emit(tmp_path / "b", memory).mg.node("linear_1"))
    sources = [cell for cell in cells.cells.values() if isinstance(cell, RomSource)]
    assert {cell.parameters["LOGIC"] for cell in sources} == {True}


@pytest.mark.parametrize(
    ("memory", "said"),
    [
        ({"style": "huge"}, "style is 'huge'; allowed: auto, logic, distributed, block"),
        ({"linear_0": {"style": 3}}, "linear_0.style is 3; allowed: auto"),
        ({"styl": "block"}, "unknown option 'styl'; did you mean style"),
    ],
)
def test_a_style_that_does_not_exist_is_refused(tmp_path, memory, said):
    with pytest.raises(ConfigError, match=said):
        emit(tmp_path, memory)


@pytest.mark.full
@pytest.mark.parametrize("style", ["block", "logic"])
def test_synthesis_puts_memories_where_the_style_says(tmp_path, style):
    project = emit(tmp_path / "design", {"style": style})
    exact(project.folder, samples=20, stall=0.2)
    counted, guessed = synthesize(project.folder).total, estimate(project.mg)
    assert (counted.bram > 0) is (style == "block")
    assert counted.bram == guessed.bram
    assert guessed.lut == pytest.approx(counted.lut, rel=0.15)


def test_the_command_takes_a_style(tmp_path):
    model = tmp_path / "model.py"
    model.write_text(
        "import torch\ndef factory():\n    return torch.nn.Linear(24, 8), (torch.randn(4, 24),)\n"
    )
    said = {}
    for style in ("block", "logic"):
        words = ["estimate", f"{model}:factory", "--parallelism", "2", "--json"]
        done = CliRunner().invoke(build_app(), [*words, "--memory-style", style])
        assert done.exit_code == 0, done.output
        said[style] = '"bram": 0,' in done.output or '"bram": 0.0,' in done.output
    assert said == {"block": False, "logic": True}
