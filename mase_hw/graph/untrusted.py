"""Checks of what an untrusted file names, before torch or generated code sees any of it.

torch.fx writes names and targets of nodes into Python source that it runs, torch.export evaluates
the sizes of a file as expressions, looks up any attribute of torch that a node names, and unpickles
tensors of unusual kinds. Here names are identifiers, calls are operators on tensors, sizes are
arithmetic, and nothing is unpickled.
"""

from __future__ import annotations

import json
import keyword
import operator
import os
import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch.export import ExportedProgram

from mase_hw.errors import CaptureError, DataError
from mase_hw.ops import operators

# Functions of Python that torch.export leaves in graphs.
_ARITHMETIC = frozenset(
    """add sub mul truediv floordiv mod pow neg pos abs eq ne lt le gt ge and_ or_ xor not_ invert
    lshift rshift getitem""".split()  # noqa: SIM905
)
_MATHEMATICS = frozenset(["trunc", "ceil", "floor", "sqrt"])
# How torch.export prints a size, and the functions that occur in one.
_SYMBOL = re.compile(r"Symbol\('[a-z]+\d+'(?:, [a-z]+=(?:True|False))*\)")
_PATH = re.compile(r"""(?!__)[^."\\]+(?:\.(?!__)[^."\\]+)*""")
_SIZE_CHARACTERS = re.compile(r"(?:[A-Za-z_]\w*|\d+(?:\.\d+)?(?:e[+-]?\d+)?|[\s+\-*/%(),<>=!&|~])*")
_SIZE_WORDS = re.compile(
    r"[a-z]+\d+|True|False|oo|int_oo|Integer|Float|Rational|Add|Mul|Pow|Max|Min|Mod|PythonMod|Abs|"
    r"Eq|Ne|Lt|Le|Gt|Ge|And|Or|Not|Piecewise|FloorDiv|CleanDiv|CeilDiv|CeilToInt|FloorToInt|"
    r"ToFloat|TruncToInt|RoundToInt|IntTrueDiv|FloatTrueDiv|ModularIndexing|Where|floor|ceiling|"
    r"Identity|evaluate|positive|integer"
)


def check_identifier(value: object, what: str) -> str:
    """Return a name that may stand in Python source.

    Raises:
        DataError: for anything else.
    """
    if (
        isinstance(value, str)
        and value.isidentifier()
        and not keyword.iskeyword(value)
        and not value.startswith("__")
    ):
        return value
    raise DataError(f"{what} is {_shown(value)}, which is no identifier")


def is_path(value: object) -> bool:
    """True if this is a dotted path of a parameter or buffer, such as `blocks.0.weight`.

    Modules may have names that are no identifiers, such as `block-0`. Code that is generated of a
    graph quotes them: nothing that ends a quotation is allowed.
    """
    return isinstance(value, str) and value.isprintable() and bool(_PATH.fullmatch(value))


def check_path(value: object, what: str) -> str:
    """Return a dotted path of a parameter or buffer.

    Raises:
        DataError: for anything else.
    """
    if is_path(value):
        return str(value)
    raise DataError(f"{what} is {_shown(value)}, which is no path of a parameter")


def find_operator(target: object) -> object:
    """Return the operator on tensors that a file names, such as `aten.add.Tensor`.

    Raises:
        DataError: for a name that is none, and for operators that open files.
    """
    operators()  # Registers those that torch does not have.
    if isinstance(target, str) and re.fullmatch(r"\w+(\.\w+)+", target):
        space, *names = target.split(".")
        if space == "operator" and len(names) == 1 and names[0] in _ARITHMETIC:
            return getattr(operator, names[0])
        member: object = getattr(torch.ops, space, None)
        for name in names:
            member = getattr(member, name, None)
        if isinstance(member, torch._ops.OpOverload) and not _opens_files(member):
            return member
    raise DataError(f"the file calls {_shown(target)}, which is not registered with torch")


def _opens_files(target: torch._ops.OpOverload) -> bool:
    return any(item.name in ("filename", "path") for item in target._schema.arguments)


def check_pt2(file: Path) -> None:
    """Refuse a file of `torch.export.save` that torch could not load without running its code.

    Raises:
        CaptureError: naming what it holds.
    """
    for record in _records(file):
        name, content = record
        if name.startswith("data/aotinductor/"):
            raise _refusal(file, "compiled code")
        if name.endswith(".json"):
            _check_json(file, content)


