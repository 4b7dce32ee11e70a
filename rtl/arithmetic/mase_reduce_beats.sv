// SPDX-License-Identifier: Apache-2.0
// Sum, or maximum, lane by lane over rounds of INNER parts, see mase_round_pipeline: `reduced` is
// that of the rounds until now, a cycle after its last part. Exact, in two's complement.
// It never stops.
module mase_reduce_beats #(
    parameter bit MAXIMUM = 0,
    parameter int unsigned INNER = 1,
    parameter int unsigned LANES = 1,
    parameter int unsigned WIDTH = 10
) (
    input  logic                        clk,
    input  logic                        rst,
    input  logic                        comes,
    input  logic                        valid,
    input  logic                        first,
    input  logic [LANES-1:0][WIDTH-1:0] part,
    output logic [LANES-1:0][WIDTH-1:0] reduced
);

  // With the sign inverted, numbers are in unsigned order, for which one chain of carries is enough.
  localparam logic [WIDTH-1:0] SignMask = WIDTH'(1) << (WIDTH - 1);

  logic [LANES-1:0][WIDTH-1:0] kept;
  logic [LANES-1:0][WIDTH-1:0] next;

  for (genvar i = 0; i < LANES; i++) begin : gen_lane
    if (MAXIMUM) begin : gen_maximum
      assign next[i] = (first || (part[i] ^ SignMask) > (kept[i] ^ SignMask)) ? part[i] : kept[i];
    end else begin : gen_sum
      assign next[i] = (first ? '0 : kept[i]) + part[i];
    end
  end

  mase_round_store #(
      .INNER(INNER),
      .WIDTH(LANES * WIDTH)
  ) u_store (
      .clk,
      .rst,
      .comes,
      .valid,
      .reduced(next),
      .kept,
      .reduced_q(reduced)
  );

endmodule
