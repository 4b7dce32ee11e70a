"""Random input to the commands, the functions and the files: only a `MaseError` may come out.

Nothing in it may run as code, and what lies beside it must be there afterwards.

`tests/test_fuzz.py` tries a sample. Nothing is built or trained: engines, synthesis and training
stand for themselves.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import io
import json
import os
import pickle
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import onnx
import torch
from onnx.reference import ReferenceEvaluator
from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn
from torch.utils._pytree import tree_leaves

import mase_hw
from mase_hw import cli
from mase_hw._cache import CACHE_VARIABLE
from mase_hw.emit.design import DesignSummary
from mase_hw.emit.flow import to_hardware
from mase_hw.emit.preflight import preflight
from mase_hw.errors import MaseError, SimulationError, SynthesisError, UnitError
from mase_hw.graph import MaseGraph
from mase_hw.sim.inputs import encode_inputs
from mase_hw.sim.simulate import ENGINES, simulate
from tests import random_functions
from tests.doors import files

SECONDS = 60
NAMES = (
    "", " ", ".", "..", "/", "//", "~", "~nobody", "-", "--", "²", "½", "٣", "é", "\u202e",
    "\ud800",
    "x" * 300, "a/b", "../a", "net.mase", "net.pt2", "net.py", "net.py:mlp", "net.py:nothing",
    "net.py:", ":", "json.py:mlp", "broken.py:mlp", "a:b:c", "'", '"', "`id`", "$(id)", "%s", "{}",
    "\n", "\t", "net", "project", "project/top.sv", "config.toml", "broken.toml", "data.npz",
    "digits-mlp", "digits-mlpp", "nothing.npz", "/dev/null", "/proc/self/mem", "folder", "file",
)  # fmt: skip
NUMBERS = (
    "0", "1", "2", "3", "-1", "-0", "+1", "01", "1.5", "1e3", "1e999", "-1e999", "nan", "inf",
    "0x10",
    "1_000", "²", "1000000000000", "9" * 400, "2147483647", "2147483648", "-2147483649", "",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 3, 7, 1 << 31, 1 << 63, 1 << 70, 1.5, -0.0, 1e308, "", "a",
    "fixed", "auto", "²", "\n", [], {}, [[]], [None], {"": 0}, {"name": "fixed"}, [1, 2, 3],
)  # fmt: skip
# A canary: where a file of this name appears, text from a file or an argument was run.
CANARY = "RAN"
CODE = (
    f"open('{CANARY}', 'w')", f"x=open('{CANARY}', 'w')", f"x\nopen('{CANARY}', 'w')\n",
    f"') or open('{CANARY}', 'w') #", f'") or open("{CANARY}", "w") #', f"$(touch {CANARY})",
    f"`touch {CANARY}`", f"; touch {CANARY}", f"x' ; touch {CANARY} ; '", "os.system", "open",
    f"__import__('pathlib').Path('{CANARY}').touch()", f"{{open('{CANARY}', 'w')}}",
    f"*/ $system(\"touch {CANARY}\"); /*", f"-CFLAGS $(touch {CANARY})", f"../{CANARY}",
)  # fmt: skip
# What is the user's own, in the folders that commands write to.
OWN = ("thesis.txt", "project/thesis.txt", "project/rtl/thesis.sv", "folder/thesis.txt", "net.py")
NET = """
import torch
from torch import nn


def mlp():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3)), (torch.randn(2, 4),)


def nothing():
    return None


def fails():
    raise ValueError("on purpose")
