"""The notebooks are those of the tutorials' scripts, and run from the first cell to the last."""

from pathlib import Path

import nbformat
import pytest

from tests.notebooks import FOLDER, NAMES, execute, notebook, notebook_path

QUICK = {
    "graph": {"samples": 4},
    "bert": {"samples": 256, "epochs": 1},
    "pruning": {"epochs": 2},
    "search": {"trials": 1, "samples": 64},
    "fit": {"epochs": 2},
    "mixed_precision": {"trials": 3, "epochs": 3},
    "perceptron": {"epochs": 2, "samples": 5},
    "software": {"samples": 50, "longest": 128},
}


def test_every_tutorial_is_a_notebook() -> None:
    assert {path.stem for path in FOLDER.glob("[a-z]*.py")} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_the_notebook_is_made_from_the_script(name: str) -> None:
    """`python -m tests.notebooks NAME` writes it anew."""
    written = nbformat.read(notebook_path(name), as_version=4)
    made = notebook(name)
    assert [(cell.cell_type, cell.source) for cell in written.cells] == [
        (cell.cell_type, cell.source) for cell in made.cells
    ]
    assert any("output" in str(cell.get("outputs")) for cell in written.cells)


@pytest.mark.full
@pytest.mark.parametrize("name", NAMES)
def test_the_notebook_runs(name: str, tmp_path: Path) -> None:
    made = execute(notebook(name, QUICK[name]), tmp_path)
    results = [output for cell in made.cells for output in cell.get("outputs", [])]
    assert "text/plain" in results[-1].data
    if "savefig(" in str(made) or ".draw(" in str(made):
        assert any("image/svg+xml" in output.get("data", {}) for output in results)
