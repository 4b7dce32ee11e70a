"""Training by the `Trainer` of transformers: the same samples and module, its loop."""

from __future__ import annotations

import logging
import math
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.utils.data import default_collate

from mase_hw._kinds import Setting
from mase_hw.errors import ConfigError
from mase_hw.training.batches import Batch, Inputs, take
from mase_hw.training.history import Epoch, History
from mase_hw.training.loop import Progress, Progressed, Recipe, check_samples, loss_of
from mase_hw.training.tasks import Task, task_of


class _WithLoss(nn.Module):
    """A model as that loop calls it: inputs and labels to the loss."""

    def __init__(self, module: nn.Module, task: Task) -> None:
        super().__init__()
        self.module, self._task = module, task

    def forward(self, inputs: Any, labels: Tensor) -> dict[str, Tensor]:
        args = tuple(inputs) if isinstance(inputs, list) else inputs
        return {"loss": loss_of(self.module, Batch.of(args, labels), self._task)}


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
        state = Progressed(module, task_of(self.task), validation)
        with tempfile.TemporaryDirectory(prefix="mase-hw-trainer-") as scratch:
            folder = Path(scratch) if self.checkpoint is None else self.checkpoint.with_suffix("")
            losses = self._run(module, inputs, labels, folder, state)
        module.train(before)
        measured = {epoch.number: epoch for epoch in state.epochs}
        state.epochs = [
            replace(measured.get(number, Epoch(number, loss)), loss=loss)
            for number, loss in enumerate(losses, 1)
        ]
        return state.keep_best()

    def _run(
        self, module: nn.Module, inputs: Inputs, labels: Tensor, folder: Path, state: Progressed
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
            callbacks=[_callback(state, self.progress, self.epochs)],
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


def _callback(progressed: Progressed, progress: Progress | None, epochs: int) -> Any:
    import transformers

    class Advance(transformers.TrainerCallback):
        """Validates every epoch, whose loss is told later."""

        def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Setting) -> None:
            """Keep the weights of the epoch if they are the best so far."""
            progressed.finish(round(state.epoch), math.nan)
            if progress:
                progress(round(state.epoch), epochs)

    return Advance()