"""
CONFIG = """
parallelism = 2
[quantize]
by = "type"
[quantize.default.config]
name = "fixed"
data_in_width = 8
"""


@dataclass(frozen=True)
class Failure:
    """An input that ended in something else than a message."""

    number: int
    what: str
    text: str


class Ground:
    """A folder with a model, a project and files to damage."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.harm = folder, ""
        self.template = folder / "template"
        self.template.mkdir(parents=True)
        (self.template / "net.py").write_text(NET)
        (self.template / "json.py").write_text(NET)
        (self.template / "broken.py").write_text("def mlp(:\n")
        (self.template / "config.toml").write_text(CONFIG)
        (self.template / "broken.toml").write_bytes(b"a = \xff\n[")
        (self.template / "folder").mkdir()
        (self.template / "file").write_text("file")
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3)).eval()
        self.graph = mase_hw.trace(model, torch.randn(2, 4))
        self.quantized = mase_hw.quantize(self.graph)
        self.quantized.save(self.template / "net.mase")
        exported = torch.export.export(model, (torch.randn(2, 4),))
        torch.export.save(exported, self.template / "net.pt2")
        mase_hw.emit_verilog(self.quantized, output=self.template / "project", parallelism=2)
        np.savez(
            self.template / "data.npz", inputs=np.zeros((4, 4), np.float32), labels=np.zeros(4)
        )
        for name in OWN[:-1]:
            (self.template / name).write_text(name)

    @contextlib.contextmanager
    def fresh(self) -> Iterator[Path]:
        """Yield a copy, which is the working folder; note what came to harm in it."""
        copy = self.folder / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self.template, copy)
        before = Path.cwd()
        os.chdir(copy)
        try:
            yield copy
        finally:
            os.chdir(before)
            ran = [path for path in self.folder.rglob(CANARY) if path.is_file()]
            lost = [
                name for name in OWN
                if not (copy / name).is_file()
                or (copy / name).read_bytes() != (self.template / name).read_bytes()
            ]  # fmt: skip
            self.harm = f"code ran: {ran}" if ran else f"lost: {lost}" if lost else ""
            for path in ran:
                path.unlink()


Case = Callable[[Ground, random.Random], object]


def a_command(ground: Ground, chance: random.Random) -> object:
    """A command with options of its own and values of anybody."""
    import typer

    group = typer.main.get_command(cli.build_app())
    name = chance.choice([item for item in group.commands if item not in FULL])  # type: ignore[attr-defined]
    words = [name]
    for option in group.commands[name].params:  # type: ignore[attr-defined]
        if option.name == "help" or chance.random() > (
            0.8 if not option.opts[0].startswith("-") else 0.2
        ):
            continue
        if option.opts[0].startswith("-"):
            words.append(chance.choice([*option.opts, *option.secondary_opts]))
            if option.is_flag:  # type: ignore[attr-defined]
                continue
        words.append(chance.choice(chance.choice((NAMES, NUMBERS))))
    with ground.fresh():
        return ran(words)


# They train, search or measure for minutes; the rest of them is reached by their functions.
FULL = {"compress", "sweep", "search", "experiment", "profile", "doctor", "prove", "explore"}


def ran(words: list[str]) -> object:
    """Run a command in this process."""
    with patch.object(sys, "argv", ["mase-hw", *words]):
        try:
            cli.main()
        except SystemExit as end:
            return end.code
    return 0


def a_graph_file(ground: Ground, chance: random.Random) -> object:
    """A `.mase` file with changed values, or changed bytes."""
    with ground.fresh() as here:
        path = here / "net.mase"
        if chance.random() < 0.4:
            damage(path, chance)
        else:
            with safe_open(path, framework="pt") as file:
                found = json.loads(file.metadata()["mase_graph"])
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            changed = {"mase_graph": json.dumps(mutated(found, chance))}
            if chance.random() < 0.2:
                tensors.pop(chance.choice(list(tensors)))
            save_file(tensors, path, changed)
        graph = MaseGraph.load(path)
        return mase_hw.emit_verilog(graph, output=here / "out")


def a_program_file(ground: Ground, chance: random.Random) -> object:
    """A `.pt2` file with changed bytes."""
    from mase_hw.graph import load_pt2

    with ground.fresh() as here:
        damage(here / "net.pt2", chance)
        return load_pt2(here / "net.pt2")


