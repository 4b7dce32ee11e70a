"""The tutorials run, with small settings, and reach what they show."""

import pytest

from mase_hw.tutorials import (
    bert,
    fit,
    graph,
    mixed_precision,
    perceptron,
    pruning,
    search,
    software,
)


def test_perceptron(tmp_path):
    found = perceptron.main(tmp_path / "rtl", epochs=5, samples=10)
    assert found["bit-exact"] == 1
    assert found["float"] > 0.85
    assert abs(found["trained"] - found["float"]) < 0.05
    assert found["interval"] == 64 * 24 / 64


@pytest.mark.full
def test_graph(tmp_path):
    found = graph.main(tmp_path, samples=4)
    assert found["nodes with input_ids"] < found["nodes with attention_mask"]
    assert found["nodes with attention_mask"] < found["nodes with labels"]
    assert found["dropout"] == 6
    assert found["dropout left"] == found["largest change"] == 0
    assert len(list(tmp_path.glob("*.svg"))) == 3


@pytest.mark.full
def test_software(tmp_path):
    found = software.main(tmp_path, samples=100, longest=128)
    assert found["equal"] == 1
    assert found["bits per weight"] == 8.25
    assert found["MXINT8 MiB"] < 0.27 * found["float32 MiB"]
    assert found["integer products, error"] == 0
    assert found["compiled, later call, ms"] < found["compiled, first call, ms"]
    assert abs(found["accuracy in MXINT8"] - found["accuracy"]) < 0.1


@pytest.mark.full
def test_pruning(tmp_path):
    found = pruning.main(tmp_path, epochs=3)
    assert found["bit-exact"] == 1
    assert found["parameters left"] < 0.85 * found["parameters"]
    assert found["compressed"] > 0.8


@pytest.mark.full
def test_search(tmp_path):
    found = search.main(tmp_path, trials=1, samples=64)
    assert set(found) == {"random", "grid", "tpe"}
    assert all(0.3 < value < 1 for value in found.values())
    assert (tmp_path / "curves.svg").exists()


@pytest.mark.full
def test_fit(tmp_path):
    found = fit.main(tmp_path, epochs=2)
    assert found["bit-exact"] == 1
    assert found["dB"] >= 30
    assert found["LUT"] > 0


@pytest.mark.full
def test_mixed_precision(tmp_path):
    found = mixed_precision.main(tmp_path, trials=3, epochs=3)
    assert found["accuracy"] > 0.7
    assert 3 <= found["bits"] <= 9
    assert (tmp_path / "front.svg").exists()
    assert (tmp_path / "formats" / "front_0.toml").exists()


@pytest.mark.full
def test_bert(tmp_path):
    found = bert.main(tmp_path, samples=256, epochs=1)
    assert found["4 bits, loaded"] == found["4 bits, trained"]
    assert found["8 bits"] > 0.4
    assert (tmp_path / "bert.mase").exists()
