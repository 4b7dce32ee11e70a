"""A small classifier, samples that it was not trained on, and searches of it."""

from itertools import pairwise

import optuna
import torch
from torch import nn

from mase_hw.graph import trace
from mase_hw.search import Samples, search

FIXED = {"name": "fixed", "data_in_width": 8, "weight_width": 8, "bias_width": 8}
INPUTS = torch.randn(120, 6, generator=torch.Generator().manual_seed(0))


def network(*widths):
    torch.manual_seed(0)
    layers = [nn.Linear(a, b) for a, b in pairwise(widths)]
    return nn.Sequential(*(item for layer in layers for item in (layer, nn.ReLU())))[:-1]


def problem(*widths):
    """Return a graph and samples; its accuracy varies with formats."""
    model = network(*(widths or (6, 8, 3)))
    with torch.no_grad():
        labels = model(INPUTS).argmax(dim=1)
    samples = Samples(INPUTS[:90], labels[:90], INPUTS[:30], INPUTS[60:], labels[60:])
    return trace(model, INPUTS[:16], name="tiny"), samples


def by_type(**entry):
    """Return a space of the formats of linear layers."""
    return {"quantize": {"by": "type", "linear": {"config": {**FIXED, **entry}}}}


def run(folder, config=None, widths=(), **options):
    mg, samples = problem(*widths)
    settings = {"trials": 8, "sampler": "random"} | (config or {})
    return search(mg, settings, output=folder, **{"samples": samples, **options})


def study(folder):
    return optuna.load_study(study_name="tiny", storage=f"sqlite:///{folder / 'study.db'}")


def stored(folder):
    return study(folder).get_trials()
