"""The pages of the tree: links lead somewhere, code is code, and what they name exists."""

import ast
import json
import re
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest
from typer.main import get_command

from mase_hw.cli import build_app
from mase_hw.experiments import experiments
from mase_hw.formats import format_class
from mase_hw.graph.memory import MemoryPort
from mase_hw.models import models
from mase_hw.pipelines._steps import STEPS
from mase_hw.search.objective import METRICS
from mase_hw.search.samplers import PRUNERS, SAMPLERS
from mase_hw.search.task import TABLES
from tests._architecture import LAYERS
from tests._readme import FENCE, ROOT, blocks, links, pages
from tests.bench import benchmarks
from tests.figures import FIGURES, FOLDER

PAGES = pages()
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
LANGUAGES = {"python", "sh", "toml", "text", "systemverilog"}
COLUMNS, LINES, WORDS = 100, 250, 24_000
EVERY_PAGE = pytest.mark.parametrize("page", PAGES, ids=NAMES)


def text_of(folder: str) -> str:
    return (ROOT / folder / "README.md").read_text()


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("", page.read_text()), re.MULTILINE)
    slugs = [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]
    assert len(set(slugs)) == len(slugs), f"{page} has a heading twice"
    return set(slugs)


def broken(page: Path, link: str) -> str | None:
    if link.startswith("https://"):
        return None
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    if not target.is_relative_to(ROOT):
        return f"{link} leads out of the tree"
    if not target.is_file():
        return f"{link} leads to no file"
    if anchor and (target.suffix != ".md" or anchor not in anchors(target)):
        return f"{link} has no such heading"
    return None


def first_cells(text: str, heading: str) -> list[list[str]]:
    """Return the words in backticks in the first cell of each row of the table under a heading."""
    under = f"\n{text}".split(f"\n{heading}\n", 1)[1]
    table = re.search(r"^\|.*?\n\|-.*?\n((?:\|.*\n)+)", under, re.MULTILINE)
    assert table is not None, heading
    return [re.findall(r"`([^`]+)`", row.split(" | ")[0]) for row in table[1].splitlines()]


@EVERY_PAGE
def test_every_link_leads_somewhere(page):
    found = [broken(page, link) for link in links(page)]
    assert [item for item in found if item] == []


@pytest.mark.parametrize(
    ("link", "problem"),
    [
        ("gone.md", "leads to no file"),
        ("README.md#gone", "no such heading"),
        ("#gone", "no such heading"),
        ("../../x", "leads out of the tree"),
        ("mase_hw", "leads to no file"),
    ],
)
def test_a_broken_link_is_found(link, problem):
    assert problem in str(broken(ROOT / "README.md", link))


def test_every_page_is_reached_from_the_first():
    reached, waiting = set(), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page not in reached and (page.name == "README.md" or page.parent == ROOT):
            reached.add(page)
            waiting += [(page.parent / link.partition("#")[0]).resolve() for link in links(page)]
    assert reached == set(PAGES)
    assert len(PAGES) > 10


