"""Training: a small loop for modules and graphs, on tensors or any iterable of batches."""

from mase_hw.training.batches import Batch, Inputs, each, read_batch, size, take, tensors
from mase_hw.training.history import Epoch, History
from mase_hw.training.loop import (
    EVALUATION_BATCH,
    Trainer,
    accuracy,
    check_samples,
    evaluate,
    loss_of,
)
from mase_hw.training.tasks import TASKS, Metric, Task, counted, scores_of, standard_error, task_of

__all__ = [
    "EVALUATION_BATCH",
    "TASKS",
    "Batch",
    "Epoch",
    "History",
    "Inputs",
    "Metric",
    "Task",
    "Trainer",
    "accuracy",
    "check_samples",
    "counted",
    "each",
    "evaluate",
    "loss_of",
    "read_batch",
    "scores_of",
    "size",
    "standard_error",
    "take",
    "task_of",
    "tensors",
]
