"""The software half: capture of transformers, training in formats, methods for large models."""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from mase_hw.errors import ConfigError, MaseError
from mase_hw.registry import nearest
from tests.bench.architectures import ARCHITECTURES, model_and_inputs
from tests.bench.base import Benchmark, Row
from tests.bench.killed import killed_rows
from tests.bench.random_spaces import random_space_rows
from tests.bench.workflow import MODELS, workflow_rows

if TYPE_CHECKING:
    from torch import Tensor

QUICK_ARCHITECTURES = (
    "BertForSequenceClassification",
    "LlamaForCausalLM",
    "ResNetForImageClassification",
)
QUICK_FORMATS = ("fixed", "mxint")
SPACES, QUICK_SPACES = 200, 8
# What only a whole run measures, or one that names it.
LONG = ("reviews", "language-model")
ODD_SHAPES = ((5, 45), (7,), (3, 33, 17))
TOLERANCE = 1e-5
SEED = 0


Measure = Callable[[bool], Iterable[Row]]


class Software(Benchmark):
    """Architectures, workflows, searches, formats, long reviews, a language model in few bits."""

    name: ClassVar[str] = "software"
    title: ClassVar[str] = "models of transformers, training and compression"

    def __init__(self, names: Sequence[str] = ()) -> None:
        self.names = names

    def only(self, names: Sequence[str]) -> Software:
        """Return the benchmark with some figures alone."""
        for name in names:
            if name not in PARTS:
                raise ConfigError(
                    f"no figure of software is called {name!r}; {nearest(name, PARTS)}"
                )
        return Software(names)

    def rows(self, *, quick: bool = False) -> Iterator[Row]:
        """Yield the figures; `quick` leaves out what trains or takes a language model."""
        import torch

        torch.set_num_threads(1)
        for name in self.names or [name for name in PARTS if name not in LONG or not quick]:
            torch.manual_seed(SEED)
            yield from PARTS[name](quick)


def architectures(names: tuple[str, ...]) -> Iterator[Row]:
    """Count the architectures that are captured, equal, and free in their batch.

    Each is captured with fused and with eager attention, from its natural inputs.
    """
    counts = dict.fromkeys(CHECKS, 0)
    for name in names:
        passed = [_checks(name, attention) for attention in ("sdpa", "eager")]
        for check in CHECKS:
            counts[check] += all(check in found for found in passed)
    for check in CHECKS:
        bar = round(46 / 48 * len(names))
        yield Row(
            f"architectures of transformers: {check}",
            f"{counts[check]} of {len(names)}",
            f">= {bar}",
            counts[check] >= bar,
        )


CHECKS = ("captured, results equal", "loss and gradients equal", "batch free", "unquantized equal")


def _checks(name: str, attention: str) -> set[str]:
    """Return which checks a tiny model passes."""
    import torch

    from mase_hw.emit.flow import quantize
    from mase_hw.graph import trace
    from mase_hw.passes.configuration import FLOAT

    model, inputs = model_and_inputs(name, attention)
    passed = set()
    try:
        mg = trace(model, inputs)
        with torch.no_grad():
            expected = _tensors(model(**inputs))
            if _equal(_tensors(mg(**inputs)), expected):
                passed.add(CHECKS[0])
            if _equal(_tensors(quantize(mg, FLOAT)(**inputs)), expected):
                passed.add(CHECKS[3])
            if mg.batched:
                more = {key: torch.cat([item, item[:1]]) for key, item in inputs.items()}
                if _equal(_tensors(mg(**more)), _tensors(model(**more))):
                    passed.add(CHECKS[2])
        if _gradients_equal(model, inputs):
            passed.add(CHECKS[1])
    except MaseError:
        pass
    return passed


def _gradients_equal(model: Any, inputs: dict[str, Tensor]) -> bool:
    """Return whether loss and gradients of a graph with labels are the module's.

    A model without labels has the mean square of its results for a loss.
    """
    import inspect

    import torch

    from mase_hw.graph import trace

    given = dict(inputs)
    if "labels" in inspect.signature(model.forward).parameters:
        given["labels"] = _labels(model, inputs)
    mg = trace(model, given)
    losses = []
    for module in (model, mg):
        module.zero_grad()
        results = _tensors(module(**given))
        scalars = [item for item in results if item.dim() == 0]
        loss = scalars[0] if scalars else torch.stack([x.square().mean() for x in results]).sum()
        loss.backward()  # type: ignore[no-untyped-call]
        losses.append(loss.detach())
    own, found = (dict(module.named_parameters()) for module in (model, mg))
    gradients = [(own[key].grad, found[key].grad) for key in found]
    pairs = [(left, right) for left, right in gradients if left is not None and right is not None]
    if not pairs or len(pairs) != sum(item.grad is not None for item in own.values()):
        return False
    # All as one: some of them, as of a bias of keys, are zero but for rounding.
    left, right = (
        torch.cat([item.flatten() for item in side]) for side in zip(*pairs, strict=True)
    )
    return _equal([losses[0], left], [losses[1], right])


def _labels(model: Any, inputs: dict[str, Tensor]) -> Tensor:
    import torch

    if type(model).__name__.endswith("Classification"):
        return torch.arange(2) % int(model.config.num_labels)
    ids = inputs.get("decoder_input_ids", inputs.get("input_ids"))
    assert ids is not None
    return ids.clone()


def _tensors(outputs: Any) -> list[Tensor]:
    from torch import Tensor
    from torch.utils._pytree import tree_leaves

    from mase_hw.graph._given import plain

    return [leaf for leaf in tree_leaves(plain(outputs)) if isinstance(leaf, Tensor)]