def check_program(file: Path, program: ExportedProgram) -> None:
    """Refuse a loaded program whose call would be source text that the file gives.

    Raises:
        CaptureError: naming it.
    """
    # Conditions on the inputs, as source text: a call needs none.
    program._guards_code = []
    for entry in program.module_call_graph:
        signature = entry.signature
        if signature is None:
            continue
        names = list(signature.forward_arg_names or ())
        arguments = signature.in_spec.children()
        if len(arguments) == 2 and isinstance(arguments[1].context, list):
            names += arguments[1].context
        for name in names:
            try:
                check_identifier(name, "an argument")
            except DataError as error:
                raise _refusal(file, f"a program of which {error}") from error


@contextmanager
def without_pickles() -> Iterator[None]:
    """Let torch.load read nothing but tensors."""
    key = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"
    before = os.environ.get(key)
    os.environ[key] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[key]
        else:
            os.environ[key] = before


def _records(file: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the records of an archive as torch reads it, and as Python does: both are checked."""
    try:
        reader = torch._C.PyTorchFileReader(str(file))
        names = reader.get_all_records()
        if "archive_format" not in names:
            raise RuntimeError("no archive of torch.export.save")
        for name in names:
            yield name, reader.get_record(name) if name.endswith(".json") else b""
        with zipfile.ZipFile(file) as archive:
            listed = archive.namelist()
            if len(set(listed)) != len(listed):
                raise RuntimeError("two records of a name")
            for name in listed:
                inner = name.partition("/")[2]
                yield inner, archive.read(name) if name.endswith(".json") else b""
    except (RuntimeError, OSError, ValueError, zipfile.BadZipFile) as error:
        raise CaptureError(
            f"{file} is a zip archive, but none that torch.export.save wrote (torch.save writes "
            "another kind); save the program that torch.export.export returns"
        ) from error


def _check_json(file: Path, content: bytes) -> None:
    try:
        open_ = [json.loads(content)]
    except (ValueError, RecursionError) as error:
        raise CaptureError(f"{file} is damaged: {error}") from error
    while open_:
        item = open_.pop()
        if isinstance(item, list):
            open_ += item
        elif isinstance(item, dict):
            _check_entry(file, item)
            open_ += item.values()


def _check_entry(file: Path, entry: dict[str, object]) -> None:
    stored = str(entry.get("path_name", ""))
    if entry.get("use_pickle") or stored.startswith(("custom_obj", "opaque_obj")):
        raise _refusal(file, f"pickled objects ({stored or 'a tensor'})")
    if "expr_str" in entry and not _is_size(entry["expr_str"]):
        raise _refusal(file, f"a size that is no arithmetic: {_shown(entry['expr_str'])}")
    name = entry.get("name")
    if name is not None and not (
        isinstance(name, str) and re.fullmatch(r"(?:[A-Za-z_]\w*)?", name, re.ASCII)
    ):
        raise _refusal(file, f"a name that is no identifier: {_shown(name)}")
    if "target" in entry and "inputs" in entry and not _is_call(entry["target"]):
        raise _refusal(file, f"a call that is no operator on tensors: {_shown(entry['target'])}")


def _is_size(value: object) -> bool:
    if not isinstance(value, str) or len(value) > 10_000:
        return False
    text = _SYMBOL.sub("s0", value)
    words = re.findall(r"[A-Za-z_]\w*", re.sub(r"\d+(?:\.\d+)?e[+-]?\d+", "0", text))
    return bool(_SIZE_CHARACTERS.fullmatch(text)) and all(map(_SIZE_WORDS.fullmatch, words))


def _is_call(target: object) -> bool:
    if not isinstance(target, str):
        return False
    if target.startswith("_operator."):
        return target.removeprefix("_operator.") in _ARITHMETIC
    if target.startswith("math."):
        return target.removeprefix("math.") in _MATHEMATICS
    if re.fullmatch(r"torch\.sym_\w+|torch\._sym_\w+|torch\.ops\.higher_order\.\w+", target):
        return True
    try:
        find_operator(target.removeprefix("torch.ops."))
    except DataError:
        return False
    return target.startswith("torch.ops.")


def _refusal(file: Path, what: str) -> CaptureError:
    return CaptureError(
        f"{file} holds {what}, which torch could load only by running what the file says; for a "
        "file that you trust: load_pt2(path, trusted=True)"
    )


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
