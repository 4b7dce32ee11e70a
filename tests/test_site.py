"""The pages and the API reference make a site without a broken link."""

import subprocess
from pathlib import Path

import pytest

from tests import site

pytestmark = pytest.mark.full


def test_the_site_is_built_strictly(tmp_path):
    assert "WARNING -" not in site.build(tmp_path)
    first = (tmp_path / "reference" / "mase_hw.html").read_text()
    for name in ("graph.trace.trace", "quantize", "emit_verilog", "simulate", "MaseGraph.save"):
        assert f'id="mase_hw.{name}"' in first
    passes = (tmp_path / "reference" / "mase_hw.passes.html").read_text()
    assert "gptq_transform_pass" in passes
    assert (tmp_path / "tests" / "bench" / "index.html").exists()
    notebook = (tmp_path / "mase_hw" / "tutorials" / "pruning.html").read_text()
    assert "<svg" in notebook


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[away](gone.md)", "gone.md"),
        ("[away](#gone)", "#gone"),
        ("::: mase_hw.gone", "mase_hw.gone"),
        ("", "more.md"),
    ],
)
def test_a_broken_link_ends_the_build(text, problem, tmp_path, monkeypatch):
    def write_page(folder: Path) -> None:
        folder.mkdir()
        (folder / "more.md").write_text(f"# More\n\n{text}\n")

    monkeypatch.setattr(site, "write_pages", write_page)
    with pytest.raises(subprocess.CalledProcessError) as caught:
        site.build(tmp_path)
    assert problem in caught.value.output
