"""Training: a small loop for modules and quantised graphs."""

from mase_hw.training.loop import (
    EVALUATION_BATCH,
    Trainer,
    accuracy,
    check_samples,
    evaluate,
    standard_error,
)

__all__ = [
    "EVALUATION_BATCH",
    "Trainer",
    "accuracy",
    "check_samples",
    "evaluate",
    "standard_error",
]