def a_project(ground: Ground, chance: random.Random) -> object:
    """A project with a changed file."""
    with ground.fresh() as here:
        folder = here / "project"
        path = folder / chance.choice(
            ["design.json", "design.json", "design.json", "model.mase", "files.f", "manifest.json"]
        )
        if path.suffix == ".json" and path.is_file() and chance.random() < 0.8:
            path.write_text(json.dumps(mutated(json.loads(path.read_text()), chance)))
        elif path.is_file():
            damage(path, chance)
        kind = chance.randrange(3)
        if kind == 0:
            return simulate(folder, samples=2)
        if kind == 1:
            return mase_hw.synthesize(folder)
        DesignSummary.load(folder)
        return mase_hw.emit_verilog(ground.quantized, output=folder)


def a_configuration(ground: Ground, chance: random.Random) -> object:
    """Number formats, parallelism, memory and queues of any shape."""
    config = {
        "by": chance.choice(["type", "name", "regex_name", 1]),
        "default": {"config": {"name": chance.choice(["fixed", "mxint", "integer", "x", None])}},
        "linear": {"config": {"name": "fixed", "data_in_width": 8, "weight_width": 6}},
    }
    options: dict[str, Any] = {
        "config": mutated(config, chance),
        "parallelism": chance.choice([1, 2, "auto", {"linear_0": 2}, *VALUES]),
        "memory": chance.choice(["on-chip", "external", {"default": "external"}, *VALUES]),
        "queues": chance.choice([None, {"linear_0": 2}, *VALUES]),
        "multipliers": chance.choice([64, *VALUES]),
    }
    for key in list(options):
        if chance.random() < 0.5:
            options.pop(key)
    with ground.fresh() as here:
        return mase_hw.emit_verilog(ground.graph, output=here / "out", **options)


def some_inputs(ground: Ground, chance: random.Random) -> object:
    """Arrays and tensors of any shape and kind, files of any content."""
    shape = tuple(chance.choice([0, 1, 2, 4, 5]) for _ in range(chance.randrange(4)))
    dtype = chance.choice(["f4", "f8", ">f4", "i4", "?", "c8", "f2", "U3", "O", "M8[s]"])
    array = np.zeros(shape).astype(dtype) if dtype != "O" else np.empty(shape, object)
    given: Any = chance.choice(
        [array, array.tolist(), {"data_in_0": array}, {"x": array}, [array], (array, array),
         str(array), None, 3, iter([array]), {}, [], *VALUES]
    )  # fmt: skip
    if chance.random() < 0.3:
        given = chance.choice(
            [torch.zeros(4, 4).to_sparse(), torch.zeros(4, 4, dtype=torch.complex64),
             torch.zeros(4, 4).to("meta"), torch.zeros(2, 4, requires_grad=True),
             torch.quantize_per_tensor(torch.zeros(4, 4), 0.1, 0, torch.qint8),
             torch.full((4, 4), float("inf")), torch.zeros(4, 4, dtype=torch.bfloat16)]
        )  # fmt: skip
    streams = DesignSummary.load(ground.template / "project").inputs
    if chance.random() < 0.3:
        with ground.fresh() as here:
            damage(here / "data.npz", chance)
            return encode_inputs(streams, here / "data.npz")
    return encode_inputs(streams, given)


