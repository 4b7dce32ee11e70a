"""Training by the `Trainer` of transformers: the same samples and module, its loop."""

from __future__ import annotations

import logging
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.utils.data import default_collate

from mase_hw._kinds import Setting
from mase_hw.errors import ConfigError
from mase_hw.training.batches import Batch
from mase_hw.training.history import Epoch, History
from mase_hw.training.inputs import Inputs, take
from mase_hw.training.loop import Progress, Recipe, check_samples, evaluate, loss_of, mean_loss
from mase_hw.training.tasks import Task, task_of


class _WithLoss(nn.Module):
    """A model as that loop calls it: inputs and labels to the loss."""

    def __init__(self, module: nn.Module, task: Task) -> None:
        super().__init__()
        self.module, self._task = module, task

    def forward(self, inputs: Any, labels: Tensor) -> dict[str, Tensor]:
        given = tuple(inputs) if isinstance(inputs, list) else inputs
        return {"loss": loss_of(self.module, Batch.of(given, labels), self._task)}


@dataclass(frozen=True)
class TransformersTrainer(Recipe):
    """AdamW with a linearly falling rate, as transformers does it by default.

    It takes what `mase_hw.training.Trainer` takes, and trains in place likewise.
    """

    epochs: int = 3
    learning_rate: float = 5e-5
    batch_size: int = 32

    def fit(
        self,
        module: nn.Module,
        inputs: Inputs,
        labels: Tensor,
        validation: tuple[Inputs, Tensor] | None = None,
    ) -> History:
        """Train the parameters of `module` in place, in training mode; its mode is restored.

        Args:
            module: takes a batch of inputs, returns scores `[samples, classes]`.
            inputs: `[samples, ...]`, several as a tuple or by name.
            labels: `[samples, ...]`, int64 to classify.
            validation: inputs and labels; the weights of the epoch best on them are kept.

        Raises:
            DataError: for an empty data set, or a label outside the classes.
        """
        check_samples(module, inputs, labels, self.task)
        if not any(item.requires_grad for item in module.parameters()):
            raise ConfigError("training: the model has no parameter that trains")
        if self.epochs == 0:
            return History()
        before = module.training
        with tempfile.TemporaryDirectory(prefix="mase-hw-trainer-") as scratch:
            folder = Path(scratch) if self.checkpoint is None else self.checkpoint.with_suffix("")
            watch = _Watch(module, validation, task_of(self.task), self.progress, self.epochs)
            losses = self._run(module, inputs, labels, folder, watch)
        module.train(before)
        return watch.keep_best(losses)

    def _run(
        self, module: nn.Module, inputs: Inputs, labels: Tensor, folder: Path, watch: _Watch
    ) -> list[float]:
        """Train, and return the loss of every epoch."""
        import transformers

        options = transformers.TrainingArguments(
            output_dir=str(folder),
            num_train_epochs=self.epochs,
            learning_rate=self.learning_rate,
            per_device_train_batch_size=self.batch_size,
            seed=self.seed,
            data_seed=self.seed,
            save_strategy="no" if self.checkpoint is None else "epoch",
            save_total_limit=1,
            logging_strategy="epoch",
            report_to=[],
            disable_tqdm=True,
            remove_unused_columns=False,
            dataloader_pin_memory=False,
        )
        trainer = transformers.Trainer(
            model=_WithLoss(module, task_of(self.task)),
            args=options,
            train_dataset=_Samples(inputs, labels),
            data_collator=default_collate,
            callbacks=[_callback(watch)],
        )
        trainer.remove_callback(transformers.PrinterCallback)
        find_last: Any = transformers.trainer_utils.get_last_checkpoint
        last = find_last(str(folder))
        logging.getLogger("transformers").setLevel(logging.ERROR)
        trainer.train(resume_from_checkpoint=last)
        return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


class _Samples:
    """A data set as that loop reads it."""

    def __init__(self, inputs: Inputs, labels: Tensor) -> None:
        self._inputs, self._labels = inputs, labels

    def __len__(self) -> int:
        return len(self._labels)

    def __getitem__(self, index: int) -> dict[str, object]:
        return {"inputs": take(self._inputs, index), "labels": self._labels[index]}


class _Watch:
    """What is looked at after every epoch."""

    def __init__(
        self,
        module: nn.Module,
        validation: tuple[Inputs, Tensor] | None,
        task: Task,
        progress: Progress | None,
        epochs: int,
    ) -> None:
        self._module, self._validation, self._task = module, validation, task
        self._metric = task.metric
        self._losses: dict[int, float] = {}
        self._progress, self._total = progress, epochs
        self._metrics: dict[int, float] = {}
        self._best: dict[str, Tensor] = {}

    def finish(self, epoch: int) -> None:
        """Measure an epoch, and keep its weights where they are the best so far."""
        if self._validation is not None:
            metric = evaluate(self._module, *self._validation, metric=self._metric)
            sign = 1.0 if self._metric.direction == "maximize" else -1.0
            if all(sign * metric > sign * item for item in self._metrics.values()):
                state = self._module.state_dict()
                self._best = {key: value.detach().clone() for key, value in state.items()}
            self._metrics[epoch] = metric
            self._losses[epoch] = mean_loss(self._module, *self._validation, self._task)
        if self._progress:
            self._progress(epoch, self._total)

    def keep_best(self, losses: list[float]) -> History:
        """Give the module the weights of its best epoch; return what was recorded."""
        epochs = [
            Epoch(number, loss, self._metrics.get(number), self._losses.get(number))
            for number, loss in enumerate(losses, 1)
        ]
        if not self._best:
            return History(epochs, self._metric.name)
        self._module.load_state_dict(self._best)
        pick = max if self._metric.direction == "maximize" else min
        best = pick(self._metrics, key=lambda item: self._metrics[item])
        return History(epochs, self._metric.name, best)


def _callback(watch: _Watch) -> Any:
    import transformers

    class Advance(transformers.TrainerCallback):
        """Looks at every epoch."""

        def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Setting) -> None:
            """Keep the weights of the epoch if they are the best so far."""
            watch.finish(round(state.epoch))

    return Advance()
