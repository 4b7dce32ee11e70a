"""Operators and formats are named in their own files alone, and layers import downwards."""

from pathlib import Path

import pytest

from mase_hw.formats import formats
from mase_hw.ops import operators
from tests._architecture import (
    file_circles,
    imports_of_tests,
    misnamed_modules,
    missing_packages,
    named_units,
    orphan_modules,
    package_circles,
    private_imports,
    stray_files,
    upward_imports,
)

ROOT = Path(__file__).resolve().parents[1]
NAMES = {"linear", "add", "fixed", "integer"}


def registered_names() -> set[str]:
    """Return every word for a unit, less the roles by which passes ask for an operator."""
    words = {cls.name for cls in formats().values()} | operators().keys()
    for cls in formats().values():
        words |= {cls.abbreviation, *cls.aliases}
    return words - {operator.role for operator in operators().values()}


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_no_operator_or_format_is_named_outside_its_folder() -> None:
    assert named_units(ROOT, registered_names()) == []


def test_layers_import_downwards() -> None:
    assert upward_imports(ROOT) == []


def test_the_package_imports_no_test(tmp_path: Path) -> None:
    assert imports_of_tests(ROOT) == []
    text = "def f():\n    from tests.bench import benchmarks\n"
    root = write(tmp_path, {"mase_hw/api.py": text})
    assert imports_of_tests(root) == ["mase_hw/api.py:2: tests.bench.benchmarks"]


def test_no_packages_import_each_other() -> None:
    assert package_circles(ROOT) == []


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"search/a.py": "from mase_hw.data import x\n", "data/b.py": "import os\n"}, []),
        (
            {
                "search/a.py": "from mase_hw.data import x\n",
                "data/b.py": "def f():\n    from mase_hw.search.a import y\n",
            },
            ["data, search import each other"],
        ),
        (
            {
                "search/a.py": "from ..data import x\n",
                "data/b.py": "import mase_hw.models.c\n",
                "models/c.py": "from mase_hw.search import z\n",
                "api.py": "from mase_hw.search import z\n",
            },
            ["data, models, search import each other"],
        ),
    ],
)
def test_a_circle_of_packages_is_found(
    tmp_path: Path, files: dict[str, str], found: list[str]
) -> None:
    root = write(tmp_path, {f"mase_hw/{name}": text for name, text in files.items()})
    assert package_circles(root) == found


def test_no_files_import_each_other(tmp_path: Path) -> None:
    assert file_circles(ROOT) == []
    texts = {
        "a.py": "def f():\n    from mase_hw.search.b import x\n",
        "b.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .a import y\n",
    }
    root = write(tmp_path, {f"mase_hw/search/{name}": text for name, text in texts.items()})
    assert file_circles(root) == ["mase_hw.search.a, mase_hw.search.b import each other"]


def test_packages_import_what_others_show() -> None:
    assert private_imports(ROOT) == []


@pytest.mark.parametrize(
    ("path", "text", "found"),
    [
        ("passes/x.py", "from mase_hw.ops._base import Call\n", 1),
        ("passes/x.py", "def f():\n    from mase_hw.ops import _base\n", 1),
        ("passes/x.py", "from ..ops.deep._base import Call\n", 1),
        ("passes/x.py", "import mase_hw.ops._base as base\n", 1),
        ("ops/x.py", "from mase_hw.ops._base import Call\n", 0),
        ("passes/x.py", "from mase_hw.registry import discover\n", 0),
        ("passes/x.py", "from mase_hw.ops import Call\nfrom mase_hw import __version__\n", 0),
    ],
)
def test_a_private_import_is_found(tmp_path: Path, path: str, text: str, found: int) -> None:
    root = write(tmp_path, {f"mase_hw/{path}": text})
    assert len(private_imports(root)) == found


def test_every_rtl_file_holds_the_module_it_is_named_after() -> None:
    assert misnamed_modules(ROOT) == []


def test_every_module_belongs_to_a_cell() -> None:
    assert orphan_modules(ROOT) == []


def test_every_package_folder_is_installed() -> None:
    assert missing_packages(ROOT) == []


def test_the_top_level_is_the_fixed_list() -> None:
    assert stray_files(ROOT) == []


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("mase_hw/passes/x.py", "def f(o):\n    return o.name == 'linear'\n"),
        ("mase_hw/passes/x.py", "KINDS = {'add': 1}\n"),
        ("mase_hw/passes/x.py", "PATH = 'mase_hw.ops.products.linear'\n"),
        ("mase_hw/passes/x.py", "TARGET = 'aten.relu.default'\n"),
        ("mase_hw/passes/x.py", "import torch\nT = torch.ops.aten.relu.default\n"),
        ("mase_hw/search/x.py", "DEFAULT = dict(name='integer')\n"),
        ("mase_hw/emit/x.py", "def f():\n    from mase_hw.formats.fixed import Fixed\n"),
        ("mase_hw/emit/x.py", "from mase_hw.ops import linear\n"),
        ("mase_hw/emit/x.py", "from ..ops.linear import Linear\n"),
        ("mase_hw/emit/x.py", "import mase_hw.ops.arithmetic.add as a\n"),
        ("mase_hw/emit/deep/x.py", "M = f'mase_linear_{1}'\n"),
        ("sim/x.py", "M = 'rtl/formats/mase_fixed_cast.sv'\n"),
        ("templates/top.sv.j2", "mase_add_fixed u_add ();\n"),
        ("templates/top.sv.j2", "{% if node.operator == 'linear' %}\n"),
        ("sim/main.cpp", 'if (name == "linear") return;\n'),
    ],
)
def test_a_named_unit_is_found(tmp_path: Path, path: str, text: str) -> None:
    found = named_units(write(tmp_path, {path: text}), NAMES)
    assert len(found) == 1
    assert found[0].startswith(path)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("mase_hw/passes/x.py", '"""Quantize linear and add nodes; see aten.relu.default."""\n'),
        ("mase_hw/passes/x.py", "MESSAGE = 'add a format, such as fixed, to the node'\n"),
        ("mase_hw/passes/x.py", "KEY = 'linear_in'  # linear\nset().add(KEY)\n"),
        ("mase_hw/passes/x.py", "from mase_hw.ops import operator_for_role\n"),
        ("mase_hw/ops/products/linear.py", "NAME = 'linear'\n"),
        ("sim/x.py", "M = 'mase_stream_join'\n"),
        (
            "templates/top.sv.j2",
            "// add the streams of a linear chain\nmase_stream_join u_join ();\n",
        ),
    ],
)
def test_ordinary_words_are_not_taken_for_units(tmp_path: Path, path: str, text: str) -> None:
    assert named_units(write(tmp_path, {path: text}), NAMES) == []


