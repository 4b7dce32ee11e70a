"""Samples in every form that users have them: several inputs, loaders, data sets, real targets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

import mase_hw
from mase_hw.data import Split
from mase_hw.errors import ConfigError, DataError
from mase_hw.graph import MaseGraph, trace
from mase_hw.pipelines.sweep import sweep
from mase_hw.training import tensors

TRAIN = {"pass": "train", "epochs": 8, "learning_rate": 0.02, "batch_size": 16}
STEPS = {"steps": [TRAIN, {"pass": "quantize"}]}
SPACE = {"quantize": {"default": {"config": {"name": "fixed", "data_in_width": [4, 8]}}}}


class Gated(nn.Module):
    """Two inputs, of which a mask takes a part of the other away."""

    def __init__(self, outputs: int = 3) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(6, 8), nn.Linear(8, outputs)

    def forward(self, values: Tensor, mask: Tensor) -> Tensor:
        return self.last(torch.relu(self.first(values * mask)))


def samples(count: int = 120) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(count, 6, generator=generator)
    mask = (torch.rand(count, 6, generator=generator) < 0.8).float()
    return values, mask, (values * mask)[:, :3].argmax(dim=1)


VALUES, MASK, CLASSES = samples()


def graph(outputs: int = 3) -> MaseGraph:
    torch.manual_seed(0)
    return trace(Gated(outputs), {"values": VALUES[:8], "mask": MASK[:8]}, name="gated")


class ByName(Dataset[dict[str, Tensor]]):
    """A data set as transformers has it."""

    def __init__(self, start: int, end: int) -> None:
        self._start, self._end = start, end

    def __len__(self) -> int:
        return self._end - self._start

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        place = self._start + index
        return {"values": VALUES[place], "mask": MASK[place], "labels": CLASSES[place]}


def by_name(start: int, end: int) -> tuple[dict[str, Tensor], Tensor]:
    part = slice(start, end)
    return {"values": VALUES[part], "mask": MASK[part]}, CLASSES[part]


def by_place(start: int, end: int) -> tuple[tuple[Tensor, Tensor], Tensor]:
    part = slice(start, end)
    return (VALUES[part], MASK[part]), CLASSES[part]


def loader(start: int, end: int) -> DataLoader[Any]:
    return DataLoader(ByName(start, end), batch_size=16)


FORMS: dict[str, Any] = {
    "split by name": Split(*by_name(0, 90), *by_name(90, 120)),
    "split by place": Split(*by_place(0, 90), *by_place(90, 120)),
    "four": (*by_place(0, 90), *by_place(90, 120)),
    "halves": (by_name(0, 90), by_name(90, 120)),
    "loaders": (loader(0, 90), loader(90, 120)),
    "lists of batches": (list(loader(0, 90)), list(loader(90, 120))),
    "data sets": {"train": ByName(0, 90), "test": ByName(90, 120)},
    "dictionaries": {
        half: {**by_name(*ends)[0], "labels": by_name(*ends)[1]}
        for half, ends in (("train", (0, 90)), ("test", (90, 120)))
    },
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_means_the_same_samples(form: str) -> None:
    split = Split.read(FORMS[form])
    wanted = Split.read(FORMS["split by name"])
    for found, right in zip(split.tensors(), wanted.tensors(), strict=True):
        assert torch.equal(found, right)


@pytest.mark.first(1)
@pytest.mark.parametrize("form", ["split by place", "loaders"])
def test_several_inputs_go_through_a_compression(form: str, tmp_path: Path) -> None:
    trained = {**TRAIN, "trainer": "transformers" if form == "loaders" else "loop"}
    learned = {**TRAIN, "epochs": 1, "learn_steps": True}
    config = {"steps": [trained, {"pass": "quantize"}, learned]}
    result = mase_hw.compress(graph(), config, FORMS[form], output=tmp_path / "out")
    assert result.rows[-1]["accuracy"] > result.rows[0]["accuracy"]
    project = mase_hw.emit_verilog(
        result.mg, output=tmp_path / "project", config=result.config, parallelism=2
    )
    wanted = Split.read(FORMS[form])
    report = mase_hw.simulate(project, tensors(wanted.test_inputs))
    outputs = report.outputs["data_out_0"].reshape(30, -1)
    assert report.bit_exact
    found = float((outputs.argmax(dim=1) == wanted.test_labels).double().mean())
    assert found == result.test["after"]


@pytest.mark.full
def test_real_targets_are_measured_by_their_squared_errors(tmp_path: Path) -> None:
    targets = (VALUES * MASK).sum(dim=1, keepdim=True)
    data = ({"values": VALUES, "mask": MASK}, targets)
    config = {**STEPS, "task": "regression"}
    result = mase_hw.compress(graph(1), config, data, output=tmp_path / "out")
    assert result.test["metric"] == "mean_squared_error" and "after_error" not in result.test
    assert result.test["after"] < result.test["before"]
    assert (tmp_path / "out" / "mean_squared_error.png").is_file()
    found = sweep(graph(1), data, {**config, "sweep": {"seed": [0, 1]}}, output=tmp_path / "sweep")
    assert all(row["mean_squared_error"] > 0 for row in found.rows)
    assert (tmp_path / "sweep" / "sweep.png").is_file()


@pytest.mark.first(1)
@pytest.mark.parametrize("task", ["classification", "regression"])
def test_several_inputs_go_through_a_search(task: str, tmp_path: Path) -> None:
    classes = task == "classification"
    labels = CLASSES if classes else (VALUES * MASK).sum(dim=1, keepdim=True)
    config = {
        "space": SPACE,
        "trials": 2,
        "sampler": "grid",
        "task": task,
        "training": {"epochs": 2},
    }
    data = ({"values": VALUES, "mask": MASK}, labels)
    found = mase_hw.search(graph(3 if classes else 1), config, output=tmp_path, samples=data)
    metric = "accuracy" if classes else "mean_squared_error"
    assert metric in found.best[0].metrics and not found.failed


def test_a_search_knows_which_metric_its_task_has(tmp_path: Path) -> None:
    config = {"space": SPACE, "trials": 1, "objectives": ["mean_squared_error"]}
    with pytest.raises(ConfigError, match="classification is measured by accuracy"):
        mase_hw.search(graph(), config, output=tmp_path, samples=FORMS["halves"])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((VALUES, CLASSES[:5]), "120 samples and 5 labels"),
        ({"train": by_name(0, 90)}, "no 'test'"),
        (({"values": VALUES, "mask": MASK[:7]}, CLASSES), r"\[7, 120\] samples"),
        ((object(), object()), "is a object"),
        (([], []), "no batch"),
        (np.zeros(3), "allowed: a Split"),
        ({"values": VALUES}, "no 'labels'"),
        (
            ([(VALUES[:4], CLASSES[:4]), (VALUES[:4, :3], CLASSES[:4])], loader(0, 9)),
            "pad every batch to one length",
        ),
        ((TensorDataset(VALUES), TensorDataset(VALUES)), "allowed: a Split"),
    ],
)
def test_what_is_no_data_is_refused(given: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Split.read(given)


def test_inputs_that_the_model_does_not_have_are_refused(tmp_path: Path) -> None:
    data = ({"values": VALUES, "padding": MASK}, CLASSES)
    with pytest.raises(DataError, match="unexpected keyword argument 'padding'"):
        mase_hw.compress(graph(), STEPS, data, output=tmp_path / "out")
