"""Training: as the model was meant, on any batches, with a record, keeping the best epoch."""

import math

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.data import Split
from mase_hw.errors import ConfigError, DataError
from mase_hw.graph import trace
from mase_hw.training import Task, Trainer, evaluate
from mase_hw.training.hugging_face import TransformersTrainer
from mase_hw.training.tasks import ACCURACY

SIX_BITS = {
    "by": "type",
    "default": {
        "config": {"name": "fixed", "data_in_width": 6, "weight_width": 6, "bias_width": 6}
    },
}


def network(dropout=0.5):
    torch.manual_seed(0)
    return nn.Sequential(
        nn.BatchNorm1d(6), nn.Linear(6, 32), nn.Dropout(dropout), nn.ReLU(), nn.Linear(32, 3)
    )


def samples(count=90):
    labels = torch.arange(count) % 3
    generator = torch.Generator().manual_seed(1)
    noise = torch.randn(count, 6, generator=generator)
    return nn.functional.one_hot(labels, 6) + 0.4 * noise + 1.0, labels


def graph(quantized):
    mg = trace(network(), samples()[0])
    return mase_hw.quantize(mg, SIX_BITS) if quantized else mg


@pytest.mark.parametrize("quantized", [False, True])
def test_dropout_drops_and_statistics_move_only_in_training_mode(quantized):
    mg, (inputs, _) = graph(quantized), samples()
    mean = mg.get_buffer("0.running_mean").clone()
    assert torch.equal(mg(inputs), mg(inputs))
    assert torch.equal(mg.get_buffer("0.running_mean"), mean)
    mg.train()
    assert not torch.equal(mg(inputs), mg(inputs))
    assert not torch.equal(mg.get_buffer("0.running_mean"), mean)
    mg.eval()
    assert torch.equal(mg(inputs), mg(inputs))


@pytest.mark.parametrize("quantized", [False, True])
def test_what_is_frozen_stays_as_captured(quantized):
    mg, (inputs, _) = graph(quantized), samples()
    expected, mean = mg(inputs), mg.get_buffer("0.running_mean").clone()
    mg.freeze("batch_norm", "dropout").train()
    assert torch.equal(mg(inputs), expected)
    assert torch.equal(mg.get_buffer("0.running_mean"), mean)
    assert mg.copy().frozen == {"batch_norm", "dropout"}
    with pytest.raises(ConfigError, match="no node and no operator 'batchnorm'"):
        mg.freeze("batchnorm")


@pytest.mark.parametrize("shape", [(12, 6), (12, 6, 5)])
def test_training_statistics_are_those_of_torch(shape):
    """The captured float graph bit for bit; the operator that rounds, up to rounding of floats."""
    model = network(dropout=0.0)[:1] if len(shape) == 2 else nn.Sequential(nn.BatchNorm1d(6))
    model = nn.Sequential(*model, nn.ReLU())
    inputs = torch.randn(shape, generator=torch.Generator().manual_seed(4)) * 2 + 1
    mg = trace(model, inputs).train()
    rounds = {"name": "fixed", "data_in_width": 24, "data_in_frac_width": 18}
    rounds |= {"weight_width": 24, "weight_frac_width": 18}
    rounds |= {"bias_width": 24, "bias_frac_width": 18}
    rounding = mase_hw.quantize(trace(model, inputs), {"by": "type", "default": {"config": rounds}})
    rounding.train()
    model.train()
    wanted = model(inputs)
    assert torch.equal(mg(inputs), wanted)
    assert torch.equal(mg.get_buffer("0.running_var"), model[0].running_var)
    assert torch.allclose(rounding(inputs), wanted, atol=1e-4)
    # Float32 sums in another order.
    for name in ("running_mean", "running_var"):
        found, expected = rounding.get_buffer(f"0.{name}"), getattr(model[0], name)
        assert torch.allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_a_captured_graph_trains_as_its_model_does():
    inputs, labels = samples()
    model = network(dropout=0.0)
    mg = trace(model, inputs)
    recipe = Trainer(epochs=3, learning_rate=1e-2, batch_size=16)
    ours, theirs = recipe.fit(mg, inputs, labels), recipe.fit(model, inputs, labels)
    assert ours == theirs
    for name, value in mg.state_dict().items():
        assert torch.equal(value, model.state_dict()[name]), name


@pytest.mark.full
def test_dropout_of_training_needs_no_hardware(tmp_path):
    project = mase_hw.emit_verilog(graph(quantized=True), output=tmp_path / "project")
    assert not any("dropout" in str(node.target) for node in project.mg.nodes)


