"""Fetching package files: checked, cached, whole or absent; and models on top of it."""

import sys
import zipfile

import pytest
import torch
import transformers
from huggingface_hub import constants

from mase_hw.data import fetch, packaged
from mase_hw.errors import DataError
from mase_hw.models import hub


@pytest.fixture
def registry(tmp_path, monkeypatch):
    """A client that copies from a folder, and an empty cache."""
    folder = tmp_path / "registry"
    folder.mkdir()
    monkeypatch.setenv("MASE_HW_CACHE", str(tmp_path / "cache"))

    def client(name: str, version: str, source: bool) -> list[str]:
        script = "import shutil, sys; shutil.copy(sys.argv[1], '.')"
        return [sys.executable, "-c", script, str(folder / f"{name}-{version}.whl")]

    monkeypatch.setitem(fetch._CLIENTS, "pypi", client)
    return folder


def test_fetched_once_then_offline(registry):
    original = registry / "thing-1.0.whl"
    original.write_bytes(b"contents")
    sha256 = fetch.file_sha256(original)
    found = fetch.fetch_package("pypi", "thing", "1.0", sha256)
    assert found.read_bytes() == b"contents"
    original.unlink()
    assert fetch.fetch_package("pypi", "thing", "1.0", sha256) == found


def test_damaged_cache_is_fetched_again(registry):
    original = registry / "thing-1.0.whl"
    original.write_bytes(b"contents")
    sha256 = fetch.file_sha256(original)
    fetch.fetch_package("pypi", "thing", "1.0", sha256).write_bytes(b"damaged")
    assert fetch.fetch_package("pypi", "thing", "1.0", sha256).read_bytes() == b"contents"


def test_other_contents_are_refused(registry, tmp_path):
    (registry / "thing-1.0.whl").write_bytes(b"changed")
    with pytest.raises(DataError, match=r"thing-1.0.whl has sha256 .* expected 0000"):
        fetch.fetch_package("pypi", "thing", "1.0", "0" * 64)
    assert not list((tmp_path / "cache" / "packages").rglob("*.whl"))


def test_offline_is_one_clear_error(registry):
    with pytest.raises(DataError, match=r"pypi package thing 1.0 is not cached .*offline\?"):
        fetch.fetch_package("pypi", "thing", "1.0", "0" * 64)


def test_unknown_registry_and_missing_client(registry, monkeypatch):
    with pytest.raises(DataError, match="registry is 'cargo'; allowed: pypi, npm, debian"):
        fetch.fetch_package("cargo", "thing", "1.0", "0" * 64)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(DataError, match="npm is not installed"):
        fetch.fetch_package("npm", "thing", "1.0", "0" * 64)


def test_commands_of_the_clients():
    assert fetch._pip_command("a", "1", True)[-3:] == ["--no-binary", ":all:", "a==1"]
    assert fetch._npm_command("a", "1", False) == ["npm", "pack", "--silent", "a@1"]
    assert fetch._apt_command("a", "1", False) == ["apt-get", "download", "--quiet", "a=1"]


def test_packaged_model_loads(registry, tmp_path, monkeypatch):
    config = transformers.BertConfig(
        vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=16,
    )  # fmt: skip
    model = transformers.BertModel(config)
    model.save_pretrained(tmp_path / "saved")
    wheel = registry / "tiny-1.0.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path in (tmp_path / "saved").iterdir():
            archive.write(path, f"tiny/model/{path.name}")
        archive.writestr("tiny/other.txt", "not part of the model")
    tiny = packaged.PackagedModel(
        "tiny", "1.0", fetch.file_sha256(wheel), "tiny/model", "", "a test"
    )
    monkeypatch.setitem(packaged.PACKAGED_MODELS, "tiny", tiny)
    loaded = hub.load_pretrained("tiny")
    inputs = loaded.inputs(2, 5)
    assert inputs["input_ids"].shape == (2, 5)
    expected = model.eval()(**inputs)[0]
    assert torch.equal(loaded.module(**inputs)[0], expected)
    assert not (packaged.packaged_folder(tiny) / "other.txt").exists()


def test_unknown_model_is_one_clear_error(tmp_path):
    with pytest.raises(DataError, match=r"could not be loaded: .*known without a hub: .*minilm"):
        hub.load_pretrained(str(tmp_path))


def test_a_hub_that_does_not_answer_is_asked_once(monkeypatch, capfd):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr("urllib.request.getproxies", dict)
    with pytest.raises(DataError, match=r"'some/model' .* from its cache, as the hub cannot"):
        hub.load_pretrained("some/model")
    assert "etry" not in "".join(capfd.readouterr())


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "parameters"), [("minilm", 22_713_216), ("smollm2-135m", 134_515_008)]
)
def test_real_weights(name, parameters):
    loaded = hub.load_pretrained(name)
    assert sum(parameter.numel() for parameter in loaded.module.parameters()) == parameters
    inputs = loaded.inputs(2, 16)
    assert inputs["input_ids"].shape == (2, 16)
    with torch.no_grad():
        assert loaded.module(**inputs)[0].isfinite().all()
