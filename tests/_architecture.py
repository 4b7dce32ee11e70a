"""The rules of the architecture, as functions from a source tree to a list of violations."""

import ast
import fnmatch
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from pathlib import Path

# A layer imports only its own rank and the ranks before it.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("errors", "_drawing", "_config_file", "_cache", "_results", "_processes", "registry",
     "_checks", "_kinds", "_aten", "_stages", "_collection", "_logs", "_resources", "_native",
     "rtl", "templates"),
    ("formats",),
    ("geometry",),
    ("arithmetic",),
    ("approximation",),
    ("cells",),
    ("ops",),
    ("importers",),
    ("graph",),
    ("timing",),
    ("passes",),
    ("unrolled",),
    ("hardware",),
    ("emit",),
    ("sim", "proof", "exporters"),
    ("deploy",),
    ("models", "data", "training", "search", "pipelines", "precision", "kernels", "nn"),
    ("api", "experiments", "report", "doctor", "cli", "__init__", "tutorials"),
)  # fmt: skip
RANKS = {layer: rank for rank, layers in enumerate(LAYERS) for layer in layers}
# Folders of the checkout that are packages of `mase_hw`.
MAPPED = ("sim", "kernels", "rtl", "templates")
# Where no operator and no format may be named.
NEUTRAL = ("mase_hw/timing", "mase_hw/passes", "mase_hw/search", "mase_hw/emit", "sim", "templates")
TEXT_SUFFIXES = (".j2", ".cpp", ".h", ".sv", ".vlt")
TOP_LEVEL = (
    "pyproject.toml", "mase_hw", "templates", "rtl", "sim", "kernels", "tests", "README.md",
    "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE", "constraints.txt",
)  # fmt: skip


def named_units(root: Path, names: Collection[str]) -> list[str]:
    """Return where neutral code names an operator, a format, or an ATen target."""
    found = []
    for folder in NEUTRAL:
        for path in _files(root / folder):
            where = path.relative_to(root)
            if path.suffix == ".py":
                found += [f"{where}:{line}: {what}" for line, what in _named(root, path, names)]
            elif path.suffix in TEXT_SUFFIXES:
                for number, line in enumerate(path.read_text().splitlines(), 1):
                    quoted = re.findall(r"[\"']([^\"']*)[\"']", line)
                    texts = [text for text in quoted if _names_unit(text, names)]
                    texts += [line.strip()] if _names_module(line, names) else []
                    found += [f"{where}:{number}: {text!r}" for text in texts]
    return found