def a_hostile_file(ground: Ground, chance: random.Random) -> object:
    """Code in place of names in a graph, a project or a program, and as pickles."""
    with ground.fresh() as here:
        kind = chance.randrange(4)
        if kind == 0:
            path = here / "net.mase"
            with safe_open(path, framework="pt") as file:
                found = json.loads(file.metadata()["mase_graph"])
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            save_file(tensors, path, {"mase_graph": json.dumps(infected(found, chance))})
            graph = MaseGraph.load(path)
            # Torch says what it likes of a graph that does not fit; but it runs no code in it.
            with contextlib.suppress(Exception):
                graph(torch.zeros(2, 4))
            return mase_hw.emit_verilog(graph, output=here / "out")
        if kind == 1:
            with_pickles(here / "net.pt2", chance)
            return ran([chance.choice(["preflight", "emit-verilog"]), "net.pt2"])
        folder = here / "project"
        if kind == 2:
            path = folder / "design.json"
            path.write_text(json.dumps(infected(json.loads(path.read_text()), chance)))
        else:
            path = folder / "files.f"
            lines = [*path.read_text().splitlines(), chance.choice(CODE)]
            chance.shuffle(lines)
            path.write_text("\n".join(lines))
        return ran([chance.choice(["simulate", "synth", "estimate"]), "project"])


def infected(value: Any, chance: random.Random) -> Any:
    """Return a JSON value with code in place of a text, or of a name."""
    if isinstance(value, dict) and value:
        key = chance.choice(list(value))
        if chance.random() < 0.1:
            return {(chance.choice(CODE) if name == key else name): value[name] for name in value}
        return {**value, key: infected(value[key], chance)}
    if isinstance(value, list) and value:
        place = chance.randrange(len(value))
        return [*value[:place], infected(value[place], chance), *value[place + 1 :]]
    return chance.choice(CODE)


class Pickled:
    """What runs code when it is read as a pickle."""

    def __reduce__(self) -> tuple[Callable[..., object], tuple[str, str]]:
        return open, (CANARY, "w")


def with_pickles(path: Path, chance: random.Random) -> None:
    """Put pickles that run code in place of members of an archive, or of all of it."""
    text = pickle.dumps(Pickled())
    if chance.random() < 0.2:
        path.write_bytes(text)
        return
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    for name in chance.sample(list(members), chance.choice([1, 2, len(members)])):
        members[name] = text
    if chance.random() < 0.5:
        members["archive/data.pkl"] = text
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)


def a_cache(ground: Ground, chance: random.Random) -> object:
    """A damaged entry of the cache: a build, or the weights of a trained model."""
    from mase_hw.models._base import _restore, _write
    from mase_hw.sim._cache import build_once

    def make(folder: Path) -> None:
        (folder / "inside").mkdir()
        for name in ("binary", "inside/unit.o"):
            (folder / name).write_bytes(name.encode() * 20)

    with ground.fresh() as here, patch.dict(os.environ, {CACHE_VARIABLE: str(here / "cache")}):
        if chance.random() < 0.3:
            model = nn.Linear(3, 2)
            _write(here / "weights", model.state_dict())
            damage(here / "weights", chance)
            return _restore(model, here / "weights")
        folder = build_once("things", "a", make)
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        for path in chance.sample(files, chance.choice([1, 2])):
            if path.suffix == ".json" and chance.random() < 0.5:
                path.write_text(json.dumps(mutated(json.loads(path.read_text()), chance)))
            else:
                damage(path, chance)
        build_once("things", "a", make)
        for name in ("binary", "inside/unit.o"):
            assert (folder / name).read_bytes() == name.encode() * 20, name
        return folder


def a_function(ground: Ground, chance: random.Random) -> None:
    """A function of torch with odd arguments, from a model to hardware, and in a larger batch."""
    model, example = random_functions.draw(chance)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            graph = mase_hw.trace(model, example)
            if not preflight(quantized := mase_hw.quantize(graph)):
                to_hardware(quantized)
        except UnitError as error:
            raise AssertionError(str(model)) from error
        if graph.batched and not graph.batch_dims:
            more = torch.cat([example, example.flip(0) * 0.5])
            torch.testing.assert_close(graph(more), model(more), equal_nan=True, msg=str(model))


