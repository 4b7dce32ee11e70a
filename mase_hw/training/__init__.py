"""Training: a small loop for modules and graphs, on tensors or any iterable of batches."""

from mase_hw.training.batches import Batch, read_batch
from mase_hw.training.history import Epoch, History
from mase_hw.training.loop import (
    EVALUATION_BATCH,
    Trainer,
    accuracy,
    check_samples,
    evaluate,
    standard_error,
)
from mase_hw.training.tasks import TASKS, Metric, Task, scores_of

__all__ = [
    "EVALUATION_BATCH",
    "TASKS",
    "Batch",
    "Epoch",
    "History",
    "Metric",
    "Task",
    "Trainer",
    "accuracy",
    "check_samples",
    "evaluate",
    "read_batch",
    "scores_of",
    "standard_error",
]
