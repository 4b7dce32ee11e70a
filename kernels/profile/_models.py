"""The MODEL argument of the commands: a registered or pretrained model, or a factory in a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from mase_hw.errors import ConfigError
from mase_hw.models import models
from mase_hw.models.builder import load_factory
from mase_hw.models.hub import load_pretrained
from mase_hw.training import each, tensors


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
        CaptureError: when the factory cannot be used.
        DataError: when pretrained weights cannot be had.
    """
    if model.partition(":")[0].endswith(".py"):
        return _from_factory(model, device)
    if model in models():
        trained = models()[model].load()
        return _of_examples(model, trained.module, trained.example_inputs, device)
    pretrained = load_pretrained(model)

    def inputs(batch: int, tokens: int) -> dict[str, Tensor]:
        inputs = pretrained.inputs(batch, tokens)
        return {name: tensor.to(device) for name, tensor in inputs.items()}

    return Subject(model, pretrained.module.to(device), inputs, length)


def first_tensor(result: Any) -> Tensor:
    """Return the first tensor of a model's output (logits or last hidden state)."""
    if isinstance(result, Tensor):
        return result
    values = result.values() if isinstance(result, Mapping) else result
    return next(value for value in values if isinstance(value, Tensor))


def _from_factory(model: str, device: torch.device) -> Subject:
    pair = load_factory(model)()
    if not isinstance(pair, tuple) or len(pair) != 2 or not isinstance(pair[0], nn.Module):
        raise ConfigError(f"{model} must return (module, example_inputs)")
    return _of_examples(model, *pair, device)


def _of_examples(model: str, module: nn.Module, examples: object, device: torch.device) -> Subject:
    tree = examples if isinstance(examples, Mapping) else tuple(tree_leaves(examples))
    rows = next((len(item) for item in tensors(tree) if item.dim()), 1)

    def inputs(batch: int, tokens: int) -> Mapping[str, Tensor] | tuple[Tensor, ...]:
        batched = each(tree, lambda item: _with_batch(item, rows, batch).to(device))
        return batched if isinstance(batched, Mapping | tuple) else (batched,)

    return Subject(model, module.eval().to(device), inputs, 0)


def _with_batch(example: Tensor, rows: int, batch: int) -> Tensor:
    """Return an example input with another batch; what has no batch is left as it is."""
    if not example.dim() or len(example) != rows:
        return example
    return torch.cat([example] * -(-batch // rows))[:batch]
