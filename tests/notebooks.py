"""The tutorials as notebooks: `python -m tests.notebooks [NAME ...]` writes and executes them.

A notebook is made from its script, which stays the source: the docstring is the first cell, imports
and functions follow, arguments of `main` are a cell to edit, and every numbered comment of `main`
begins a section. What a section draws is shown below it.
"""

import ast
import inspect
import re
import sys
import tempfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from textwrap import dedent
from types import ModuleType

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from mase_hw import tutorials
from tests._readme import ROOT

FOLDER = Path(tutorials.__path__[0])
# The order of the lectures.
NAMES = (
    "graph", "bert", "pruning", "search", "mixed_precision", "fit", "perceptron", "software",
)  # fmt: skip
# What a machine's speed decides.
SPEED = re.compile(r"(naive / fused|, ms)'?: [\d.e+]+")
SECTION = re.compile(r"^    # \d+\. ", re.MULTILINE)
DRAWS = re.compile(r"\.draw\(|savefig\(|compress\(")
PREFIXES = re.compile(rf"/[\w./-]+/site-packages/|{re.escape(str(ROOT))}/")
SHOW = '''from IPython.display import SVG, display

shown = set()


def show():
    """Show the figures that are new in the folder."""
    for path in sorted(set(folder.rglob("*.svg")) - shown):
        shown.add(path)
        display(SVG(path))
'''


def main(names: list[str]) -> None:
    """Write and execute the notebooks of the tutorials with these names, or of all."""
    for name in names or NAMES:
        with tempfile.TemporaryDirectory() as folder:
            made = execute(notebook(name), Path(folder))
        clean(made)
        nbformat.write(made, notebook_path(name))


def clean(made: NotebookNode) -> None:
    """Leave out of an executed notebook what belongs to this machine: times, warnings, folders."""
    for cell in made.cells:
        cell.metadata.clear()
        if cell.cell_type == "code":
            cell.outputs = [item for item in cell.outputs if item.get("name") != "stderr"]
            for item in cell.outputs:
                shown = item.get("data", item)
                for kind in {"text", "image/svg+xml"} & shown.keys():
                    shown[kind] = re.sub(PREFIXES, "", shown[kind])


def figures(made: NotebookNode) -> list[str]:
    """Return words and numbers that an executed notebook prints, but for speed."""
    cells = [cell for cell in made.cells if cell.cell_type == "code"]
    shown = [item.get("data", item) for cell in cells for item in cell.outputs]
    texts = [item.get("text") or item.get("text/plain", "") for item in shown]
    return re.findall(r"\d+\.?\d*(?:e[+-]?\d+)?|[^\s\d]+", re.sub(SPEED, "", "\n".join(texts)))


def notebook_path(name: str) -> Path:
    return FOLDER / f"{name}.ipynb"


def notebook(name: str) -> NotebookNode:
    """Return the notebook of a tutorial, not executed."""
    module = import_module(f"{tutorials.__name__}.{name}")
    text = inspect.getdoc(module) or ""
    title, *rest = re.sub(r"\n+ *python -m .*", "", text).split("\n", 1)
    cells = [
        new_markdown_cell(f"# {title.rstrip('.')}\n{''.join(rest)}".rstrip()),
        new_code_cell("\n\n\n".join(definitions(module))),
        new_code_cell(arguments(module)),
        new_code_cell(SHOW.rstrip()),
        *sections(inspect.getsource(module.main)),
    ]
    for place, cell in enumerate(cells):
        cell["id"] = f"{name}-{place}"
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    made: NotebookNode = new_notebook(cells=cells, metadata={"kernelspec": kernel})
    return made


def definitions(module: ModuleType) -> Iterator[str]:
    """Yield imports, functions and classes of a script, but for `main`."""
    source = inspect.getsource(module)
    statements = ast.parse(source).body
    imports = [
        ast.get_source_segment(source, item) or ""
        for item in statements
        if isinstance(item, ast.Import | ast.ImportFrom)
    ]
    yield "\n".join(text for text in imports if not text.startswith("from __future__"))
    for item in statements:
        if isinstance(item, ast.FunctionDef | ast.ClassDef | ast.Assign) and (
            getattr(item, "name", "") != "main"
        ):
            yield ast.get_source_segment(source, item) or ""
    yield "logger.addHandler(logging.StreamHandler(sys.stdout))\nlogger.setLevel(logging.INFO)"


def arguments(module: ModuleType) -> str:
    name = module.__name__.rpartition(".")[2].replace("_", "-")
    lines = [f'folder = Path("build/tutorial-{name}")']
    for parameter in inspect.signature(module.main).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY:
            lines.append(f"{parameter.name} = {parameter.default!r}")
    return "\n".join(lines)


def sections(source: str) -> Iterator[NotebookNode]:
    """Yield the cells of the body of `main`: text and code of every section."""
    body = source.split('"""', 2)[2].replace("\n    return ", "\n    ")
    first, *others = SECTION.split(body)
    yield new_code_cell(dedent(first).strip())
    for place, other in enumerate(others, start=1):
        comment = re.match(r"[^\n]*(?:\n    # [^\n]*)*", other)[0]  # type: ignore[index]
        code = other.removeprefix(comment)
        yield new_markdown_cell(f"**{place}.** " + comment.replace("\n    # ", " "))
        lines = dedent(code).strip().split("\n")
        if DRAWS.search(code):
            # The last line of the last section is the result of `main`, which is shown by itself.
            lines.insert(len(lines) - (place == len(others)), "show()")
        yield new_code_cell("\n".join(lines))


def execute(made: NotebookNode, folder: Path) -> NotebookNode:
    """Execute a notebook in a folder."""
    client = NotebookClient(made, timeout=3600, resources={"metadata": {"path": str(folder)}})
    return client.execute()


if __name__ == "__main__":
    main(sys.argv[1:])