def an_onnx_file(ground: Ground, chance: random.Random) -> None:
    """An ONNX file with other values in any of its fields: refused, or computed as ONNX says."""
    model = onnx.ModelProto()
    model.ParseFromString(chance.choice(onnx_files()))
    for _ in range(chance.choice([1, 1, 1, 2, 4])):
        change_field(model, chance)
    with ground.fresh() as here, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = here / "net.onnx"
        path.write_bytes(model.SerializeToString())
        if chance.random() < 0.1:
            damage(path, chance)
        graph = mase_hw.trace(path)
        found = [graph(*graph.example_inputs)]
        wanted = evaluated(path, graph.example_inputs)
        for ours, theirs in zip(tree_leaves(found), wanted, strict=False):
            # A value between two codes may become either.
            near = torch.nan_to_num(ours.double()), torch.nan_to_num(torch.tensor(theirs).double())
            error = (near[0].reshape(-1) - near[1].reshape(-1)).norm()
            assert error <= 0.05 * near[1].norm() + 1e-4, f"{ours} is not {theirs}"
        mase_hw.quantize(graph)


@functools.cache
def onnx_files() -> list[bytes]:
    """Return files of few nodes and many operators, in a version that ONNX's evaluator has."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for name, make in files.ALL_FILES.items():
            model = onnx.load(make(Path(folder) / name))
            version = model.opset_import[0]
            version.version = 19 if version.version == 13 else version.version
            found.append(model.SerializeToString())
    return found


def evaluated(path: Path, inputs: Iterable[torch.Tensor]) -> list[Any]:
    """Return what ONNX's own evaluator computes of a file; nothing where it computes nothing."""
    try:
        model = onnx.load(path)
        constant = {item.name for item in model.graph.initializer}
        names = [item.name for item in model.graph.input if item.name not in constant]
        given = {name: value.numpy() for name, value in zip(names, inputs, strict=True)}
        return list(ReferenceEvaluator(model).run(None, given))
    except Exception:
        return []


def change_field(model: Any, chance: random.Random) -> None:
    """Change, remove or repeat a field of a message of protobuf, or of one below it."""
    messages = list(below(model))
    message = chance.choice(messages)
    field = chance.choice(message.DESCRIPTOR.fields)
    held, what = getattr(message, field.name), field.cpp_type
    with contextlib.suppress(TypeError, ValueError):
        if field.message_type is not None:
            alike = [item for item in messages if item.DESCRIPTOR is field.message_type]
            other = copy.deepcopy(chance.choice(alike)) if alike else None
            if not field.is_repeated:
                message.ClearField(field.name)
                if other is not None and chance.random() < 0.7:
                    getattr(message, field.name).CopyFrom(other)
            elif len(held) and chance.random() < 0.5:
                del held[chance.randrange(len(held))]
            elif other is not None:
                held.add().CopyFrom(other)
            return
        kind = type(field.default_value) if not field.is_repeated else KINDS.get(what, int)
        texts = [item.name for item in messages if hasattr(item, "name")]
        value: Any = {
            int: chance.choice([0, 1, -1, 2, 3, 7, 18, 127, 1 << 20, (1 << 31) - 1, 1 << 40]),
            float: chance.choice([0.0, -1.0, 0.5, 1e-40, 1e38, float("nan"), float("inf")]),
            str: chance.choice([*texts, "", "Relu", "Concat", "../a", "a\0b", "ai.onnx.ml"]),
            bytes: chance.choice([b"", b"\xff" * 4, chance.randbytes(24), b"../secret"]),
        }[kind]
        if not field.is_repeated:
            setattr(message, field.name, value)
        elif len(held) and chance.random() < 0.7:
            held[chance.randrange(len(held))] = value
        else:
            held.append(value)


# By protobuf's numbers of types in C++; all others are integers.
KINDS = {5: float, 6: float, 9: bytes}


def below(message: Any) -> Iterator[Any]:
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for item in value if field.is_repeated else [value]:
                yield from below(item)


