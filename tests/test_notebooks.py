"""The notebooks are those of the tutorials' scripts, and their figures those of a run."""

import nbformat
import pytest

from tests.notebooks import FOLDER, NAMES, clean, execute, figures, notebook, notebook_path


def test_every_tutorial_is_a_notebook():
    assert {path.stem for path in FOLDER.glob("[a-z]*.py")} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_the_notebook_is_made_from_the_script(name):
    """`python -m tests.notebooks NAME` writes it anew."""
    written = nbformat.read(notebook_path(name), as_version=4)
    made = notebook(name)
    assert [(cell.cell_type, cell.source) for cell in written.cells] == [
        (cell.cell_type, cell.source) for cell in made.cells
    ]
    assert any("output" in str(cell.get("outputs")) for cell in written.cells)


@pytest.mark.full
@pytest.mark.parametrize("name", NAMES)
def test_the_notebook_shows_what_a_run_prints(name, tmp_path):
    """Numbers within 5 %: processors add in other orders, and training carries that on."""
    made = execute(notebook(name), tmp_path)
    clean(made)
    written = nbformat.read(notebook_path(name), as_version=4)
    for found, shown in zip(figures(made), figures(written), strict=True):
        assert found == shown or float(found) == pytest.approx(float(shown), rel=0.05)
    assert str(made).count("image/svg+xml") == str(written).count("image/svg+xml")
