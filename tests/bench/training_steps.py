"""What a fake-quantised training step costs beside float32, and beside other libraries."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from mase_hw.errors import MaseError
from tests.bench.base import Row

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

# Formats whose step compares real values with a fixed grid, and the bar of all others.
GRIDS = ("fixed", "scaled_integer")
GRID_BAR, OTHER_BAR = 1.5, 2.5
QUICK_FORMATS = ("fixed", "mxint", "minifloat_denorm")
BERT_FORMATS = ("fixed", "scaled_integer", "mxint", "minifloat_denorm", "block_fp", "log")
STEPS = 15
# Small enough for a loss that falls in every format, binary networks included.
LEARNING_RATE = 1e-3
SEED = 0


@dataclass(frozen=True)
class Task:
    """A model in float, and a function from a model to the loss of one batch."""

    name: str
    model: Callable[[], nn.Module]
    loss: Callable[[nn.Module], Tensor]


def training_steps(quick: bool) -> Iterator[Row]:
    """Time a compiled step in every format, each beside float32 measured next to it."""
    from mase_hw.formats import formats
    from mase_hw.nn import quantize_layers

    everything = sorted(set(formats()) - {"none"})
    tasks = [(_perceptron(), QUICK_FORMATS if quick else tuple(everything))]
    if not quick:
        tasks.append((_bert_tiny(), BERT_FORMATS))
    for task, names in tasks:
        for name in names:
            ratio, cost = _beside_float(task, quantize_layers(task.model(), name))
            bar = GRID_BAR if name in GRIDS else OTHER_BAR
            yield Row(
                f"{name}: training step of {task.name}",
                f"{ratio:.2f} x float32 ({cost})",
                f"<= {bar} x",
                ratio <= bar,
            )
        for library, convert in LIBRARIES.items():
            what = f"{library}, 8-bit integers: training step of {task.name}"
            if importlib.util.find_spec(library) is None:
                yield Row(what, f"unmeasured: pip install {library}")
                continue
            try:
                ratio, cost = _beside_float(task, convert(task.model()))
            except Exception as error:  # another library's failure is a result, not ours
                yield Row(what, f"fails: {type(error).__name__}: {str(error).splitlines()[0]:.80}")
                continue
            yield Row(what, f"{ratio:.2f} x float32 ({cost})")


def _perceptron() -> Task:
    import torch
    import torch.nn.functional as F
    from torch import nn

    inputs, labels = torch.randn(256, 784), torch.randint(0, 10, (256,))

    def model() -> nn.Module:
        torch.manual_seed(SEED)
        return nn.Sequential(
            nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
        )

    return Task(
        "784-512-512-10, batch 256", model, lambda model: F.cross_entropy(model(inputs), labels)
    )


def _bert_tiny() -> Task:
    """Return BERT-tiny (2 layers, 128 wide, 2 heads: Turc et al. 2019, arXiv:1908.08962)."""
    import torch
    import torch.nn.functional as F
    from transformers import BertConfig, BertForSequenceClassification

    config = BertConfig(
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=512,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    ids, labels = torch.randint(0, config.vocab_size, (16, 64)), torch.randint(0, 2, (16,))

    def model() -> nn.Module:
        torch.manual_seed(SEED)
        built: nn.Module = BertForSequenceClassification(config)
        return built.train()

    return Task(
        "BERT-tiny, batch 16 x 64",
        model,
        lambda model: F.cross_entropy(model(input_ids=ids).logits, labels),
    )


def _beside_float(task: Task, model: nn.Module) -> tuple[float, str]:
    """The step's time over float32's, medians of steps taken in turn, and its milliseconds.

    Of compiled and eager the faster one counts, on both sides; the text has the ratio of eager
    steps, which a trainer takes unless it compiles. Every loss must fall.
    """
    import torch

    from mase_hw.kernels.profile import interleaved

    torch._dynamo.reset()
    steps = {}
    for name, trained in (("float32", task.model()), ("ours", model)):
        loss = partial(task.loss, trained)
        optimizer = torch.optim.SGD(trained.parameters(), LEARNING_RATE)
        steps[name, "compiled"] = _Step(torch.compile(loss), optimizer)
        steps[name, "eager"] = _Step(loss, optimizer)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        times = interleaved(steps, STEPS)
    for (name, _), step in steps.items():
        if not step.losses[-1] < step.losses[0]:
            raise MaseError(
                f"no figure: the loss of {task.name}, {name}, does not fall: {step.losses}"
            )
    plain, seconds = (
        min(timing.median_s for (name, _), timing in times.items() if name == side)
        for side in ("float32", "ours")
    )
    ours, float32 = (times[side, "eager"].median_s for side in ("ours", "float32"))
    return seconds / plain, f"{1e3 * seconds:.1f} ms; eager {ours / float32:.2f} x"


class _Step:
    """A step of training, called; `losses` keeps what each gave."""

    def __init__(self, loss: Callable[[], Tensor], optimizer: torch.optim.Optimizer) -> None:
        self._loss, self._optimizer = loss, optimizer
        self.losses: list[float] = []

    def __call__(self) -> None:
        import torch

        self._optimizer.zero_grad()
        result = self._loss()
        torch.autograd.backward(result)
        self._optimizer.step()
        self.losses.append(float(result.detach()))


def _brevitas(model: nn.Module) -> nn.Module:
    """Return the model with Brevitas' 8-bit per-tensor layers in place of `Linear`."""
    import brevitas.nn as quantized
    from brevitas.quant import Int8ActPerTensorFloat, Int8WeightPerTensorFloat

    def convert(layer: Any) -> nn.Module:
        made: nn.Module = quantized.QuantLinear(
            layer.in_features,
            layer.out_features,
            bias=layer.bias is not None,
            weight_quant=Int8WeightPerTensorFloat,
            input_quant=Int8ActPerTensorFloat,
        )
        made.load_state_dict(layer.state_dict(), strict=False)
        return made

    return _replace_linear(model, convert)


def _replace_linear(model: nn.Module, convert: Callable[[nn.Module], nn.Module]) -> nn.Module:
    from torch import nn

    for name, child in model.named_children():
        replaced = convert(child) if type(child) is nn.Linear else _replace_linear(child, convert)
        setattr(model, name, replaced)
    return model


def _torchao(model: nn.Module) -> nn.Module:
    """Return the model prepared by torchao: 8-bit per-token inputs, per-channel weights."""
    import torch
    from torchao.quantization import quantize_
    from torchao.quantization.qat import IntxFakeQuantizeConfig, QATConfig

    quantize_(
        model,
        QATConfig(
            activation_config=IntxFakeQuantizeConfig(torch.int8, "per_token", is_symmetric=False),
            weight_config=IntxFakeQuantizeConfig(torch.int8, "per_channel"),
            step="prepare",
        ),
    )
    return model


LIBRARIES: dict[str, Callable[[nn.Module], nn.Module]] = {
    "brevitas": _brevitas,
    "torchao": _torchao,
}