def _named(root: Path, path: Path, names: Collection[str]) -> Iterator[tuple[int, str]]:
    tree = _tree(path)
    ignored = {id(node) for node in _docstrings(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if id(node) not in ignored and _names_unit(node.value, names):
                yield node.lineno, repr(node.value)
        elif isinstance(node, ast.Attribute) and node.attr == "aten":
            yield node.lineno, ast.unparse(node)
    for line, module in _imports(root, path):
        package, *parts = module.removeprefix("mase_hw.").split(".")
        if package in ("ops", "formats") and set(parts) & set(names):
            yield line, f"import of {module}"


def _names_unit(text: str, names: Collection[str]) -> bool:
    """Return true for a name alone, as a part of a path or dotted name, in a module's name."""
    is_phrase = re.search(r"\s", text) is not None
    if not is_phrase and set(re.findall(r"\w+", text)) & set(names):
        return True
    return re.search(r"\baten\.[a-z_]", text) is not None or _names_module(text, names)


def _names_module(text: str, names: Collection[str]) -> bool:
    """Return true for a module of the library that is named after an operator or a format."""
    modules = [f"{module}_" for module in re.findall(r"\bmase_([a-z0-9_]+)", text)]
    return any(module.startswith(f"{name}_") for module in modules for name in names)


def _docstrings(tree: ast.Module) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.value


def upward_imports(root: Path) -> list[str]:
    """Return every import of a layer above the importer's own, and every folder without a rank."""
    found = []
    for path, module in _modules(root):
        layer = module.split(".")[1]
        where = path.relative_to(root)
        if layer not in RANKS:
            found.append(f"{where}: {layer} is not in the order of the layers")
            continue
        for line, imported in _imports(root, path):
            target = _layer_of(root, imported)
            if RANKS.get(target, -1) > RANKS[layer]:
                found.append(f"{where}:{line}: {layer} imports {imported} of {target}")
    return found


def imports_of_tests(root: Path) -> list[str]:
    return [
        f"{path.relative_to(root)}:{line}: {name}"
        for path, _ in _modules(root)
        for line, name in _imports(root, path, "tests")
    ]


def package_circles(root: Path) -> list[str]:
    """Return the groups of packages that import each other, directly or through others."""
    edges: dict[str, set[str]] = {}
    for path, module in _modules(root):
        layer = module.split(".")[1]
        targets = edges.setdefault(layer, set())
        for _, imported in _imports(root, path):
            target = _layer_of(root, imported)
            # What the top shows lies below it.
            targets |= {target} - {layer, "__init__"}
    return _circles(edges)


def file_circles(root: Path) -> list[str]:
    """Return the groups of files that import each other, those for types and at first use too.

    A package stands for what it shows: an import of its `__init__` leads nowhere.
    """
    edges: dict[str, set[str]] = {module: set() for _, module in _modules(root)}
    files = {module for path, module in _modules(root) if path.name != "__init__.py"}
    for path, module in _modules(root):
        for _, imported in _imports(root, path):
            edges[module] |= {imported, imported.rpartition(".")[0]} & files - {module}
    return _circles(edges)


def _circles(edges: Mapping[str, set[str]]) -> list[str]:
    reached = {name: _reached(edges, name) for name in edges}
    circles = {
        tuple(sorted({name, *(other for other in found if name in reached.get(other, ()))}))
        for name, found in reached.items()
        if name in found
    }
    return [f"{', '.join(members)} import each other" for members in sorted(circles)]


def private_imports(root: Path) -> list[str]:
    found = []
    for path, module in _modules(root):
        layer, where = module.split(".")[1], path.relative_to(root)
        for line, imported in _imports(root, path):
            _, package, *rest = *imported.split("."), ""
            if package != layer and any(re.match(r"_[a-z]", part) for part in rest):
                found.append(f"{where}:{line}: {layer} imports {imported}")
    return found


def _reached(edges: Mapping[str, set[str]], start: str) -> set[str]:
    found: set[str] = set()
    todo = list(edges[start])
    while todo:
        layer = todo.pop()
        if layer not in found:
            found.add(layer)
            todo += edges.get(layer, ())
    return found


def _layer_of(root: Path, imported: str) -> str:
    """Return the layer of a dotted name; the package itself is the top, as it shows everything."""
    name = imported.split(".")[1] if "." in imported else "__init__"
    folders = (root / "mase_hw" / name, root / name, root / "mase_hw" / f"{name}.py")
    return name if any(folder.exists() for folder in folders) else "__init__"


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def _imports(root: Path, path: Path, source: str = "mase_hw") -> list[tuple[int, str]]:
    """Return the line and the dotted name of everything that a file imports from `source`."""
    parents, found = _package(root, path).split("."), []
    for node in ast.walk(_tree(path)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = parents[: len(parents) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            names = [f"{module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Call) and _called(node) == "import_module":
            values = [item.value for item in node.args if isinstance(item, ast.Constant)]
            names = [item for item in values if isinstance(item, str)]
        found += [(node.lineno, name) for name in names if f"{name}.".startswith(f"{source}.")]
    return found


def misnamed_modules(root: Path) -> list[str]:
    """Return the SystemVerilog files that hold another module, or package, than their name's."""
    found = []
    for path in sorted((root / "rtl").rglob("*.sv")):
        declared = r"^\s*(?:module|package)\s+(?:automatic\s+)?(\w+)"
        modules = re.findall(declared, path.read_text(), re.M)
        if modules != [path.stem] or not path.stem.startswith("mase_"):
            found.append(f"{path.relative_to(root)} holds {', '.join(modules) or 'no module'}")
    return found


def orphan_modules(root: Path) -> list[str]:
    """Return the modules that no cell and no template names, and none of their modules holds."""
    texts = {path.stem: path.read_text() for path in (root / "rtl").rglob("*.sv")}
    cells = {f"mase_{path.stem}" for path in (root / "mase_hw" / "cells").glob("[a-z]*.py")}
    templates = "".join(path.read_text() for path in (root / "templates").glob("*.j2"))
    cells |= set(re.findall(r"\bmase_\w+", templates))
    owned, reached = cells & texts.keys(), set[str]()
    while owned - reached:
        stem = (owned - reached).pop()
        reached.add(stem)
        owned |= {other for other in texts if re.search(rf"\b{other}\b", texts[stem])}
    return [f"{stem}.sv belongs to no cell" for stem in sorted(set(texts) - owned)]


def missing_packages(root: Path) -> list[str]:
    """Return the folders with Python files that `pyproject.toml` does not list, and the reverse."""
    settings = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["setuptools"]
    listed = set(settings["packages"])
    # Folders whose Python files are data.
    data = {
        f"{package}.{pattern.partition('/')[0]}"
        for package, patterns in settings.get("package-data", {}).items()
        for pattern in patterns
        if pattern.endswith(".py")
    }
    existing = {_package(root, path) for path, _ in _modules(root)} - data
    missing = [f"{name} is not in packages of pyproject.toml" for name in existing - listed]
    stale = [f"{name} of pyproject.toml has no folder" for name in listed - existing]
    return sorted(missing + stale)


def stray_files(root: Path) -> list[str]:
    """Return what lies at the top of the tree beside the fixed list and what git ignores."""
    ignore = root / ".gitignore"
    patterns = ignore.read_text().split() if ignore.exists() else []
    return [
        f"{path.name} does not belong at the top"
        for path in sorted(root.iterdir())
        if path.name not in TOP_LEVEL
        and not path.name.startswith(".")
        and not any(fnmatch.fnmatch(path.name, pattern.strip("/")) for pattern in patterns)
    ]


def _modules(root: Path) -> Iterator[tuple[Path, str]]:
    """Yield every Python file of the package and its dotted name; `__init__` is the root's own."""
    for folder in ("mase_hw", *MAPPED):
        for path in _files(root / folder):
            if path.suffix == ".py":
                package = _package(root, path)
                is_package = path.name == "__init__.py" and package != "mase_hw"
                yield path, package if is_package else f"{package}.{path.stem}"


def _package(root: Path, path: Path) -> str:
    """Return the dotted name of the folder of a Python file."""
    parts = path.parent.relative_to(root).parts
    return ".".join(parts if parts[0] == "mase_hw" else ("mase_hw", *parts))


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path


# What yields where to write; below it anything may be written.
DOORS = ("result_file", "result_folder", "claimed", "claim")
TEMPORARY = (
    "result_file", "whole_file", "scratch_folder", "TemporaryDirectory", "NamedTemporaryFile",
)  # fmt: skip
# Modules that write below a temporary folder, or a folder of the cache, which their callers have.
BELOW = (
    "mase_hw/_cache.py", "mase_hw/deploy/board.py", "mase_hw/deploy/bus.py",
    "mase_hw/deploy/plain.py", "mase_hw/deploy/deployment.py", "mase_hw/emit/manifest.py",
    "mase_hw/emit/project.py", "mase_hw/hardware/route.py", "mase_hw/proof/*.py",
    "mase_hw/search/task.py", "mase_hw/search/worker.py", "sim/build.py", "sim/cocotb_engine.py",
    "sim/native_engine.py", "sim/runtime.py", "sim/testbench/*.py",
)  # fmt: skip
_WRITES = {"write_text", "write_bytes", "savefig", "savez", "savez_compressed", "savetxt", "tofile",
           "save_file", "to_csv", "copy2", "copyfile", "copytree"}  # fmt: skip
_WRITES_OF = {("torch", "save"), ("np", "save"), ("onnx", "save"), ("shutil", "copy"),
              ("shutil", "move"), ("os", "link"), ("json", "dump")}  # fmt: skip


def door_sites(root: Path) -> set[str]:
    """Return `file:function` of everything that opens a door to results."""
    return {f"{path}:{name}" for path, name, call in _calls(root) if _called(call) in DOORS} - {
        "mase_hw/_results.py:result_file", "mase_hw/_results.py:result_folder",
        "mase_hw/cli/_files.py:claim",
    }  # fmt: skip


def writes_beside_doors(root: Path) -> list[str]:
    return [
        f"{path}:{call.lineno}: {name}"
        for path, name, call in _calls(root, TEMPORARY)
        if _is_write(call) and not any(fnmatch.fnmatch(_source(path), item) for item in BELOW)
    ]


def _source(path: str) -> str:
    folder = path.removeprefix("mase_hw/").partition("/")[0]
    return path.removeprefix("mase_hw/") if folder in MAPPED else path


def _calls(root: Path, inside: Collection[str] = ()) -> Iterator[tuple[str, str, ast.Call]]:
    for folder in ("mase_hw", "sim", "kernels"):
        for path in sorted((root / folder).rglob("*.py")):
            where = str(path.relative_to(root))
            where = where if folder == "mase_hw" else f"mase_hw/{where}"
            yield from ((where, *item) for item in _below(_tree(path), "", inside))


def _below(node: ast.AST, name: str, inside: Collection[str]) -> Iterator[tuple[str, ast.Call]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Call):
            yield name, child
        is_named = isinstance(child, ast.FunctionDef | ast.ClassDef)
        opens = isinstance(child, ast.With) and any(
            isinstance(item.context_expr, ast.Call) and _called(item.context_expr) in inside
            for item in child.items
        )
        if not opens:
            inner = f"{name}.{child.name}".lstrip(".") if is_named else name
            yield from _below(child, inner, inside)


def _called(call: ast.Call) -> str:
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _is_write(call: ast.Call) -> bool:
    name, owner = _called(call), getattr(getattr(call.func, "value", None), "id", "")
    if name == "open":
        words = [
            getattr(item, "value", "") for item in (*call.args, *(k.value for k in call.keywords))
        ]
        return any(
            isinstance(word, str) and re.fullmatch(r"[wax][bt+]*|r[bt]*\+", word) for word in words
        )
    return name in _WRITES or (owner, name) in _WRITES_OF
