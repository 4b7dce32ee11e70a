"""The contract of a registered model: a topology, its data, and how it is trained and quantised."""

from __future__ import annotations

import hashlib
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor, nn

from mase_hw._cache import cache_folder, scratch_folder
from mase_hw._kinds import Table
from mase_hw.data import Split, dataset
from mase_hw.data.by_class import Split as Places

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Trained:
    """A trained model with its data."""

    module: nn.Module
    split: Split

    @property
    def example_inputs(self) -> tuple[Tensor, ...]:
        """One batch of training samples."""
        return (self.split.train_inputs[:64],)


class RegisteredModel(ABC):
    """One model, one file of this folder.

    Attributes:
        name: the word a command uses.
        data: name of its data set.
        config: number formats, as `quantize_transform_pass` takes them.
        parallelism: the default of the hardware.
        epochs: passes over the training samples.
        learning_rate: of Adam (Kingma & Ba 2015, arXiv:1412.6980), annealed to zero.
        batch_size: samples of a step.
    """

    name: ClassVar[str]
    data: ClassVar[str]
    config: ClassVar[Table]
    parallelism: ClassVar[int | str] = 4
    epochs: ClassVar[int] = 40
    learning_rate: ClassVar[float] = 3e-3
    batch_size: ClassVar[int] = 64

    @abstractmethod
    def build(self) -> nn.Module:
        """Return the untrained module; called with a fixed seed."""

    def load(self, progress: Progress | None = None) -> Trained:
        """Return the trained model, from the cache when it was trained before.

        Args:
            progress: called with (epochs done, epochs) while training.
        """
        split = dataset(self.data).load().hold_out()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            module = self.build()
            path = self._weights_path()
            if not _restore(module, path):
                train(module, split, self, progress)
                _write(path, module.state_dict())
        return Trained(module.eval(), split)

    def _weights_path(self) -> Path:
        kinds = [kind for kind in type(self).__mro__ if issubclass(kind, RegisteredModel)]
        sources = [inspect.getsource(kind) for kind in kinds[:-1]]
        sources += [inspect.getsource(item) for item in (train, Places.hold_out)]
        parts = (*sources, torch.__version__)
        key = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
        return cache_folder("models") / f"{self.name}-{key}.safetensors"


def train(
    module: nn.Module, split: Split, recipe: RegisteredModel, progress: Progress | None = None
) -> None:
    """Minimise cross entropy with Adam; the same seed gives the same weights."""
    module.train()
    optimizer = torch.optim.Adam(module.parameters(), recipe.learning_rate)
    steps = recipe.epochs * -(-len(split.train_labels) // recipe.batch_size)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for epoch in range(recipe.epochs):
        for index in torch.split(torch.randperm(len(split.train_labels)), recipe.batch_size):
            optimizer.zero_grad()
            scores = module(split.train_inputs[index])
            loss = nn.functional.cross_entropy(scores, split.train_labels[index])
            torch.autograd.backward(loss)
            optimizer.step()
            schedule.step()
        if progress:
            progress(epoch + 1, recipe.epochs)


def _restore(module: nn.Module, path: Path) -> bool:
    """Give a module the weights of a file; return false where there is none, or a broken one."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        module.load_state_dict(load_file(path))
    except (OSError, SafetensorError, RuntimeError):
        return False
    return True


def _write(path: Path, state: Mapping[str, Tensor]) -> None:
    from safetensors.torch import save_file

    with scratch_folder(path.parent) as scratch:
        made = scratch / path.name
        save_file({key: value.contiguous() for key, value in state.items()}, made)
        made.replace(path)


EIGHT_BITS: Mapping[str, object] = {
    "by": "type",
    "default": {
        "config": {"name": "fixed", "data_in_width": 8, "weight_width": 8, "bias_width": 8}
    },
}