@pytest.mark.parametrize(
    ("path", "text", "importer"),
    [
        ("mase_hw/formats/x.py", "from mase_hw.ops import Call\n", "formats"),
        ("mase_hw/ops/x.py", "def f():\n    import mase_hw.graph.metadata\n", "ops"),
        ("mase_hw/passes/x.py", "from mase_hw import emit\n", "passes"),
        ("mase_hw/passes/x.py", "from ..emit import design\n", "passes"),
        ("mase_hw/passes/__init__.py", "from .. import emit\n", "passes"),
        ("mase_hw/emit/x.py", "import importlib\nimportlib.import_module('mase_hw.sim')\n", "emit"),
        ("mase_hw/graph/x.py", "from mase_hw import trace\n", "graph"),
        ("mase_hw/errors.py", "from mase_hw.registry import x\nimport mase_hw.cli\n", "errors"),
        ("sim/x.py", "from mase_hw.search import tune\n", "sim"),
        ("mase_hw/shiny/x.py", "X = 1\n", "shiny"),
    ],
)
def test_an_upward_import_is_found(tmp_path: Path, path: str, text: str, importer: str) -> None:
    present = {"sim/__init__.py": "", "mase_hw/__init__.py": "", "mase_hw/registry.py": ""} | {
        f"mase_hw/{name}/__init__.py": ""
        for name in ("cli", "emit", "formats", "graph", "ops", "passes", "search")
    }
    found = upward_imports(write(tmp_path, present | {path: text}))
    assert len(found) == 1
    assert found[0].startswith(path)
    assert importer in found[0]


def test_a_downward_import_is_legal(tmp_path: Path) -> None:
    files = {
        "mase_hw/__init__.py": "from mase_hw.emit import x\n",
        "mase_hw/emit/__init__.py": "from mase_hw.passes import x\nfrom . import y\n",
        "mase_hw/passes/__init__.py": "import torch\nfrom mase_hw import errors\n",
        "mase_hw/errors.py": "",
        "mase_hw/search/x.py": "from mase_hw.models import x\nfrom mase_hw.sim import y\n",
        "mase_hw/models/__init__.py": "",
        "sim/__init__.py": "",
    }
    assert upward_imports(write(tmp_path, files)) == []


def test_a_misnamed_module_is_found(tmp_path: Path) -> None:
    files = {
        "rtl/ops/mase_a.sv": "module mase_a;\nendmodule\n",
        "rtl/ops/mase_b.sv": "module mase_c;\nendmodule\n",
        "rtl/streams/mase_d.sv": "module mase_d;\nendmodule\nmodule mase_e;\nendmodule\n",
        "rtl/streams/plain.sv": "module plain;\nendmodule\n",
    }
    found = misnamed_modules(write(tmp_path, files))
    assert [entry.split(" ")[0] for entry in found] == [
        "rtl/ops/mase_b.sv",
        "rtl/streams/mase_d.sv",
        "rtl/streams/plain.sv",
    ]


def test_an_orphan_module_is_found(tmp_path: Path) -> None:
    files = {
        "mase_hw/cells/a.py": "",
        "mase_hw/cells/_b.py": "",
        "rtl/ops/mase_a.sv": "mase_part u_part ();",
        "rtl/ops/mase_b.sv": "",
        "rtl/ops/mase_part.sv": "",
        "rtl/streams/mase_lost.sv": "mase_lost_part u_part ();",
        "rtl/ops/mase_lost_part.sv": "",
    }
    assert orphan_modules(write(tmp_path, files)) == [
        "mase_b.sv belongs to no cell",
        "mase_lost.sv belongs to no cell",
        "mase_lost_part.sv belongs to no cell",
    ]


def test_a_folder_that_is_not_installed_is_found(tmp_path: Path) -> None:
    files = {
        "pyproject.toml": '[tool.setuptools]\npackages = ["mase_hw", "mase_hw.gone"]\n',
        "mase_hw/__init__.py": "",
        "mase_hw/new/x.py": "",
        "sim/__init__.py": "",
    }
    assert missing_packages(write(tmp_path, files)) == [
        "mase_hw.gone of pyproject.toml has no folder",
        "mase_hw.new is not in packages of pyproject.toml",
        "mase_hw.sim is not in packages of pyproject.toml",
    ]


def test_a_stray_file_at_the_top_is_found(tmp_path: Path) -> None:
    files = {
        ".gitignore": "build/\n*.egg-info/\n",
        "README.md": "",
        ".ci/run": "",
        "build/x": "",
        "mase_hw.egg-info/x": "",
        "notes.txt": "",
        "scripts/x": "",
    }
    assert stray_files(write(tmp_path, files)) == [
        "notes.txt does not belong at the top",
        "scripts does not belong at the top",
    ]