CASES: dict[Case, int] = {
    a_command: 6, a_graph_file: 4, a_program_file: 2, a_project: 4, a_configuration: 4,
    some_inputs: 3,
}  # fmt: skip
# Inputs whose number leaves this rest are of one kind.
OF_ONE_KIND: dict[tuple[int, int], Case] = {
    (10, 5): a_hostile_file, (10, 7): a_cache, (20, 11): a_function, (20, 16): an_onnx_file,
}  # fmt: skip


def damage(path: Path, chance: random.Random) -> None:
    """Change some bytes of a file, cut it off, or put something else in its place."""
    data = bytearray(path.read_bytes())
    kind = chance.randrange(6)
    if kind == 0:
        path.write_bytes(data[: chance.randrange(len(data) + 1)])
    elif kind == 1:
        path.unlink()
        path.mkdir()
    elif kind == 2:
        path.write_bytes(chance.randbytes(chance.randrange(200)))
    else:
        for _ in range(chance.choice([1, 3, 30])):
            data[chance.randrange(len(data))] = chance.randrange(256)
        path.write_bytes(data)


def mutated(value: Any, chance: random.Random) -> Any:
    """Return a JSON value in which something is another thing, is missing, or is there twice."""
    if isinstance(value, dict) and value and chance.random() < 0.9:
        key = chance.choice(list(value))
        if chance.random() < 0.1:
            return {name: item for name, item in value.items() if name != key}
        return {**value, key: mutated(value[key], chance)}
    if isinstance(value, list) and value and chance.random() < 0.9:
        place = chance.randrange(len(value))
        if chance.random() < 0.1:
            return value[:place] + value[place + 1 :]
        if chance.random() < 0.1:
            return [*value, value[place]]
        return [*value[:place], mutated(value[place], chance), *value[place + 1 :]]
    return chance.choice([*VALUES, *NAMES])


def _no_engine(request: object) -> Any:
    raise SimulationError("not run")


def _no_synthesis(*arguments: object) -> Any:
    raise SynthesisError("not run")


def _late(number: int, frame: object) -> None:
    raise TimeoutError(f"no end within {SECONDS} s of the processor")


def tried(
    seed: int, numbers: Iterable[int], only: Case | None = None, seconds: float = float("inf")
) -> list[Failure]:
    """Try inputs, each drawn from the seed and its number, for some time; return what failed."""
    end = time.monotonic() + seconds
    failures = []
    with (
        tempfile.TemporaryDirectory(prefix="mase-hw-fuzz-") as name,
        contextlib.ExitStack() as held,
    ):
        ground = Ground(Path(name))
        for engine in ENGINES:
            held.enter_context(patch.dict(ENGINES, {engine: _no_engine}))
        held.enter_context(patch("mase_hw.hardware.synth.run_yosys", _no_synthesis))
        previous = signal.signal(signal.SIGPROF, _late)
        for number in numbers:
            if time.monotonic() > end:
                break
            failure = _try(ground, random.Random(f"{seed} {number}"), number, only)
            failures += [failure] if failure else []
        signal.signal(signal.SIGPROF, previous)
    return failures


def _try(
    ground: Ground, chance: random.Random, number: int, only: Case | None = None
) -> Failure | None:
    drawn = chance.choices(list(CASES), list(CASES.values()))[0]
    kinds = [case for (by, rest), case in OF_ONE_KIND.items() if number % by == rest]
    case = only or (kinds[0] if kinds else drawn)
    said = io.StringIO()
    ground.harm = ""
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            case(ground, chance)
    except MaseError as error:
        message = str(error)
        if not message.strip() or "Traceback" in message:
            return Failure(number, case.__name__, f"no plain message: {message!r}")
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return Failure(number, case.__name__, "".join(traceback.format_exception(error)[-9:]))
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    if "Traceback" in said.getvalue():
        return Failure(number, case.__name__, said.getvalue()[-2000:])
    return Failure(number, case.__name__, ground.harm) if ground.harm else None
