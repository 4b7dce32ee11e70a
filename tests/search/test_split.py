"""Whatever chooses scores on samples that are neither trained nor reported on."""

import importlib

import pytest
import torch

from mase_hw.cli import search as command
from mase_hw.cli._progress import Display
from mase_hw.data import Split, dataset
from mase_hw.errors import DataError


def split(samples=200, classes=4):
    labels = torch.arange(samples) % classes
    inputs = torch.arange(samples, dtype=torch.float32)[:, None]
    return Split(inputs, labels, -1 - inputs[:40], labels[:40])


def test_a_share_of_every_class_is_held_out():
    given = split()
    held = given.hold_out(0.2)
    assert held.validation_labels.bincount().tolist() == [10] * 4
    assert held.train_labels.bincount().tolist() == [40] * 4
    parts = torch.cat([held.train_inputs, held.validation_inputs]).flatten()
    assert torch.equal(parts.sort().values, given.train_inputs.flatten())
    assert torch.equal(held.test_inputs, given.test_inputs)
    again = given.hold_out(0.2)
    assert torch.equal(again.validation_inputs, held.validation_inputs)
    assert not torch.equal(given.hold_out(0.2, seed=1).validation_inputs, held.validation_inputs)


def test_a_share_that_leaves_nothing_is_refused():
    with pytest.raises(DataError, match=r"share to validate on is 1\.0"):
        split().hold_out(1.0)
    with pytest.raises(DataError, match="4 training samples cannot give"):
        split(samples=4).hold_out(0.1)


def test_a_search_never_sees_the_test_samples(tmp_path, monkeypatch):
    seen = []

    class SeenError(Exception):
        pass

    def record(mg, tables, *, samples, **options):
        seen.append(samples)
        raise SeenError

    monkeypatch.setattr(importlib.import_module("mase_hw.search.study"), "search", record)
    config = tmp_path / "search.toml"
    config.write_text("")
    with pytest.raises(SeenError):
        command.search("digits-mlp", config=config, display=Display())
    held = dataset("digits").load().hold_out()
    assert torch.equal(seen[0].inputs, held.validation_inputs)
    assert torch.equal(seen[0].labels, held.validation_labels)
    assert torch.equal(seen[0].observed, held.train_inputs)