@EVERY_PAGE
def test_lines_are_short(page):
    """Tables aside, and commands and output as they are."""
    text = re.sub(r"^```(sh|text)\n.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    long = [line for line in text.splitlines() if len(line) > COLUMNS]
    assert [line for line in long if not line.startswith(("|", "    "))] == []


def test_the_first_page_is_short():
    assert len(text_of(".").splitlines()) <= LINES


def words(page: Path) -> int:
    """Return the words of a page, without blocks of code and the rules of tables."""
    text = re.sub(r"^    .*$|^\|[-:|]+$", "", FENCE.sub("", page.read_text()), flags=re.MULTILINE)
    return len(text.replace("|", " ").split())


def test_the_pages_are_read_in_a_few_hours():
    assert sum(words(page) for page in PAGES if page.name != "CHANGELOG.md") <= WORDS


def test_help_shows_every_default():
    """Brackets are marks of rich, which leaves them out."""
    for path in (ROOT / "mase_hw" / "cli").glob("*.py"):
        assert re.findall(r"help=[^)]*\[default", path.read_text()) == [], path


@EVERY_PAGE
def test_code_is_code(page):
    text = page.read_text()
    assert text.count("\n```") == 2 * len(FENCE.findall(text))
    for item in blocks(page):
        assert item.language in LANGUAGES
        if item.language == "python":
            ast.parse(item.text)
        elif item.language == "toml":
            tomllib.loads(item.text)


@EVERY_PAGE
def test_every_command_exists(page):
    """Every `mase-hw` in the text names a command, and the blocks give options that it has."""
    app = get_command(build_app())
    commands = app.commands  # type: ignore[attr-defined]
    named = set(re.findall(r"`mase-hw ([a-z][a-z-]*)", page.read_text()))
    for item in blocks(page):
        for line in re.findall(r"mase-hw .*", item.text) if item.language == "sh" else []:
            _, name, *words = line.split("#")[0].split()
            named.add(name)
            known = {option for parameter in commands[name].params for option in parameter.opts}
            assert {word for word in words if word.startswith("-")} <= known, line
    assert named <= set(commands)


def test_the_floors_are_those_that_imports_are_checked_by():
    under = text_of("mase_hw").split("## Floors")[1].split("\n\n")[2]
    rows = [set(re.findall(r"`(\w+)`", row)) for row in under.splitlines()[2:]]
    assert rows == [set(layer) for layer in LAYERS]


def test_the_passes_are_in_the_order_of_the_flow():
    source = (ROOT / "mase_hw" / "emit" / "flow.py").read_text()
    called = re.findall(r"\w+, _ = (\w+_pass)\(", source)
    table = text_of("mase_hw").split("| stage | passes |")[1].split("\n\n")[0]
    assert re.findall(r"`(\w+_pass)`", table) == called


def test_every_format_of_the_table_has_its_fields():
    rows = re.findall(r"^\| (`\w+`.*?) \| .* \| (.*?) \|$", text_of("mase_hw/formats"), re.M)
    described = {
        name: re.findall(r"`(\w+)`", keys)
        for names, keys in rows
        for name in re.findall(r"`(\w+)`", names)
    }
    assert len(described) > 20
    for name, keys in described.items():
        assert format_class(name).name == name
        assert keys == list(format_class(name).field_names()), name


def test_every_network_and_experiment_that_is_described_exists():
    rows = first_cells(text_of("mase_hw/models"), "# Networks")
    assert {name for row in rows for name in row} <= set(models())
    text = text_of("mase_hw/experiments")
    names = re.findall(r"^## `([\w-]+)`$", text, re.MULTILINE)
    assert names
    assert set(names) <= set(experiments())
    assert re.findall(r"\(figures/([\w-]+)\.svg\)", text) == names


def test_every_group_of_figures_that_is_described_exists():
    rows = first_cells(text_of("tests/bench"), "# Figures")
    assert {"flow", "kernels"} <= {name for row in rows for name in row} <= set(benchmarks())


def test_what_a_search_takes_is_described():
    text = text_of("mase_hw/search")
    measured = first_cells(text, "## What is measured")
    assert {name for row in measured for name in row} == set(METRICS)
    settings = first_cells(text, "## Settings")
    assert {name for row in settings for name in row} == set(TABLES) - {"space"}
    for name in (*SAMPLERS, *PRUNERS):
        assert f"`{name}`" in text


def test_every_step_of_a_compression_is_described():
    rows = first_cells(text_of("mase_hw/pipelines"), "## Steps")
    assert {name for row in rows for name in row} == set(STEPS)


def test_every_option_of_the_memory_is_described():
    text = text_of("mase_hw/hardware")
    rows = first_cells(text, "## Weights that do not fit on chip")
    assert {name for row in rows for name in row} == {item.name for item in fields(MemoryPort)}


def test_every_key_of_the_design_is_described():
    text = text_of("mase_hw/emit")
    golden = json.loads((ROOT / "tests" / "flow" / "golden" / "design.json").read_text())
    always = "\n".join(line for line in text.splitlines() if "| on request: " not in line)
    rows = first_cells(always, "## design.json")
    assert {name for row in rows for name in row} == set(golden)
    assert f"Version {golden['version']}:" in text


@pytest.mark.parametrize("name", list(FIGURES))
def test_the_figures_are_those_of_the_sources(name):
    """They are drawn anew by `python -m tests.figures`."""
    assert (FOLDER / name).read_text() == FIGURES[name]()
