"""The pages and the API reference as a site of HTML: `python -m tests.site build/site`.

The pages are those of the tree, each at its path; the navigation goes by task. The reference has a
page for each package with `__all__`, and one for the passes. A broken link ends the build, and so
does a page that the navigation leaves out.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

from tests._architecture import MAPPED
from tests._readme import ROOT, links, pages

CONFIGURATION = ROOT / ".github" / "mkdocs.yml"
PASSES = "mase_hw.passes"
# Functions with the name of a module, which hides them from a reader of the sources.
HIDDEN = ("mase_hw.graph.trace.trace", "mase_hw.search.study.search")


def main() -> None:
    """Build the site into the folder that is given."""
    build(Path(sys.argv[1]))


def build(output: Path) -> str:
    """Build the site, and return what MkDocs printed."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        link_package(folder / "package")
        write_pages(folder / "pages")
        settings = yaml.safe_load(CONFIGURATION.read_text())
        settings |= {"docs_dir": str(folder / "pages"), "site_dir": str(output.resolve())}
        reference = next(part for part in settings["nav"] if "Reference" in part)["Reference"]
        reference += [{name: f"reference/{name}.md"} for name in (*reference_modules(), PASSES)]
        (settings["plugins"][1]["mkdocstrings"]["handlers"]["python"])["paths"] = [
            str(folder / "package")
        ]
        (folder / "mkdocs.yml").write_text(yaml.safe_dump(settings))
        command = [sys.executable, "-m", "mkdocs", "build", "--clean"]
        result = subprocess.run(
            [*command, "--config-file", str(folder / "mkdocs.yml")],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
    if result.returncode != 0:
        raise subprocess.CalledProcessError(result.returncode, command, result.stdout)
    return result.stdout


def link_package(folder: Path) -> None:
    """Lay the package out as it is installed."""
    package = folder / "mase_hw"
    package.mkdir(parents=True)
    for path in (ROOT / "mase_hw").iterdir():
        (package / path.name).symlink_to(path)
    for name in MAPPED:
        (package / name).symlink_to(ROOT / name)


def write_pages(folder: Path) -> None:
    """Copy the pages and what they link to, and write those of the reference."""
    copied, waiting = set[Path](), list(pages())
    while waiting:
        path = waiting.pop()
        if path in copied or not path.is_file():
            continue
        copied.add(path)
        place = folder / path.relative_to(ROOT)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, place)
        if path.suffix == ".md":
            named = (link.partition("#")[0] for link in links(path) if "://" not in link)
            waiting += [(path.parent / name).resolve() for name in named]
    reference = folder / "reference"
    reference.mkdir()
    names = reference_modules()
    for name in names:
        (reference / f"{name}.md").write_text(f"::: {name}\n")
    with (reference / "mase_hw.md").open("a") as file:
        file.writelines(f"\n::: {name}\n" for name in HIDDEN)
    names.append(PASSES)
    options = "    options:\n      show_submodules: true\n"
    (reference / f"{PASSES}.md").write_text(f"::: {PASSES}\n{options}")
    lines = [f"- [`{name}`]({name}.md)" for name in names]
    (reference / "README.md").write_text("\n".join(["# Reference\n", *lines]) + "\n")


def reference_modules() -> list[str]:
    files = [ROOT / "mase_hw" / "__init__.py", *(ROOT / "mase_hw").glob("*/__init__.py")]
    shown = [path.parent for path in files if "__all__" in path.read_text()]
    return sorted(".".join(path.relative_to(ROOT).parts) for path in shown)


if __name__ == "__main__":
    main()
