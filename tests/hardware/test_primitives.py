"""The blocks of a device compute what the generic modules do, bit for bit and cycle for cycle.

The library's modules for a device are simulated beside the generic ones, with models of the
device's blocks in `rtl/` beside this file.
"""

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.errors import ConfigError
from mase_hw.hardware.estimate import estimate_nodes
from mase_hw.hardware.synth import synthesize
from tests.rtl_bench import build_bench

MODELS = Path(__file__).with_name("rtl")
# Results and lanes, bits and sign of what is shared, bits and sign of the others.
Group = tuple[int, int, int, bool, int, bool]
GROUPS: Sequence[Group] = [
    *((2, lanes, 8, True, 8, True) for lanes in range(1, 10)),
    (2, 4, 9, True, 8, True),
    (2, 4, 8, False, 8, True),
    (2, 3, 8, True, 8, False),
    (2, 5, 8, False, 8, False),
    (2, 6, 12, True, 6, True),
    (2, 3, 18, True, 4, True),
    (2, 7, 5, True, 7, True),
    (2, 2, 16, False, 4, False),
    *((4, lanes, 4, True, 4, True) for lanes in range(1, 6)),
    # More lanes than what a field lacks is added for at once.
    (4, 19, 3, True, 3, True),
    (4, 3, 3, True, 5, True),
    (4, 2, 5, True, 3, True),
    (4, 4, 3, False, 4, True),
    (4, 3, 4, True, 3, False),
    (4, 3, 3, False, 3, False),
]

BENCH = """
module bench_group
  import mase_pkg::*;
#(
    parameter int unsigned RESULTS = 2, LANES = 4, SHARED_WIDTH = 8, OWN_WIDTH = 8,
    parameter bit SHARED_SIGNED = 1, OWN_SIGNED = 1,
    localparam int unsigned SumWidth = SHARED_WIDTH + OWN_WIDTH + (SHARED_SIGNED ? 0 : 1)
        + (OWN_SIGNED ? 0 : 1) + $clog2(LANES)
) (input logic clk, input int unsigned cycle, output int unsigned seen);
  logic [LANES-1:0][SHARED_WIDTH-1:0] shared;
  logic [RESULTS-1:0][LANES-1:0][OWN_WIDTH-1:0] own;
  logic [RESULTS-1:0][SumWidth-1:0] sums[2];
  // What is largest, smallest, or nothing comes as often as anything else.
  function automatic logic [31:0] operand(int unsigned width, bit sign);
    case ($urandom_range(7))
      0: return 32'd1 << (width - 1);
      1: return (32'd1 << (width - 1)) - 1;
      2: return 0;
      3: return '1;
      default: return $urandom();
    endcase
  endfunction
  logic [1:0] kind;
  always_ff @(posedge clk) begin
    kind <= 2'($urandom());
    for (int i = 0; i < LANES; i++) begin
      shared[i] <= SHARED_WIDTH'(operand(SHARED_WIDTH, SHARED_SIGNED));
      for (int j = 0; j < RESULTS; j++) own[j][i] <= OWN_WIDTH'(operand(OWN_WIDTH, OWN_SIGNED));
    end
    // All lanes at once at an end of their range.
    if (kind[0]) shared <= {LANES{SHARED_SIGNED ? SHARED_WIDTH'(1) << (SHARED_WIDTH - 1) : '1}};
    if (kind[1]) own <= {RESULTS * LANES{OWN_SIGNED ? OWN_WIDTH'(1) << (OWN_WIDTH - 1) : '1}};
  end
  for (genvar d = 0; d < 2; d++) begin : gen_device
    mase_dot_shared #(
        .RESULTS(RESULTS), .LANES(LANES),
        .SHARED_WIDTH(SHARED_WIDTH), .SHARED_SIGNED(SHARED_SIGNED),
        .OWN_WIDTH(OWN_WIDTH), .OWN_SIGNED(OWN_SIGNED), .SUM_WIDTH(SumWidth),
        .DEVICE(device_e'(d))
    ) u_group (.clk, .shared, .own, .sum(sums[d]));
  end
  always_ff @(posedge clk) begin
    if (cycle > 16) begin
      if (sums[0] != sums[1]) begin
        $fatal(1, "cycle %0d: generic %h, device %h", cycle, sums[0], sums[1]);
      end
      if (sums[0] != 0) seen <= seen + 1;
    end
  end
endmodule
"""

