"""Operators and formats are named in their own files alone, and layers import downwards."""

from collections.abc import Callable
from pathlib import Path

import pytest

from mase_hw.formats import formats
from mase_hw.ops import operators
from tests import _architecture as rules

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


def test_no_operator_or_format_is_named_outside_its_folder():
    assert rules.named_units(ROOT, registered_names()) == []


# Of each rule a tree that breaks it, and what it says of that tree.
BROKEN: dict[Callable[[Path], list[str]], tuple[dict[str, str], list[str]]] = {
    rules.imports_of_tests: (
        {"mase_hw/api.py": "def f():\n    from tests.bench import benchmarks\n"},
        ["mase_hw/api.py:2: tests.bench.benchmarks"],
    ),
    rules.package_circles: (
        {
            "mase_hw/search/a.py": "from ..data import x\n",
            "mase_hw/data/b.py": "def f():\n    import mase_hw.models.c\n",
            "mase_hw/models/c.py": "from mase_hw.search import z\n",
            "mase_hw/api.py": "from mase_hw.search import z\n",
        },
        ["data, models, search import each other"],
    ),
    rules.file_circles: (
        {
            "mase_hw/search/a.py": "def f():\n    from mase_hw.search.b import x\n",
            "mase_hw/search/b.py": "from typing import TYPE_CHECKING\n"
            "if TYPE_CHECKING:\n    from .a import y\n",
        },
        ["mase_hw.search.a, mase_hw.search.b import each other"],
    ),
    rules.misnamed_modules: (
        {
            "rtl/ops/mase_a.sv": "module mase_a;\nendmodule\n",
            "rtl/ops/mase_b.sv": "module mase_c;\nendmodule\n",
            "rtl/streams/mase_d.sv": "module mase_d;\nendmodule\nmodule mase_e;\nendmodule\n",
            "rtl/streams/plain.sv": "module plain;\nendmodule\n",
        },
        ["rtl/ops/mase_b.sv", "rtl/streams/mase_d.sv", "rtl/streams/plain.sv"],
    ),
    rules.orphan_modules: (
        {
            "mase_hw/cells/a.py": "",
            "mase_hw/cells/_b.py": "",
            "rtl/ops/mase_a.sv": "mase_part u_part ();",
            "rtl/ops/mase_b.sv": "",
            "rtl/ops/mase_part.sv": "",
            "rtl/streams/mase_lost.sv": "mase_lost_part u_part ();",
            "rtl/ops/mase_lost_part.sv": "",
        },
        ["mase_b.sv", "mase_lost.sv", "mase_lost_part.sv"],
    ),
    rules.missing_packages: (
        {
            "pyproject.toml": '[tool.setuptools]\npackages = ["mase_hw", "mase_hw.gone"]\n',
            "mase_hw/__init__.py": "",
            "mase_hw/new/x.py": "",
            "sim/__init__.py": "",
        },
        ["mase_hw.gone of pyproject.toml has no folder", "mase_hw.new", "mase_hw.sim"],
    ),
    rules.stray_files: (
        {
            ".gitignore": "build/\n*.egg-info/\n",
            **dict.fromkeys(("README.md", ".ci/run", "build/x", "a.egg-info/x"), ""),
            **dict.fromkeys(("notes.txt", "scripts/x"), ""),
        },
        ["notes.txt", "scripts"],
    ),
}


@pytest.mark.parametrize("rule", BROKEN, ids=lambda rule: rule.__name__)
def test_a_rule_holds_and_its_breach_is_found(rule, tmp_path):
    assert rule(ROOT) == []
    files, found = BROKEN[rule]
    for entry, start in zip(rule(write(tmp_path, files)), found, strict=True):
        assert entry.startswith(start)


def assert_found(found: list[str], broken: dict[str, str]) -> None:
    """Each file that breaks a rule is found once, and no other one."""
    assert sorted(entry.split(":")[0] for entry in found) == sorted(broken)


