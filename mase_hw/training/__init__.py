"""Training: a small loop for modules and quantised graphs."""

from mase_hw.training.loop import Trainer, accuracy, check_samples, evaluate

__all__ = ["Trainer", "accuracy", "check_samples", "evaluate"]