@pytest.mark.first(1)
@pytest.mark.parametrize("trainer", [Trainer, TransformersTrainer])
def test_every_epoch_is_recorded_and_the_best_is_kept(trainer, tmp_path):
    inputs, labels = samples()
    held = samples(30)
    model = network()
    model[0].eval()
    # A rate so high that training comes and goes.
    recipe = trainer(epochs=6, learning_rate=0.3, batch_size=16)
    history = recipe.fit(model, inputs, labels, held)
    assert [epoch.number for epoch in history.epochs] == [1, 2, 3, 4, 5, 6]
    assert all(math.isfinite(epoch.loss) for epoch in history.epochs)
    metrics = [epoch.metric for epoch in history.epochs]
    assert history.best == 1 + metrics.index(max(metrics))
    assert evaluate(model, *held) == max(metrics)
    rows = history.save(tmp_path / "history.csv").read_text().splitlines()
    assert rows[0] == "epoch,loss,validation_loss,validation_accuracy,kept"
    assert rows[history.best].endswith("True")
    for file in history.draw(tmp_path / "history"):
        assert file.stat().st_size > 1000


def test_modes_are_restored_part_by_part():
    model = network()
    model.train()
    model[0].eval()
    inputs, labels = samples()
    Trainer(epochs=1).fit(model, inputs, labels)
    evaluate(model, inputs, labels)
    assert [part.training for part in model] == [False, True, True, True, True]


def test_training_leaves_the_random_numbers_of_others_alone():
    mg = graph(quantized=False)
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    Trainer(epochs=1).fit(mg, *samples())
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.full
def test_stopped_training_goes_on_to_the_same_weights_and_record(tmp_path):
    inputs, labels = samples()
    held = samples(30)

    class StopError(Exception):
        pass

    def stop(epoch, _):
        if epoch == 2:
            raise StopError

    recipe = {"epochs": 4, "learning_rate": 0.1, "batch_size": 16}
    whole = network()
    history = Trainer(**recipe).fit(whole, inputs, labels, held)
    path = tmp_path / "state.pt"
    with pytest.raises(StopError):
        Trainer(**recipe, checkpoint=path, progress=stop).fit(network(), inputs, labels, held)
    again = network()
    found = Trainer(**recipe, checkpoint=path).fit(again, inputs, labels, held)
    assert found == history
    for name, value in again.state_dict().items():
        assert torch.equal(value, whole.state_dict()[name])


@pytest.mark.parametrize("kind", ["pairs", "dictionaries", "loader", "arrays"])
def test_any_iterable_of_batches_trains(kind):
    inputs, labels = samples()
    parts = list(zip(inputs.split(15), labels.split(15), strict=True))
    data = {
        "pairs": parts,
        "dictionaries": [{"input": x, "labels": y} for x, y in parts],
        "loader": torch.utils.data.DataLoader(
            torch.utils.data.TensorDataset(inputs, labels), batch_size=15
        ),
        "arrays": [(x.numpy(), y.tolist()) for x, y in parts],
    }[kind]
    found, wanted = network(dropout=0.0), network(dropout=0.0)
    history = Trainer(epochs=2, learning_rate=1e-2).fit(found, data, validation=data)
    expected = Trainer(epochs=2, learning_rate=1e-2).fit(wanted, parts, validation=parts)
    assert history == expected
    assert evaluate(found, data) == evaluate(wanted, inputs, labels)
    assert evaluate(found, data) > 0.6


