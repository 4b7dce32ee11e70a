"""The tutorial of the hardware stream runs as a script; all run in tests/test_notebooks.py."""

from mase_hw.tutorials import perceptron


def test_perceptron(tmp_path):
    found = perceptron.main(tmp_path / "rtl", epochs=5, samples=10)
    assert found["bit-exact"] == 1
    assert found["float"] > 0.85
    assert abs(found["trained"] - found["float"]) < 0.05
    assert found["interval"] == 64 * 24 / 64
