"""Loading a file of a stranger runs nobody's code, and ends in an error that says what is wrong."""

import contextlib
import io
import json
import os
import pickle
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import safetensors
import torch
from safetensors.torch import save_file
from torch import nn

from mase_hw.errors import CaptureError, DataError, MaseError
from mase_hw.graph import MaseGraph, load_pt2, trace


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)

    def forward(self, x):
        return torch.relu(self.fc(x)).sum(-1, keepdim=True) * 0.5


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("strangers") / "net.mase"
    trace(Net().eval(), torch.randn(2, 4)).save(path)
    return path


@pytest.fixture(scope="module")
def exported(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("strangers") / "net.pt2"
    batch = ({0: torch.export.Dim("batch")},)
    torch.export.save(
        torch.export.export(Net().eval(), (torch.randn(2, 4),), dynamic_shapes=batch), path
    )
    return path


def rewritten(saved: Path, to: Path, change: Callable[[Any], object]) -> Path:
    """Write the saved graph with another description."""
    with safetensors.safe_open(saved, framework="pt") as file:
        description = json.loads(file.metadata()["mase_graph"])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    change(description)
    save_file(tensors, to, {"mase_graph": json.dumps(description)})
    return to


def repacked(exported: Path, to: Path, change: Callable[[str, bytes], bytes]) -> Path:
    """Write the archive with other records."""
    with zipfile.ZipFile(exported) as old, zipfile.ZipFile(to, "w") as new:
        for name in old.namelist():
            new.writestr(name, change(name.partition("/")[2], old.read(name)))
    return to


def of_json(change: Callable[[Any], object]) -> Callable[[str, bytes], bytes]:
    def apply(name: str, content: bytes) -> bytes:
        if name != "models/model.json":
            return content
        model = json.loads(content)
        change(model)
        return json.dumps(model).encode()

    return apply


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        yield (*path, key)
        if isinstance(item, dict | list):
            yield from places(item, (*path, key))


def put(value: Any, path: tuple[Any, ...], item: Any) -> None:
    for key in path[:-1]:
        value = value[key]
    value[path[-1]] = item


def get(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


def payloads(marker: Path) -> list[str]:
    """Return texts that make the marker where they reach Python source or an evaluation."""
    call = f"__import__('os').system('touch {marker}')"
    return [
        call,
        f"x={call}",
        f"x): pass\n{call}\ndef g(self",
        f'x"); {call} #',
        f"x.__class__\n{call}",
        f"Max(1, {call})",
    ]


def test_no_text_of_a_saved_graph_is_run(saved, tmp_path):
    """Every text of the file in turn is replaced by one that would be run as source."""
    marker, path = tmp_path / "marker", tmp_path / "changed.mase"
    with safetensors.safe_open(saved, framework="pt") as file:
        description = json.loads(file.metadata()["mase_graph"])
    texts = [item for item in places(description) if isinstance(get(description, item), str)]
    assert len(texts) > 30
    refused = 0
    for place in texts:
        for payload in payloads(marker):
            changed = rewritten(saved, path, lambda d, p=place, t=payload: put(d, p, t))
            try:
                mg = MaseGraph.load(changed)
                mg(torch.randn(2, 4))
            except MaseError:
                refused += 1
            assert not marker.exists(), (place, payload)
    assert refused > 60


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: put(d, ("name",), "a\nmodule b"), "the name is .* no identifier"),
        (lambda d: put(d, ("name",), "../out"), "the name is '../out', which is no identifier"),
        (lambda d: put(d, ("nodes", 0, "op"), "call_method"), "a node that is a 'call_method'"),
        (lambda d: put(d, ("nodes", 3, "target"), "load_library"), "calls 'load_library'"),
        (lambda d: put(d, ("nodes", 3, "target"), "aten.from_file.default"), "calls 'aten.from"),
        (lambda d: put(d, ("nodes", 3, "target"), "aten.save"), "calls 'aten.save'"),
        (lambda d: put(d, ("nodes", 3, "target"), "operator.methodcaller"), "calls 'operator.m"),
        (lambda d: put(d, ("nodes", 3, "kwargs"), {"dict": [["a b", 1]]}), "an argument of"),
        (lambda d: put(d, ("nodes", 1, "name"), "lambda"), "'lambda', which is no identifier"),
        (lambda d: put(d, ("inputs", 0, 0), "load"), "no dtype 'load'"),
        (lambda d: d["nodes"].append(d["nodes"][0]), "two nodes are called"),
    ],
)
def test_what_a_graph_may_not_say_is_named(saved, tmp_path, change, message):
    path = rewritten(saved, tmp_path / "changed.mase", change)
    with pytest.raises(DataError, match=f"changed.mase is damaged: .*{message}") as caught:
        MaseGraph.load(path)
    assert "\n" not in str(caught.value)


