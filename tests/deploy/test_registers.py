"""What is generated from the register map is as it is kept."""

from pathlib import Path

import pytest

pytest.importorskip("peakrdl")

from tests.registers import DRIVER, FOLDER, generate


def test_generated_files_are_those_of_the_register_map(tmp_path: Path) -> None:
    generate(tmp_path)
    made = sorted(tmp_path.iterdir())
    assert len(made) == 9
    for path in made:
        kept = DRIVER if path.name == DRIVER.name else FOLDER / path.name
        assert kept.read_text() == path.read_text(), path.name
