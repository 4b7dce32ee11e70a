"""The MODEL argument of the commands: a registered or pretrained model, or a factory in a file."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from mase_hw.errors import ConfigError
from mase_hw.models import models
from mase_hw.models.hub import load_pretrained


@dataclass(frozen=True)
class Subject:
    """A model to measure.

    Attributes:
        name: as given.
        module: in evaluation mode, on the device.
        inputs: makes keyword or positional inputs for a batch size and a number of tokens.
        length: tokens per sequence when a call does not say; 0 for a model without tokens.
    """

    name: str
    module: nn.Module
    inputs: Callable[[int, int], Mapping[str, Tensor] | tuple[Tensor, ...]]
    length: int

    def call(
        self, batch: int, module: Callable[..., Any] | None = None, length: int | None = None
    ) -> Callable[[], Tensor]:
        """Return a function that runs `module` (or the subject) on one batch without gradients."""
        inputs = self.inputs(batch, self.length if length is None else length)
        target = self.module if module is None else module

        def run() -> Tensor:
            with torch.no_grad():
                result = target(**inputs) if isinstance(inputs, Mapping) else target(*inputs)
            return first_tensor(result)

        return run


def load_subject(model: str, device: torch.device, length: int = 64) -> Subject:
    """Return the subject that `model` names.

    Args:
        model: a registered model such as `digits-mlp`, `minilm`, `smollm2-135m`, a folder or hub
            id of transformers, or `file.py:factory` where the factory returns
            `(module, example_inputs)` with the batch first.
        device: where the module and its inputs go.
        length: tokens per sequence for language models.

    Raises:
        ConfigError: when the factory cannot be used.
        DataError: when pretrained weights cannot be had.
    """
    path, _, factory = model.partition(":")
    if path.endswith(".py"):
        return _from_factory(model, Path(path), factory, device)
    if model in models():
        trained = models()[model].load()
        return _of_examples(model, trained.module, trained.example_inputs, device)
    pretrained = load_pretrained(model)

    def inputs(batch: int, tokens: int) -> dict[str, Tensor]:
        made = pretrained.inputs(batch, tokens)
        return {name: tensor.to(device) for name, tensor in made.items()}

    return Subject(model, pretrained.module.to(device), inputs, length)


def first_tensor(result: Any) -> Tensor:
    """Return the first tensor of a model's output (logits or last hidden state)."""
    if isinstance(result, Tensor):
        return result
    values = result.values() if isinstance(result, Mapping) else result
    return next(value for value in values if isinstance(value, Tensor))


def _from_factory(model: str, path: Path, factory: str, device: torch.device) -> Subject:
    if not path.is_file() or not factory:
        raise ConfigError(f"model is {model!r}; allowed: file.py:factory with an existing file")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"model {model!r}: {path} is not a Python file")
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    if not hasattr(loaded, factory):
        raise ConfigError(f"model {model!r}: {path} defines no {factory!r}")
    module, examples = getattr(loaded, factory)()
    return _of_examples(model, module, examples, device)


def _of_examples(
    model: str, module: nn.Module, examples: Sequence[Tensor], device: torch.device
) -> Subject:
    def inputs(batch: int, tokens: int) -> tuple[Tensor, ...]:
        return tuple(_with_batch(example, batch).to(device) for example in examples)

    return Subject(model, module.eval().to(device), inputs, 0)


def _with_batch(example: Tensor, batch: int) -> Tensor:
    repeats = -(-batch // example.shape[0])
    return torch.cat([example] * repeats)[:batch]
