"""Figures of formats are of samples that no choice depends on, and say how sure they are."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import mase_hw
from mase_hw.data import Split
from mase_hw.emit.flow import canonicalize
from mase_hw.errors import ConfigError, DataError
from mase_hw.graph.agreement import closeness
from mase_hw.precision import Fitted, fit_formats
from mase_hw.precision.figures import Judge, of_loss, of_share, resolved_share, samples_for
from mase_hw.precision.report import head, to_dict, write
from mase_hw.precision.samples import Samples


def net(inputs: int = 8, outputs: int = 3) -> nn.Module:
    torch.manual_seed(0)
    layers = nn.Linear(inputs, 8), nn.ReLU(), nn.Linear(8, outputs)
    return nn.Sequential(*layers).eval()


def drawn(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def files(found: Fitted, folder: Path) -> tuple[str, list[str]]:
    """Return the configuration and the table that are written, without comments."""
    path = write(found, folder)
    table = (folder / "formats.csv").read_text()
    lines = path.read_text().splitlines()
    return table, [line for line in lines if not line.startswith("#")]


@pytest.mark.first(1)
@pytest.mark.parametrize("goal", [{"min_sqnr": 30.0}, {"max_drop": 3.0}, {"max_lut": 400}])
def test_nothing_depends_on_the_samples_that_are_judged_on(
    goal: dict[str, float], tmp_path: Path
) -> None:
    model = net()
    every = drawn(240, 8)
    labels = model(every).argmax(1)
    asked = {**goal, "formats": ["fixed"]}
    written, figures = [], []
    for name, change in (
        ("as it is", lambda x: x),
        ("garbage", lambda x: 1e4 * torch.rand_like(x)),
        ("zeros", torch.zeros_like),
    ):
        inputs, classes = every.clone(), labels.clone()
        inputs[3::4] = change(inputs[3::4])
        classes[3::4] = classes[3::4] if name == "as it is" else 0
        found = fit_formats(mase_hw.trace(model, every[:4]), data=[inputs], labels=classes, **asked)
        written.append(files(found, tmp_path / name.replace(" ", "_")))
        figures.append(found.result.to_dict()["outputs"])
    assert written[0] == written[1] == written[2]
    assert figures[0] != figures[1]


def test_held_out_samples_are_judged_on_all_of_them() -> None:
    model, data = net(), [drawn(200, 8)]
    asked = {"min_sqnr": 30.0, "formats": ["fixed"], "prepare": False}
    configs = []
    for factor in (1, 4):
        held = torch.cat([drawn(512, 8, seed=2), factor * drawn(1500, 8, seed=3)])
        found = fit_formats(model, data=data, held_out=[held[:700], held[700:]], **asked)
        with torch.no_grad():
            own = closeness(model(held), found.graph(held))
        assert found.examples == 2012
        assert found.result.sqnr_db == pytest.approx(own.sqnr_db, abs=1e-6)
        assert f"On 2012 held-out examples: output {own}" in head(found)[1]
        missed = any("min_sqnr 30 is missed" in note for note in found.notes)
        assert missed == (factor == 4)
        configs.append(found.config)
    assert configs[0] == configs[1]


def test_a_split_is_trained_on_validated_on_and_tested_on() -> None:
    model = net()
    inputs = drawn(900, 8)
    labels = model(inputs).argmax(1)
    parts = [(inputs[i : i + 300], labels[i : i + 300]) for i in (0, 300, 600)]
    split = Split(*parts[0], *parts[2], *parts[1])
    found = fit_formats(model, data=split, max_drop=1.0, formats=["fixed"], prepare=False)
    assert found.examples == 300
    accuracy = float((found.graph(parts[2][0]).argmax(1) == parts[2][1]).double().mean())
    assert found.result.accuracy == pytest.approx(accuracy)
    assert found.result.compared is not None
    assert found.result.compared.drop is not None
    assert found.result.compared.drop <= 1.0
    scored = found.result.scored
    assert scored is not None
    low, high = scored.interval
    assert low < accuracy < high
    assert f"accuracy {accuracy:.4f}, 95 % interval {low:.4f} to {high:.4f}" in head(found)[1]
    assert to_dict(found)["chosen"]["accuracy_interval"] == [low, high]  # type: ignore[index]
    assert any("max_drop 1 is less than the 1.26 points that 300 samples" in n for n in found.notes)


class TimeFirst(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cells, self.classes = nn.LSTM(3, 4), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.classes(self.cells(x)[0])
        return found


@pytest.mark.full
def test_the_batch_may_be_the_second_dimension() -> None:
    torch.manual_seed(0)
    model = TimeFirst().eval()
    asked = {"min_sqnr": 30.0, "formats": ["fixed"]}
    found = fit_formats(mase_hw.trace(model, drawn(5, 80, 3)), **asked)
    assert found.examples == 20
    fresh = drawn(5, 500, 3, seed=7)
    with torch.no_grad():
        ratio = closeness(model(fresh), found.graph(fresh)).sqnr_db
    assert ratio is not None
    assert ratio >= 28.0
    labels = torch.zeros(80, dtype=torch.int64)
    with pytest.raises(DataError, match="80 labels of 500 examples"):
        fit_formats(model, data=[drawn(5, 80, 3)], held_out=[fresh], labels=labels, **asked)


def test_a_module_is_taken_in_place_of_a_graph() -> None:
    asked = {"min_sqnr": 25.0, "formats": ["fixed"], "prepare": False}
    by_data = fit_formats(net(), data=[drawn(100, 8)], **asked)
    by_graph = fit_formats(mase_hw.trace(net(), drawn(100, 8)), **asked)
    by_examples = fit_formats(net(), example_inputs=drawn(100, 8), **asked)
    assert by_data.config == by_graph.config == by_examples.config
    with pytest.raises(ConfigError, match="a module needs data or example_inputs"):
        fit_formats(net(), **asked)


@pytest.mark.parametrize(("count", "judged"), [(2, 1), (3, 1), (4, 1), (40, 10)])
def test_few_samples_are_said(count: int, judged: int) -> None:
    asked = {"min_sqnr": 20.0, "formats": ["fixed"], "prepare": False}
    found = fit_formats(net(), data=[drawn(count, 8)], **asked)
    assert found.examples == judged
    text = "\n".join(head(found))
    assert ("too few samples for three parts, which take 4 or more" in text) == (count < 4)
    assert ("too few to tell how sure" in text) == (judged < 8)
    assert ("95 % interval" in text) == (judged >= 8)


@pytest.mark.parametrize("batches", [[drawn(1, 8)], []])
def test_a_single_example_is_refused(batches: Sequence[Tensor]) -> None:
    with pytest.raises(DataError, match=r"1 example of data.*give 4 or more|no example"):
        fit_formats(mase_hw.trace(net(), drawn(4, 8)), data=batches, min_sqnr=20)


def test_labels_of_the_model_stand_in_where_samples_to_compare_on_have_none() -> None:
    model, held = net(), drawn(600, 8, seed=4)
    labels = model(held).argmax(1)
    found = fit_formats(
        model,
        data=[drawn(400, 8)],
        held_out=[held],
        labels=labels,
        max_drop=4.0,
        formats=["fixed"],
        prepare=False,
    )
    compared = found.result.compared
    assert compared is not None
    assert compared.accuracy is not None
    assert compared.accuracy == pytest.approx(1.0 - (compared.drop or 0.0) / 100)
    assert compared.drop is not None
    assert compared.drop <= 4.0
    assert any("compared by the classes of the float model" in note for note in found.notes)


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    generator = torch.Generator().manual_seed(0)
    shares, losses = 0, 0
    for _ in range(1000):
        right = torch.rand(200, generator=generator)
        counts = int((right < 0.9).sum()), int((right > 0.97).sum())
        low, high = of_share(counts[0], 200)
        shares += low <= 0.9 <= high
        low, high = of_loss(*counts, 200)
        losses += low <= 0.87 <= high
    assert 0.92 <= shares / 1000 <= 0.98
    assert 0.92 <= losses / 1000 <= 0.99
    assert of_loss(0, 0, 100)[1] == pytest.approx(resolved_share(100), rel=0.01)
    assert resolved_share(samples_for(0.003)) <= 0.003 < resolved_share(samples_for(0.003) - 2)


def test_intervals_of_decibels_hold_those_of_many_samples() -> None:
    """Each of 40 draws of 100 samples has an interval; nearly all hold the figure of 20,000."""
    model = net()
    found = fit_formats(model, data=[drawn(2000, 8)], min_sqnr=30, formats=["fixed"], prepare=False)
    mg = found.graph
    base = canonicalize(mase_hw.trace(model, drawn(64, 8)))
    many = drawn(20_000, 8, seed=9)
    with torch.no_grad():
        truth = closeness(model(many), mg(many)).sqnr_db
    assert truth is not None
    held = 0
    for part in torch.split(many[:4000], 100):
        low, high = Judge(base, [[part]]).of(mg).intervals["output"]
        held += low - 0.3 <= truth <= high + 0.3
    assert held >= 34


def test_samples_are_divided_in_turn() -> None:
    mg = mase_hw.trace(net(), drawn(4, 8))
    numbered = torch.arange(10.0)[:, None].expand(10, 8)
    samples, judged = Samples.of(mg, [numbered[:3], numbered[3:]])
    assert judged is not None
    places = [part.batches[0][0][:, 0].tolist() for part in (samples.chosen_on, judged)]
    assert places == [[0, 2, 4, 6, 8], [3, 7]]
    assert samples.compared_on.batches[0][0][:, 0].tolist() == [1, 5, 9]
