// SPDX-License-Identifier: Apache-2.0
// Sum, or maximum, over the lanes of all beats of a row of ROW elements, in two's complement of
// OUT_WIDTH bits, exact. A beat is there where `take` is high, the last one of a row with `last`; the
// result comes with `reduced_valid`.
// Latency 3 + ceil(log2(LANES)) cycles, throughput one per cycle; it never stops.
module mase_row_fold
  import mase_pkg::*;
#(
    parameter bit MAXIMUM = 0,
    parameter int unsigned LANES = 4,
    parameter int unsigned ROW = 8,
    parameter int unsigned IN_WIDTH = 8,
    parameter bit SIGNED = 1,
    parameter int unsigned OUT_WIDTH = 11
) (
    input  logic                            clk,
    input  logic                            rst,
    input  logic [LANES-1:0][ IN_WIDTH-1:0] data,
    input  logic                            take,
    input  logic                            last,
    output logic [OUT_WIDTH-1:0]            reduced,
    output logic                            reduced_valid
);

  localparam int unsigned Tail = ROW - (ceil_div(ROW, LANES) - 1) * LANES;
  localparam int unsigned Stages = 2 + $clog2(LANES);

  logic [OUT_WIDTH-1:0] part;
  logic first_q;
  (* mase_register = "stages" *)
  logic [Stages-1:0] valid_q;
  logic [Stages-1:0] firsts_q;
  logic [Stages:0] lasts_q;

  always_ff @(posedge clk) begin
    if (rst) begin
      first_q <= 1'b1;
      valid_q <= '0;
      lasts_q <= '0;
    end else begin
      if (take) first_q <= last;
      valid_q <= Stages'({valid_q, take});
      lasts_q <= (Stages + 1)'({lasts_q, take && last});
    end
  end

  always_ff @(posedge clk) firsts_q <= Stages'({firsts_q, first_q});

  mase_reduce_lanes #(
      .MAXIMUM(MAXIMUM),
      .LANES(LANES),
      .TAIL(Tail),
      .IN_WIDTH(IN_WIDTH),
      .SIGNED(SIGNED),
      .OUT_WIDTH(OUT_WIDTH)
  ) u_lanes (
      .clk,
      .data,
      .last,
      .reduced(part)
  );

  mase_reduce_beats #(
      .MAXIMUM(MAXIMUM),
      .WIDTH(OUT_WIDTH)
  ) u_beats (
      .clk,
      .rst,
      .comes(1'b0),
      .valid(valid_q[Stages-1]),
      .first(firsts_q[Stages-1]),
      .part,
      .reduced
  );

  assign reduced_valid = lasts_q[Stages];

endmodule
