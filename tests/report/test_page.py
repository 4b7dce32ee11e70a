"""The page of a project: whole, by itself, and true."""

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.report import write_report
from tests.flow.perceptrons import command

VOID = {"meta", "br", "hr", "img", "input", "link"}
BROWSER = shutil.which("chromium") or shutil.which("google-chrome")


class Outline(HTMLParser):
    """What elements there are, and whether each one that begins ends."""

    def __init__(self, text):
        super().__init__()
        self.open, self.found, self.words = [], [], []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_startendtag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


class Branches(nn.Module):
    """Two branches, of which one waits for the other in a queue."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second, self.norm = nn.Linear(8, 8), nn.Linear(8, 8), nn.LayerNorm(8)

    def forward(self, x):
        y = torch.relu(self.first(x))
        return self.norm(y + self.second(y))


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report") / "a<b"
    inputs = torch.randn(16, 8, generator=torch.Generator().manual_seed(1))
    return mase_hw.emit_verilog(
        Branches().eval(), inputs, output=folder, parallelism=2, name="branches"
    )


@pytest.fixture(scope="module")
def page(project):
    return write_report(project.folder, project.folder.parent / "page.html")


def test_a_page_is_whole_and_needs_nothing_else(page, project):
    outline = Outline(page.read_text())
    for tag, attributes in outline.found:
        assert tag not in ("img", "link", "iframe")
        assert "src" not in attributes
        assert attributes.get("href", "#").startswith("#")
    assert "@import" not in page.read_text()
    assert page.stat().st_size < 3_000_000
    assert "mase-hw report a<b" in outline.text


def test_a_page_says_what_was_found(page, project):
    text = Outline(page.read_text()).text
    design = json.loads((project.folder / "design.json").read_text())
    assert "The hardware equals the integer reference on every bit." in text
    assert f"interval, predicted (cycles) {design['predicted']['interval_cycles']}" in text
    assert str(project.design.agreement) in text
    figures = {f"{item.tensor_db:.1f} dB" for item in project.design.agreement.nodes.values()}
    told = {f"{ratio} dB" for ratio in re.findall(r"([0-9.]+) dB", text)}
    assert told <= figures | {f"{project.design.agreement.sqnr_db:.1f} dB"}
    for node in project.mg.nodes:
        if node.op == "call_function":
            assert node.name in text
    # The depth of the queue, and how full it became.
    (queue,) = design["queues"]
    assert f"{queue['node']} {queue['depth']}" in text


def test_every_layer_can_be_chosen_by_keyboard_and_is_named(page, project):
    outline = Outline(page.read_text())
    boxes = [item for tag, item in outline.found if tag == "g" and "data-node" in item]
    told = {item["data-details"] for tag, item in outline.found if tag == "template"}
    assert {box["data-node"] for box in boxes} - {"output"} <= told
    assert all(box["tabindex"] == "0" and box["role"] == "button" for box in boxes)
    assert all("aria-label" in item for tag, item in outline.found if item.get("role") == "img")


@pytest.mark.full
def test_a_broken_design_is_not_called_exact(project, tmp_path):
    folder = tmp_path / "broken"
    shutil.copytree(project.folder, folder)
    (image,) = folder.glob("mem/second_weight_*.mem")
    words = image.read_text().split()
    image.write_text("".join(f"{int(word, 16) ^ 0x80:0{len(word)}x}\n" for word in words))
    text = Outline(write_report(folder, tmp_path / "page.html").read_text()).text
    assert "The hardware differs from the integer reference." in text
    assert "first mismatch in second" in text


@pytest.mark.full
def test_two_projects_are_shown_side_by_side(project, tmp_path, monkeypatch, capsys):
    other = mase_hw.emit_verilog(
        Branches().eval(), torch.randn(16, 8), output=tmp_path / "fast", parallelism=8
    )
    status, text = command(
        monkeypatch, capsys, "report", str(project.folder), "-o", str(tmp_path / "both.html"),
        "--compare", str(other.folder),
    )  # fmt: skip
    assert status == 0
    assert "both.html" in text
    both = Outline((tmp_path / "both.html").read_text()).text
    assert "Beside fast" in both


@pytest.mark.skipif(BROWSER is None, reason="needs Chromium")
def test_a_browser_runs_its_script(page, tmp_path):
    copy = tmp_path / "page.html"
    probe = '<script>choose("second"); document.title = "chosen";</script></body>'
    copy.write_text(page.read_text().replace("</body>", probe))
    done = subprocess.run(
        [BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--dump-dom", copy.as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    outline = Outline(done.stdout)
    assert "chosen" in outline.text
    marked = [item for _, item in outline.found if "chosen" in item.get("class", "")]
    assert {item.get("data-node") or item.get("data-row") for item in marked} == {"second"}


def test_sources_are_relative_and_figures_of_one_device(page, project, monkeypatch):
    text = page.read_text()
    assert "test_page.py:" in text and "LFE5U" not in text and "UltraScale+" in text
    for folder in (Path(__file__).parent, project.folder.parent, Path.home()):
        assert str(folder) not in text
    monkeypatch.chdir(Path(__file__).parents[1])
    again = write_report(project.folder, project.folder.parent / "again.html").read_text()
    assert "report/test_page.py:" in again and str(Path(__file__).parents[1]) not in again