def test_packages_import_what_others_show(tmp_path):
    assert rules.private_imports(ROOT) == []
    broken = {
        "mase_hw/passes/a.py": "from mase_hw.ops._base import Call\n",
        "mase_hw/passes/b.py": "def f():\n    from mase_hw.ops import _base\n",
        "mase_hw/passes/c.py": "from ..ops.deep._base import Call\n",
        "mase_hw/passes/d.py": "import mase_hw.ops._base as base\n",
    }
    legal = {
        "mase_hw/ops/x.py": "from mase_hw.ops._base import Call\n",
        "mase_hw/passes/x.py": "from mase_hw.ops import Call\nfrom mase_hw import __version__\n",
        "mase_hw/passes/y.py": "from mase_hw.registry import discover\n",
    }
    assert_found(rules.private_imports(write(tmp_path, broken | legal)), broken)


def test_a_named_unit_is_found(tmp_path):
    broken = {
        "mase_hw/passes/a.py": "def f(o):\n    return o.name == 'linear'\n",
        "mase_hw/passes/b.py": "KINDS = {'add': 1}\n",
        "mase_hw/passes/c.py": "PATH = 'mase_hw.ops.products.linear'\n",
        "mase_hw/passes/d.py": "TARGET = 'aten.relu.default'\n",
        "mase_hw/passes/e.py": "import torch\nT = torch.ops.aten.relu.default\n",
        "mase_hw/search/x.py": "DEFAULT = dict(name='integer')\n",
        "mase_hw/emit/a.py": "def f():\n    from mase_hw.formats.fixed import Fixed\n",
        "mase_hw/emit/b.py": "from mase_hw.ops import linear\n",
        "mase_hw/emit/c.py": "from ..ops.linear import Linear\n",
        "mase_hw/emit/d.py": "import mase_hw.ops.arithmetic.add as a\n",
        "mase_hw/emit/deep/x.py": "M = f'mase_linear_{1}'\n",
        "sim/x.py": "M = 'rtl/formats/mase_fixed_cast.sv'\n",
        "templates/a.sv.j2": "mase_add_fixed u_add ();\n",
        "templates/b.sv.j2": "{% if node.operator == 'linear' %}\n",
        "sim/main.cpp": 'if (name == "linear") return;\n',
    }
    words = {
        "mase_hw/passes/v.py": '"""Quantize linear and add nodes; see aten.relu.default."""\n',
        "mase_hw/passes/w.py": "MESSAGE = 'add a format, such as fixed, to the node'\n",
        "mase_hw/passes/x.py": "KEY = 'linear_in'  # linear\nset().add(KEY)\n",
        "mase_hw/passes/y.py": "from mase_hw.ops import operator_for_role\n",
        "mase_hw/ops/products/linear.py": "NAME = 'linear'\n",
        "sim/y.py": "M = 'mase_stream_join'\n",
        "templates/c.sv.j2": "// add the streams of a linear chain\nmase_stream_join u_join ();\n",
    }
    assert_found(rules.named_units(write(tmp_path, broken | words), NAMES), broken)


def test_layers_import_downwards(tmp_path):
    assert rules.upward_imports(ROOT) == []
    present = {"sim/__init__.py": "", "mase_hw/__init__.py": "", "mase_hw/registry.py": ""} | {
        f"mase_hw/{name}/__init__.py": ""
        for name in ("cli", "emit", "formats", "graph", "models", "ops", "passes", "search")
    }
    broken = {
        "mase_hw/formats/x.py": "from mase_hw.ops import Call\n",
        "mase_hw/ops/x.py": "def f():\n    import mase_hw.graph.metadata\n",
        "mase_hw/passes/a.py": "from mase_hw import emit\n",
        "mase_hw/passes/b.py": "from ..emit import design\n",
        "mase_hw/passes/__init__.py": "from .. import emit\n",
        "mase_hw/emit/x.py": "import importlib\nimportlib.import_module('mase_hw.sim')\n",
        "mase_hw/graph/x.py": "from mase_hw import trace\n",
        "mase_hw/errors.py": "from mase_hw.registry import x\nimport mase_hw.cli\n",
        "sim/x.py": "from mase_hw.search import tune\n",
        "mase_hw/shiny/x.py": "X = 1\n",
    }
    downward = {
        "mase_hw/__init__.py": "from mase_hw.emit import x\n",
        "mase_hw/emit/__init__.py": "from mase_hw.passes import x\nfrom . import y\n",
        "mase_hw/passes/c.py": "import torch\nfrom mase_hw import errors\n",
        "mase_hw/search/x.py": "from mase_hw.models import x\nfrom mase_hw.sim import y\n",
    }
    assert_found(rules.upward_imports(write(tmp_path, present | downward | broken)), broken)
