"""Training: a small loop for modules and quantised graphs."""

from mase_hw.training.loop import EVALUATION_BATCH, Trainer, accuracy, check_samples, evaluate

__all__ = ["EVALUATION_BATCH", "Trainer", "accuracy", "check_samples", "evaluate"]