def _equal(found: list[Tensor], expected: list[Tensor]) -> bool:
    """Return whether tensors are equal but for the order of sums, by each one's largest element."""
    return len(found) == len(expected) and all(
        left.shape == right.shape
        and (
            left.numel() == 0
            or float((left - right).abs().max()) <= TOLERANCE * float(right.abs().max())
        )
        for left, right in zip(found, expected, strict=True)
    )


def compiled_formats(quick: bool) -> Row:
    """Count the formats whose compiled rounding and gradient are eager's, bit for bit."""
    import torch

    from mase_hw.formats import formats

    names = QUICK_FORMATS if quick else tuple(sorted(formats()))
    equal = 0
    for name in names:
        number = formats()[name]()
        same = True
        for shape in ODD_SHAPES:
            values = torch.randn(shape) * 3
            eager, compiled = (values.clone().requires_grad_() for _ in range(2))
            torch._dynamo.reset()
            expected = number.fake_quantize(eager)
            found = torch.compile(number.fake_quantize, fullgraph=True)(compiled)
            for result in (expected, found):
                result.square().sum().backward()  # type: ignore[no-untyped-call]
            assert eager.grad is not None
            assert compiled.grad is not None
            same &= torch.equal(found, expected) and torch.equal(compiled.grad, eager.grad)
        equal += same
    return Row(
        "formats whose compiled rounding and gradient are exact, odd sizes",
        f"{equal} of {len(names)}",
        f"{len(names)}",
        equal == len(names),
    )


def long_reviews() -> Iterator[Row]:
    """Fine-tune BERT-tiny on whole reviews with masks; round it; train it rounded."""
    import copy

    from mase_hw.data import dataset
    from mase_hw.emit.flow import quantize
    from mase_hw.graph import trace
    from mase_hw.models import models
    from mase_hw.training import Trainer, evaluate, standard_error

    split = dataset("reviews").load().hold_out()
    held = split.validation_inputs, split.validation_labels
    module = models()["bert-tiny"].build()
    Trainer(epochs=4, learning_rate=3e-4).fit(
        module, split.train_inputs, split.train_labels, validation=held
    )
    mg = trace(module.eval(), split.train_inputs[:2], name="reviews")
    data = [split.train_inputs[:64]]

    def score(graph: object) -> float:
        return evaluate(graph, split.test_inputs, split.test_labels)

    exact = score(mg)
    error = standard_error(exact, len(split.test_labels))
    yield Row(
        "bert-tiny on reviews of 256 tokens, float", f"{100 * exact:.1f} ± {100 * error:.1f} %"
    )
    for bits, trained, bar in ((8, False, 1.0), (4, True, 3.0)):
        entry = {"name": "fixed", "bias_width": 8}
        entry |= {f"{operand}_width": bits for operand in ("data_in", "weight")}
        graph = quantize(mg, {"by": "type", "linear": {"config": entry}}, data=data)
        if trained:
            graph = copy.deepcopy(graph)
            Trainer(epochs=2, learning_rate=3e-4).fit(
                graph, split.train_inputs, split.train_labels, validation=held
            )
            graph.eval()
        found = score(graph)
        how = "trained" if trained else "calibrated"
        yield Row(
            f"bert-tiny on reviews, {bits}-bit fixed point, {how}",
            f"{100 * found:.1f} %",
            f"within {bar:g} points",
            100 * (exact - found) <= bar,
        )


def language_model() -> Iterator[Row]:
    """Round SmolLM2-135M's weights to few bits, to nearest and by GPTQ."""
    from mase_hw.experiments.perplexity import NEAREST, Scope, measure

    runs = [(name, method) for name in ("mxint 3", "mxint 4") for method in (NEAREST, "gptq")]
    moments = []
    with tempfile.TemporaryDirectory(prefix="mase-hw-bench-") as folder:
        outcome = measure(
            Path(folder), Scope(runs, 8, 128, 32), lambda *_: moments.append(time.perf_counter())
        )
    # The first moment is that of the model as it is.
    taken = [end - start for start, end in pairwise(moments)]
    for name, method, _, perplexity, error, closed in outcome.rows:
        row = f"smollm2-135m, {name}, {method}: perplexity, 8 x 128 tokens"
        if not closed:
            yield Row(row, f"{perplexity:.2f} ± {error:.2f}")
            continue
        share = float(str(closed).split()[0])
        measured = f"{perplexity:.2f} ± {error:.2f}, closes {closed} % of the gap"
        yield Row(row, measured, ">= 50 %", share >= 50)
    slower = max(item for item, (_, method) in zip(taken, runs, strict=True) if method == "gptq")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    yield Row(
        "GPTQ of smollm2-135m with its evaluation, the slower of two",
        f"{slower / 60:.1f} min, {peak:.1f} GiB",
        "<= 30 min, <= 8 GiB",
        slower < 30 * 60 and peak <= 8,
    )


PARTS: Mapping[str, Measure] = {
    "architectures": lambda quick: architectures(
        QUICK_ARCHITECTURES if quick else tuple(ARCHITECTURES)
    ),
    "workflow": lambda quick: workflow_rows(MODELS[:1] if quick else MODELS),
    "spaces": lambda quick: random_space_rows(QUICK_SPACES if quick else SPACES),
    "killed": lambda quick: killed_rows(),
    "compiled": lambda quick: [compiled_formats(quick)],
    "reviews": lambda quick: long_reviews(),
    "language-model": lambda quick: language_model(),
}
