"""Pretrained models: real weights inside registry packages, hub ids, and local folders."""

from __future__ import annotations

import socket
import urllib.parse
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from mase_hw.data.packaged import PACKAGED_MODELS, packaged_folder
from mase_hw.errors import DataError

CONNECT_SECONDS = 5.0
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


def _from_pretrained(name: str, source: str, gguf_file: str) -> PretrainedModel:
    import transformers

    messages: Any = transformers.utils.logging
    messages.disable_progress_bar()
    options = {"gguf_file": gguf_file} if gguf_file else {}
    # A hub that cannot be reached is asked five times, with pauses; what its cache holds is enough.
    folder = Path(source).is_dir()
    local = folder or not _hub_answers()
    try:
        config = transformers.AutoConfig.from_pretrained(source, local_files_only=local, **options)
        architectures = config.architectures or []
        auto: Any = transformers.AutoModelForCausalLM if gguf_file else transformers.AutoModel
        cls: Any = getattr(transformers, architectures[0], auto) if architectures else auto
        module = cls.from_pretrained(source, local_files_only=local, dtype=torch.float32, **options)
    except (OSError, ValueError, ImportError) as error:
        known = ", ".join(PACKAGED_MODELS)
        message = str(error).strip().splitlines() or [type(error).__name__]
        where = " from its cache, as the hub cannot be reached" if local and not folder else ""
        raise DataError(
            f"model {name!r} could not be loaded{where}: {message[0]} "
            f"(known without a hub: {known})"
        ) from error
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(
            source, local_files_only=local, **options
        )
    except (OSError, ValueError, ImportError):
        tokenizer = None
    return PretrainedModel(name, module.eval(), tokenizer)


def _hub_answers() -> bool:
    """True if the hub, or a proxy that may reach it, can be connected to."""
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return False
    if urllib.request.getproxies():
        return True
    hub = urllib.parse.urlsplit(constants.ENDPOINT)
    address = hub.hostname or "", hub.port or (443 if hub.scheme == "https" else 80)
    try:
        with socket.create_connection(address, CONNECT_SECONDS):
            return True
    except OSError:
        return False