EXHAUSTIVE = """
module bench import mase_pkg::*; (input logic clk);
  localparam int unsigned Width = %(width)d;
  localparam int unsigned Results = %(results)d;
  localparam int unsigned Delay = 2;
  localparam int unsigned Bits = (Results + 1) * Width;
  logic [Bits:0] count;
  logic signed [Width-1:0] shared;
  logic [Results-1:0][Width-1:0] own;
  logic signed [2*Width-1:0] expected[Results][Delay];
  logic [Results-1:0][2*Width-1:0] sums;
  assign {own, shared} = count[Bits-1:0];
  mase_dot_shared #(
      .LANES(1), .RESULTS(Results), .SHARED_WIDTH(Width), .OWN_WIDTH(Width),
      .SUM_WIDTH(2 * Width), .DEVICE(Xcup)
  ) u_group (.clk, .shared(shared), .own, .sum(sums));
  always_ff @(posedge clk) begin
    count <= count + 1;
    for (int j = 0; j < Results; j++) begin
      expected[j][0] <= shared * signed'(own[j]);
      expected[j][1] <= expected[j][0];
      if (count > Delay && sums[j] != expected[j][1]) $fatal(1, "%%h", count);
    end
    if (count[Bits] && count[2:0] == Delay + 1) begin
      $display("%%0d combinations", count - Delay - 1);
      $finish;
    end
  end
endmodule
"""


def run(text: str, folder: Path) -> str:
    """Return what a module `bench` says that is compiled as synthesis would."""
    (folder / "bench.sv").write_text(text)
    options = ["--assert", "-DSYNTHESIS", "-y", str(MODELS)]
    bench = build_bench(folder, *options, "bench.sv")
    result = subprocess.run([bench], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def groups(cycles: int) -> str:
    instances = "\n".join(
        f"  bench_group #(.RESULTS({results}), .LANES({lanes}), .SHARED_WIDTH({shared}), "
        f".SHARED_SIGNED({int(shared_signed)}), .OWN_WIDTH({own}), .OWN_SIGNED({int(own_signed)})) "
        f"u_{number} (.clk, .cycle, .seen(seen[{number}]));"
        for number, (results, lanes, shared, shared_signed, own, own_signed) in enumerate(GROUPS)
    )
    return f"""{BENCH}
module bench (input logic clk);
  int unsigned cycle;
  int unsigned seen[{len(GROUPS)}];
{instances}
  always_ff @(posedge clk) begin
    cycle <= cycle + 1;
    if (cycle == {cycles}) begin
      foreach (seen[i]) $display("%0d", seen[i]);
      $finish;
    end
  end
endmodule
"""


@pytest.mark.full
def test_products_in_a_block_are_the_products(tmp_path):
    cycles = 20_000
    seen = [int(line) for line in run(groups(cycles), tmp_path).split() if line.isdigit()]
    assert len(seen) == len(GROUPS)
    assert min(seen) > cycles // 4


@pytest.mark.parametrize(
    ("results", "width"), [(2, 5), (4, 4), pytest.param(2, 8, marks=pytest.mark.full)]
)
def test_products_of_all_operands(results, width, tmp_path):
    said = run(EXHAUSTIVE % {"results": results, "width": width}, tmp_path)
    assert f"{1 << (results + 1) * width} combinations" in said


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("device")
    return mase_hw.emit_verilog(
        nn.Linear(6, 9), torch.randn(4, 6), output=folder / "net", parallelism=3, device="xcup"
    )


def test_a_design_for_a_device_is_simulated_without_it(project):
    report = mase_hw.simulate(project, samples=8, stall=0.3)
    assert report.is_right and report.elements == 72


@pytest.mark.full
def test_a_block_makes_two_products_of_three(project):
    """Three lanes of three results: three blocks of two, and three of one."""
    counted = synthesize(project.folder, "xcup").total
    assert counted.dsp == estimate_nodes(project.mg).total.dsp == 6


@pytest.mark.full
def test_a_block_makes_four_products_of_four_bits(tmp_path):
    """Two lanes of five results: two blocks of four, and one result in look-up tables."""
    torch.manual_seed(0)
    entry = {"name": "fixed", "data_in_width": 4, "weight_width": 4, "bias_width": 8}
    project = mase_hw.emit_verilog(
        nn.Linear(4, 5),
        torch.randn(4, 4),
        output=tmp_path / "net",
        config={"by": "type", "default": {"config": entry}},
        parallelism={"linear": {"data_in_0_dim_0": 2, "data_out_0_dim_0": 5}},
        device="xcup",
    )
    counted = synthesize(project.folder, "xcup").total
    assert counted.dsp == estimate_nodes(project.mg).total.dsp == 2


@pytest.mark.full
def test_without_dsp_blocks_nothing_names_them(project):
    assert synthesize(project.folder, "xcup", dsp=False).total.dsp == 0


def test_another_family_takes_the_generic_modules(project):
    assert synthesize(project.folder, "ecp5").total.dsp == 9


def test_an_unknown_device_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="device is 'artix'; allowed: generic, xcup"):
        mase_hw.emit_verilog(
            nn.Linear(2, 2), torch.randn(1, 2), output=tmp_path / "net", device="artix"
        )
