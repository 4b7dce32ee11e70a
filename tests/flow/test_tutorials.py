"""The tutorials run, with small settings, and reach what they show."""

import pytest

from mase_hw.tutorials import bert, perceptron, pruning, search


def test_perceptron(tmp_path):
    found = perceptron.main(tmp_path / "rtl", epochs=5, samples=10)
    assert found["bit-exact"] == 1
    assert found["float"] > 0.85
    assert abs(found["trained"] - found["float"]) < 0.05
    assert found["interval"] == 64 * 24 / 64


@pytest.mark.slow
def test_pruning(tmp_path):
    found = pruning.main(tmp_path, epochs=3)
    assert found["bit-exact"] == 1
    assert found["parameters left"] < 0.85 * found["parameters"]
    assert found["compressed"] > 0.8


def test_search(tmp_path):
    found = search.main(tmp_path, trials=3, epochs=3)
    assert found["architecture"] > 0.7
    assert found["formats"] > 0.7
    assert 3 <= found["bits"] <= 9
    assert (tmp_path / "formats" / "front_0.toml").exists()


@pytest.mark.slow
def test_bert(tmp_path):
    found = bert.main(tmp_path, samples=256, epochs=1)
    assert found["4 bits, loaded"] == found["4 bits, trained"]
    assert found["8 bits"] > 0.4
    assert (tmp_path / "bert.mase").exists()
