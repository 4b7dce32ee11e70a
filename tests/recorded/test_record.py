"""The recorded designs compute and cost what they did when they were recorded."""

import copy
import json
from pathlib import Path

import pytest
from torch import Tensor

from mase_hw.emit.project import Project
from mase_hw.hardware.estimate import estimate
from mase_hw.models import models
from tests.recorded import designs, record

# Its embeddings have no hardware.
WITHOUT_HARDWARE = {"bert-tiny"}
# Compared with torch's own networks of few bits in tests/flow and by the benchmark `coverage`;
# simulated by the benchmark `transformers`.
HELD_ELSEWHERE = {
    *(
        f"{name}{bits}"
        for name in ("mnist-tfc", "mnist-sfc", "mnist-lfc")
        for bits in ("", "-w2a2")
    ),
    *("fashion-cnv", "fashion-cnv-w2a2", "fashion-mobilenet", "vit-mnist"),
}


def hold(name: str, *fields: str) -> None:
    lines = record.differences(name, record.load()[name], record.measure(name, fields))
    assert not lines, record.explain(name, lines)


@pytest.mark.first(4)
@pytest.mark.parametrize("name", list(designs.SMALL))
def test_a_small_design_computes_what_it_did(name):
    hold(name, *record.WITHOUT_AREA)


@pytest.mark.full
@pytest.mark.parametrize("name", list(designs.NETWORKS))
def test_a_registered_network_computes_what_it_did(name):
    hold(name, *record.WITHOUT_AREA)


@pytest.mark.full
@pytest.mark.parametrize("name", designs.names())
def test_a_design_costs_what_it_did(name):
    hold(name, "area")


def test_every_registered_network_is_known():
    assert set(models()) == {*designs.NETWORKS, *WITHOUT_HARDWARE, *HELD_ELSEWHERE}


def test_everything_is_recorded_whole():
    found = record.load()
    assert list(found) == designs.names()
    for name, entry in found.items():
        assert tuple(entry) == record.fields_of(name)
        assert entry["interval"]["predicted"] == entry["interval"]["simulated"]
        outputs = dict(entry["outputs"])
        assert outputs.pop(record.FAULTS) == 0
        for port in {port.partition(" ")[0] for port in outputs}:
            assert outputs[f"{port} of the RTL"] == outputs[f"{port} of the reference"]


RECORDED: dict[str, dict[str, object]] = {
    "outputs": {"data_out_0 of the RTL": "a1"},
    "interval": {"predicted": 88, "simulated": 88},
    "latency": {"predicted": 341, "simulated": 341},
    "multipliers": {"total": 60},
    "area": {"lut": 1000, "ff": 500, "dsp": 60, "bram": 0.0},
}


@pytest.mark.parametrize(
    ("field", "figure", "value", "message"),
    [
        ("outputs", "data_out_0 of the RTL", "b2", "recorded a1, found b2: must be equal"),
        ("outputs", "data_out_1 of the RTL", "b2", "recorded nothing, found b2: must be equal"),
        ("interval", "simulated", 87, "recorded 88, found 87: must be equal"),
        ("multipliers", "total", 61, "recorded 60, found 61: must be equal"),
        ("area", "lut", 1031, "recorded 1000, found 1031: may grow by 3% at most"),
        ("area", "bram", 0.5, "recorded 0.0, found 0.5: may grow by 3% at most"),
    ],
)
def test_a_difference_is_named(field, figure, value, message):
    found = copy.deepcopy(RECORDED)
    found[field][figure] = value
    lines = record.differences("net", RECORDED, found)
    assert lines == [f"net, {field}, {figure}: {message}"]
    assert record.explain("net", lines).endswith("tests.recorded.record net [--field FIELD ...]")


def test_a_port_may_not_go_and_flip_flops_may_grow():
    area = {"lut": 1030, "ff": 5000, "dsp": 0, "bram": 0.0}
    (line,) = record.differences("net", RECORDED, {**RECORDED, "outputs": {}, "area": area})
    assert line == "net, outputs, data_out_0 of the RTL: recorded a1, found nothing: must be equal"


@pytest.mark.parametrize("simulated", [341, 352])
def test_a_latency_may_not_be_predicted_worse(simulated):
    recorded = {"latency": {"predicted": 341, "simulated": 344}}
    found = {"latency": {"predicted": 341, "simulated": simulated}}
    lines = record.differences("net", recorded, found)
    missed = "net, latency: predicted 341, simulated 352: may miss by 3 cycles at most"
    assert len(lines) == (1 if simulated == 341 else 2)
    assert (missed in lines) == (simulated == 352)


def test_what_is_wrong_is_not_recorded():
    wrong = {"outputs": {record.FAULTS: 2}}
    assert record.refused("net", {}, wrong) == (
        "net is not recorded: 2 wrong elements and broken stream rules"
    )
    worse = {"latency": {"predicted": 341, "simulated": 342}}
    assert record.refused("net", RECORDED, worse) == (
        "net, latency: predicted 341, simulated 342: may miss by 0 cycles at most; not recorded"
    )
    longer = {"latency": {"predicted": 400, "simulated": 400}}
    assert record.refused("net", RECORDED, longer) is None


def test_wrong_hardware_is_found(monkeypatch):
    """A wrong weight in a memory changes what the RTL computes, not what the reference does."""
    name, emit = "linear-ternary", designs.emit

    def emit_wrong(name: str, folder: Path) -> tuple[Project, Tensor]:
        project, inputs = emit(name, folder)
        (memory,) = (folder / "mem").glob("*weight*.mem")
        words = memory.read_text().split()
        memory.write_text("\n".join(["0" * len(words[0]), *words[1:]]))
        return project, inputs

    monkeypatch.setattr(designs, "emit", emit_wrong)
    found = record.measure(name, record.WITHOUT_AREA)
    lines = record.differences(name, record.load()[name], found)
    assert [line.partition(":")[0] for line in lines] == [
        f"{name}, outputs, {record.FAULTS}",
        f"{name}, outputs, data_out_0 of the RTL",
        f"{name}, paused, {record.FAULTS}",
    ]
    assert record.refused(name, {}, found) is not None


RECORD = json.loads(Path(__file__).with_name("record.json").read_text())


@pytest.mark.parametrize("name", ["linear-mxint8", "linear-scaled_integer8", "jet-p4", "branches"])
def test_an_estimate_is_near_the_recorded_area(name, tmp_path):
    project, _ = designs.emit(name, tmp_path / "design")
    found, area = estimate(project.mg), RECORD[name]["area"]
    assert found.lut == pytest.approx(area["lut"], rel=0.08)
    assert found.ff == pytest.approx(area["ff"], rel=0.08)
    assert found.dsp == area["dsp"]
    assert found.bram == area["bram"]