def test_a_huge_example_is_not_made(saved, tmp_path):
    changed = rewritten(
        saved, tmp_path / "changed.mase", lambda d: put(d, ("inputs", 0, 1), [1e9, 1e9])
    )
    with safetensors.safe_open(changed, framework="pt") as file:
        kept = {key: file.get_tensor(key) for key in file.keys() if "example" not in key}  # noqa: SIM118
        text = file.metadata()
    save_file(kept, changed, text)
    with pytest.raises(DataError, match="an input has the shape"):
        MaseGraph.load(changed)


def test_no_text_of_an_exported_program_is_run(exported, tmp_path):
    marker, path = tmp_path / "marker", tmp_path / "changed.pt2"
    with zipfile.ZipFile(exported) as archive:
        (name,) = [item for item in archive.namelist() if item.endswith("models/model.json")]
        model = json.loads(archive.read(name))
    texts = [
        place
        for place in places(model)
        if isinstance(get(model, place), str) and "stack" not in str(place[-1])
    ]
    # One of each kind.
    chosen = {str([key for key in place if isinstance(key, str)]): place for place in texts}
    assert len(chosen) > 10
    for place in chosen.values():
        for payload in payloads(marker):
            changed = repacked(exported, path, of_json(lambda m, p=place, t=payload: put(m, p, t)))
            with contextlib.suppress(MaseError, TypeError):
                load_pt2(changed)(torch.randn(2, 4))
            assert not marker.exists(), (place, payload)


class Harmful:
    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self):
        return os.system, (f"touch {self.marker}",)


def test_pickles_are_loaded_from_trusted_files_alone(exported, tmp_path):
    marker = tmp_path / "marker"
    buffer = io.BytesIO()
    torch.save(((torch.randn(2, 4), Harmful(marker)), {}), buffer)
    harmful = repacked(
        exported,
        tmp_path / "harmful.pt2",
        lambda name, content: (
            buffer.getvalue() if name == "data/sample_inputs/model.pt" else content
        ),
    )
    with pytest.raises(CaptureError, match=r"harmful\.pt2"):
        load_pt2(harmful)
    assert not marker.exists()
    with pytest.raises(CaptureError):
        load_pt2(harmful, trusted=True)
    assert marker.exists(), "the test's payload works"
    assert "TORCH_FORCE_WEIGHTS_ONLY_LOAD" not in os.environ


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: put(m, ("graph_module", "graph", "nodes", 0, "target"), "torch.load"),
         "a call that is no operator on tensors: 'torch.load'"),
        (lambda m: put(m, ("graph_module", "graph", "nodes", 0, "target"), "torch.ops.aten.save"),
         "a call that is no operator"),
        (lambda m: put(m, ("graph_module", "graph", "inputs", 0, "as_tensor", "name"), "a b"),
         "a name that is no identifier: 'a b'"),
    ],
)  # fmt: skip
def test_what_a_program_may_not_say_is_named(exported, tmp_path, change, message):
    path = repacked(exported, tmp_path / "changed.pt2", of_json(change))
    with pytest.raises(CaptureError, match=message):
        load_pt2(path)


def test_compiled_code_and_pickled_weights_are_refused(exported, tmp_path):
    def pickled(name: str, content: bytes) -> bytes:
        if not name.endswith("weights_config.json"):
            return content
        return content.replace(b'"use_pickle": false', b'"use_pickle": true')

    with pytest.raises(CaptureError, match=r"holds pickled objects .*trusted=True"):
        load_pt2(repacked(exported, tmp_path / "pickled.pt2", pickled))
    compiled = repacked(exported, tmp_path / "compiled.pt2", lambda _, content: content)
    with zipfile.ZipFile(compiled, "a") as archive:
        folder = archive.namelist()[0].partition("/")[0]
        archive.writestr(f"{folder}/data/aotinductor/model/a.so", pickle.dumps(1))
    with pytest.raises(CaptureError, match="holds compiled code"):
        load_pt2(compiled)