def test_a_models_own_loss_trains_it():
    class OwnLoss(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = network()

        def forward(self, x, labels=None):
            scores = self.layers(x)
            found = {"logits": scores}
            if labels is not None:
                found["loss"] = 3 * nn.functional.cross_entropy(scores, labels)
            return found

    inputs, labels = samples()
    batches = [{"x": inputs, "labels": labels}]
    mg = trace(OwnLoss(), batches[0])
    history = Trainer(epochs=1, learning_rate=1e-9).fit(mg, batches)
    assert history.epochs[0].loss > 3.0
    assert 0 <= evaluate(mg, batches) <= 1


def test_tasks_have_their_losses_and_metrics():
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(200, 4, generator=generator)
    wanted = inputs @ torch.tensor([1.0, -2.0, 0.5, 0.0])
    model = nn.Linear(4, 1)
    history = Trainer(
        epochs=30, learning_rate=0.1, batch_size=50, task="regression"
    ).fit(model, inputs, wanted, (inputs, wanted))  # fmt: skip
    assert history.metric == "mean_squared_error"
    assert evaluate(model, inputs, wanted, "mean_squared_error") < 1e-3
    assert history.best == 30

    class Constant(nn.Module):
        def __init__(self):
            super().__init__()
            self.scores = nn.Parameter(torch.log(torch.tensor([0.5, 0.25, 0.25])))

        def forward(self, ids):
            return self.scores.expand(*ids.shape, 3)

    ids = torch.tensor([[0, 0, 0, 1, 2]])
    surprise = -(2 * math.log(0.5) + 2 * math.log(0.25)) / 4
    found = evaluate(Constant(), [(ids, ids)], metric="perplexity")
    assert found == pytest.approx(math.exp(surprise))
    ignored = torch.tensor([[0, 0, 0, -100, -100]])
    assert evaluate(Constant(), [(ids, ignored)], metric="perplexity") == pytest.approx(2.0)


def test_a_loss_and_a_metric_of_ones_own():
    inputs, labels = samples()
    model = network()
    seen = []

    def hinge(scores, wanted):
        seen.append(len(wanted))
        return nn.functional.multi_margin_loss(scores, wanted)

    task = Task("margin", hinge, ACCURACY)
    Trainer(epochs=20, learning_rate=1e-2, task=task).fit(model, inputs, labels)
    assert sum(seen) == 20 * len(labels)

    def worst_class(scores, wanted):
        right = scores.argmax(dim=1) == wanted
        return min(float(right[wanted == label].double().mean()) for label in range(3))

    assert 0.5 < evaluate(model, inputs, labels, worst_class) <= evaluate(model, inputs, labels)


def test_bad_data_is_named():
    inputs, labels = samples()
    with pytest.raises(DataError, match="the data set is empty; give at least one batch"):
        Trainer().fit(network(), [])
    with pytest.raises(DataError, match="label 7 is outside the classes 0 to 2"):
        Trainer().fit(network(), [(inputs, labels + 5)])
    with pytest.raises(DataError, match=r"samples of shape \(4,\) do not fit"):
        Trainer().fit(network(), [(inputs[:, :4], labels)])
    with pytest.raises(DataError, match="a batch is a str"):
        Trainer().fit(network(), ["ab"])
    with pytest.raises(DataError, match="starts anew each time"):
        Trainer().fit(network(), iter([(inputs, labels)]))
    with pytest.raises(DataError, match="shame is not a number"):

        def shame(scores, wanted):
            return math.nan

        evaluate(network(), inputs, labels, shame)
    with pytest.raises(ConfigError, match="no task 'regresion'"):
        Trainer(task="regresion")


def test_numbers_that_name_nothing_are_found_in_any_batch():
    torch.manual_seed(0)
    inputs, labels = samples()
    wrong = torch.where(torch.arange(len(labels)) == 3, 7, labels)
    with pytest.raises(DataError, match=r"outside the classes .*labels from 0 to 7"):
        Trainer().fit(network(), [(inputs, labels), (inputs, wrong)])
    words = nn.Sequential(nn.Embedding(10, 4), nn.Flatten(), nn.Linear(8, 2))
    ids, found = torch.tensor([[1, 2], [3, 30]]), torch.tensor([0, 1])
    good = torch.tensor([[1, 2], [3, 4]])
    for run in (
        lambda: Trainer().fit(words, [(ids, found)]),
        lambda: Trainer().fit(words, [(good, found), (ids, found)]),
        lambda: evaluate(words, [(good, found), (ids, found)]),
    ):
        with pytest.raises(DataError, match=r"a token that the model does not have .*from 1 to 30"):
            run()


def test_a_batch_that_the_model_fixes_is_told():
    class Fixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.rows = nn.Linear(6, 3), nn.Parameter(torch.randn(4, 3))

        def forward(self, x):
            return self.layer(x) + self.rows

    torch.manual_seed(0)
    mg = trace(Fixed(), torch.randn(4, 6))
    inputs, labels = torch.randn(8, 6), torch.randint(0, 3, (8,))
    assert len(Trainer(epochs=1, batch_size=4).fit(mg, inputs, labels).epochs) == 1
    with pytest.raises(DataError, match="its code fixes the batch: give batches of 4 samples"):
        Trainer(epochs=1).fit(mg, [(inputs[:5], labels[:5])])


def test_a_compression_keeps_dropout_and_draws_its_epochs(tmp_path):
    inputs, labels = samples()
    split = Split(inputs, labels, inputs, labels).hold_out()
    steps = [
        {"pass": "quantize", "config": SIX_BITS},
        {"pass": "train", "epochs": 2, "batch_size": 16},
        {"pass": "train", "epochs": 2, "batch_size": 16, "freeze": ["dropout"]},
    ]
    mg = trace(network(), inputs)
    result = mase_hw.compress(mg, {"steps": steps}, split, output=tmp_path)
    assert any("dropout" in str(node.target) for node in result.mg.nodes)
    for number in (2, 3):
        table = (tmp_path / f"epochs_{number:02d}.csv").read_text().splitlines()
        assert len(table) == 3
        assert (tmp_path / f"epochs_{number:02d}.svg").exists()
        best = result.rows[number]["best_epoch"]
        assert table[best].endswith("True")
        assert result.rows[number]["loss"] == float(table[best].split(",")[1])
    with pytest.raises(ConfigError, match="no node and no operator 'drop'"):
        steps[1]["freeze"] = ["drop"]
        mase_hw.compress(mg, {"steps": steps}, split)
