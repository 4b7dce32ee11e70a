"""What the benchmarks count is what is there."""

from importlib.resources import files
from pathlib import Path

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.emit.flow import to_hardware
from mase_hw.timing.prediction import predict
from tests.bench.additions import ADDITIONS, changed, contents, copied, edited_files, examples
from tests.bench.architectures import ARCHITECTURES
from tests.bench.emission import reason_against
from tests.bench.groups import cells as bench
from tests.bench.groups.transformers import DEIT_LATENCY_BAR, Transformers
from tests.bench.listed_models import call_of
from tests.bench.small_models import small_models
from tests.bench.together import side_by_side
from tests.bench.transformer_errors import errors
from tests.bench.transformer_models import deit_tiny, published_lanes

PACKAGE = Path(str(files("mase_hw")))


def test_a_change_of_a_file_is_counted(tmp_path):
    copy = copied(PACKAGE, tmp_path)
    before = contents(copy)
    assert {"ops/products/linear.py", "rtl/mase_pkg.sv", "sim/build.py"} <= before.keys()
    (copy / "ops" / "new.py").write_text("")
    assert changed(before, contents(copy)) == set()
    (copy / "ops" / "products" / "linear.py").write_text("")
    (copy / "rtl" / "mase_pkg.sv").unlink()
    assert changed(before, contents(copy)) == {"ops/products/linear.py", "rtl/mase_pkg.sv"}


@pytest.mark.parametrize("addition", ADDITIONS, ids=lambda item: item.what)
def test_additions_are_examples_of_the_pages(addition):
    for place, (page, name) in addition.files.items():
        text = examples(PACKAGE / page / "README.md")[name]
        assert not (PACKAGE / place).exists()
        for old in addition.changes.get(place, ()):
            assert text.count(old) == 1


@pytest.mark.full
def test_additions_edit_no_file_but_their_own():
    rows = list(edited_files(PACKAGE))
    assert [row.met for row in rows] == [True] * 5 + [False]
    assert rows[-1].measured == "1: ops/fmax.py"


def test_an_override_of_timing_is_found(tmp_path):
    (tmp_path / "a.py").write_text("class A:\n    def work_cycles(self):\n        return 1\n")
    (tmp_path / "b.py").write_text("def hardware(call):\n    return call.result.busy_cycles\n")
    assert bench.timing_overrides(tmp_path) == ["a.work_cycles"]
    assert bench.timing_overrides(PACKAGE / "cells")
    assert bench.timing_overrides(PACKAGE / "ops") == []


def test_layers_of_others_are_called_with_their_batch_first():
    layer = nn.LSTM(3, 2).eval()
    values, state = torch.randn(4, 5, 3), torch.randn(1, 5, 2)
    model, inputs = call_of(layer, (values, (state, state)), {})
    assert [tuple(item.shape) for item in inputs] == [(5, 4, 3), (5, 1, 2), (5, 1, 2)]
    found, expected = model(*inputs), layer(values, (state, state))
    torch.testing.assert_close(found[0], expected[0].transpose(0, 1))
    torch.testing.assert_close(found[1][1], expected[1][1].transpose(0, 1))
    model, inputs = call_of(layer, (values[:, 0], (state[:, 0], state[:, 0])), {}, has_batch=False)
    assert [tuple(item.shape) for item in inputs] == [(2, 4, 3), (2, 1, 2), (2, 1, 2)]
    first = layer(values[:, 0], (state[:, 0], state[:, 0]))[0]
    torch.testing.assert_close(model(*inputs)[0][0], first)


def test_masks_of_attention_are_shared_and_windows_too():
    layer = nn.MultiheadAttention(4, 2, batch_first=True).eval()
    rows, mask = torch.randn(3, 4), torch.ones(2, 3, 3, dtype=torch.bool).tril()
    given = {"attn_mask": ~mask, "key_padding_mask": torch.tensor([False, False, True])}
    model, inputs = call_of(layer, (rows, rows, rows), given, has_batch=False)
    assert [tuple(item.shape) for item in inputs] == [(2, 3, 4)] * 3 + [(2, 3)]
    torch.testing.assert_close(model(*inputs)[0][0], layer(rows, rows, rows, **given)[0])
    samples = torch.rand(2, 1, 2, dtype=torch.float64)
    pool = nn.FractionalMaxPool2d(2, output_size=2, _random_samples=samples)
    model, inputs = call_of(pool, (torch.randn(2, 1, 5, 5),), {})
    assert model(*inputs).shape == (2, 1, 2, 2)


@pytest.mark.full
def test_small_models_are_told_apart_and_run_side_by_side():
    listed = small_models()
    assert len(listed) >= 78
    samples = [listed[name]() for name in ("linear", "einsum", "GRU with states")]
    model, inputs = side_by_side(samples)
    found = model(*inputs)
    for (alone, given), result in zip(samples, found, strict=True):
        torch.testing.assert_close(alone(*given), result)
    assert reason_against(model, inputs, checks="preflight") == ""


@pytest.mark.full
def test_small_models_have_hardware():
    left = {
        name: reason
        for name, build in small_models().items()
        if (reason := reason_against(*build(), checks="emission"))
    }
    assert not left


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("MixtralForCausalLM", "it orders along dimension 0"),
        ("DebertaV2ForSequenceClassification", "only constants are repeated"),
    ],
)
def test_an_architecture_without_hardware_has_a_row_with_the_cause(name, cause):
    pytest.importorskip("transformers")
    (row,) = Transformers().only([name]).rows()
    assert row.what == name and row.met is None
    assert row.measured.startswith("refused: ") and cause in row.measured


@pytest.mark.full
@pytest.mark.parametrize("name", list(ARCHITECTURES))
def test_an_architecture_is_exact_or_refused(name):
    pytest.importorskip("transformers")
    (row,) = Transformers().only([name]).rows()
    assert row.met or row.measured.startswith("refused: "), row


@pytest.mark.full
def test_a_classifier_is_as_accurate_as_with_float_functions():
    pytest.importorskip("transformers")
    rows = list(Transformers().only(["vit-mnist-accuracy"]).rows())
    assert len(rows) == 3
    assert all(row.met for row in rows), rows


@pytest.mark.full
def test_blocks_of_published_lanes_keep_their_interval_and_latency():
    pytest.importorskip("transformers")
    module, inputs = deit_tiny(2)()
    mg = mase_hw.quantize(mase_hw.trace(module, inputs))
    found = predict(to_hardware(mg, parallelism=published_lanes(2)))
    assert found.interval_cycles == 50_176
    assert found.latency_cycles <= 2 * DEIT_LATENCY_BAR / 12 + found.interval_cycles


def test_approximations_are_within_their_bars():
    rows = list(errors())
    assert len(rows) == 6
    assert all(row.met for row in rows), rows
