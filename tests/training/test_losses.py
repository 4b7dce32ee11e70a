"""A loss is never quantised: it is the loss of the graph's own results, at every size of batch."""

import inspect

import pytest
import torch
from torch import nn
from torch.nn.modules import loss as losses

import mase_hw
from mase_hw.emit.preflight import notes, preflight
from mase_hw.errors import CaptureError, UnsupportedError
from mase_hw.graph import common, trace
from mase_hw.graph.losses import loss_nodes
from mase_hw.training import Trainer
from tests.bench.fidelity_training import CONFIGS, loss_error
from tests.bench.loss_cases import NOT_CAPTURED, TORCH_LOSSES, torch_case, torch_cases
from tests.bench.loss_heads import HEADS, head_cases

HEAD_CASES = {case.name: case for case in head_cases()}
QUICK = ("BertForSequenceClassification", "BertForQuestionAnswering", "T5ForConditionalGeneration")
EIGHT_BITS = CONFIGS["8 bits"]


@pytest.mark.first(5)
@pytest.mark.parametrize("case", list(torch_cases()), ids=lambda case: case.name)
def test_losses_of_torch_are_those_of_the_results(case):
    assert loss_error(case) <= 1e-5


@pytest.mark.first(1)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICK else pytest.mark.full) for name in HEADS]
)
def test_losses_of_transformers_are_those_of_the_results(name):
    assert loss_error(HEAD_CASES[name]) <= 1e-5


def test_every_loss_of_torch_is_tried():
    known = {
        name
        for name, item in vars(losses).items()
        if inspect.isclass(item) and issubclass(item, losses._Loss) and hasattr(nn, name)
    }
    old = {"NLLLoss2d"}
    assert known - old <= TORCH_LOSSES.keys() | NOT_CAPTURED.keys()


@pytest.mark.parametrize("name", NOT_CAPTURED)
def test_what_torch_does_not_export_is_refused_by_line(name):
    case = torch_case(name, name, *NOT_CAPTURED[name])
    with pytest.raises(CaptureError, match=r"loss_cases\.py"):
        trace(case.build(), case.batch(3))


class Autoencoder(nn.Module):
    """Its input is the label, too; other results are nested."""

    def __init__(self, named):
        super().__init__()
        torch.manual_seed(0)
        self.named = named
        self.layers = nn.Sequential(nn.Linear(6, 3), nn.ReLU(), nn.Linear(3, 6))

    def forward(self, x):
        y = self.layers(x)
        loss = nn.functional.mse_loss(y, x)
        return {"loss": loss, "found": y} if self.named else (loss, [y])


@pytest.mark.first(1)
@pytest.mark.parametrize("named", [True, False])
def test_a_loss_reads_inputs_as_they_are_and_has_no_hardware(named, tmp_path):
    x = 3 * torch.randn(20, 6, generator=torch.Generator().manual_seed(0))
    graph = mase_hw.quantize(trace(Autoencoder(named), x))
    found = graph(x[:7])
    loss, y = (found["loss"], found["found"]) if named else (found[0], found[1][0])
    assert torch.allclose(loss, nn.functional.mse_loss(y, x[:7]), rtol=1e-6)
    assert not preflight(graph)
    assert any("loss, which stays in software" in str(note) for note in notes(graph))
    project = mase_hw.emit_verilog(graph, output=tmp_path / "project")
    assert [item.node for item in project.design.inputs] == ["x"]
    assert len(project.design.outputs) == 1
    report = mase_hw.simulate(project, x[:7])
    assert report.bit_exact
    plain = nn.Sequential(*Autoencoder(named).layers)
    alone = mase_hw.quantize(trace(plain, x))
    assert torch.equal(alone(x), graph(x)["found"] if named else graph(x)[1][0])


def test_a_graph_that_returns_its_loss_alone_keeps_its_layers_rounded():
    class Alone(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))

        def forward(self, x, labels):
            return nn.functional.cross_entropy(self.layers(x), labels)

    x, labels = torch.randn(9, 6), torch.arange(9) % 3
    graph = mase_hw.quantize(trace(Alone(), (x, labels)), EIGHT_BITS)
    formats = {
        node.name: common(node).results["data_out_0"].format
        for node in graph.nodes
        if node.op == "call_function"
    }
    assert all(formats[name] is not None for name in ("layers_0", "layers_1", "layers_2"))
    assert [name for name, item in formats.items() if item is not None][-1] == "layers_2"
    with pytest.raises(UnsupportedError, match="returns nothing else: return what it is computed"):
        mase_hw.emit_verilog(graph, output="never")


def test_results_of_one_inference_are_no_losses():
    class Heads(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(6, 3)

        def forward(self, x, bias):
            scores = self.layer(x)
            return {"scores": scores, "shifted": scores - bias, "best": scores.amax(1)}

    example = torch.randn(4, 6), torch.randn(4, 3)
    assert not loss_nodes(mase_hw.quantize(trace(Heads(), example)))
    one = torch.randn(6), torch.randn(3)

    class Sum(nn.Module):
        def forward(self, x, y):
            return 2 * x, (y * y).sum()

    assert not loss_nodes(mase_hw.quantize(trace(Sum(), one)))


def test_training_by_the_graphs_own_loss_is_training_by_its_results():
    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.layers = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))

        def forward(self, x, labels=None):
            scores = self.layers(x)
            if labels is None:
                return scores
            return {"loss": nn.functional.cross_entropy(scores, labels), "logits": scores}

    x = torch.randn(200, 6, generator=torch.Generator().manual_seed(1))
    labels = x[:, :3].argmax(1)
    recipe = Trainer(epochs=3, learning_rate=1e-2, batch_size=50)
    inside = mase_hw.quantize(trace(Classifier(), {"x": x[:3], "labels": labels[:3]}), EIGHT_BITS)
    outside = mase_hw.quantize(trace(Classifier(), x[:3]), EIGHT_BITS)
    batches = [{"x": a, "labels": b} for a, b in zip(x.split(50), labels.split(50), strict=True)]
    histories = recipe.fit(inside, batches), recipe.fit(outside, batches)
    for ours, theirs in zip(*(history.epochs for history in histories), strict=True):
        assert ours.loss == pytest.approx(theirs.loss, rel=1e-5)
    for name, value in outside.named_parameters():
        assert torch.allclose(value, inside.get_parameter(name), atol=1e-6)
