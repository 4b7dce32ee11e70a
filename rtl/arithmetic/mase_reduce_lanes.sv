// SPDX-License-Identifier: Apache-2.0
// Sum, or maximum, over the lanes of a beat that lie inside a row of SIZE elements; `move` counts the
// beats of the row. Exact; the result is two's complement of OUT_WIDTH bits. Combinational.
module mase_reduce_lanes #(
    parameter bit MAXIMUM = 0,
    parameter int unsigned SIZE = 8,
    parameter int unsigned LANES = 4,
    parameter int unsigned IN_WIDTH = 8,
    parameter bit SIGNED = 1,
    parameter int unsigned OUT_WIDTH = 10
) (
    input  logic                           clk,
    input  logic                           rst,
    input  logic                           move,
    input  logic [LANES-1:0][IN_WIDTH-1:0] data_in,
    output logic [OUT_WIDTH-1:0]           data_out
);

  localparam int unsigned Tiles = (SIZE + LANES - 1) / LANES;
  localparam int unsigned Tail = SIZE - (Tiles - 1) * LANES;
  localparam int unsigned TileBits = (Tiles > 1) ? $clog2(Tiles) : 1;

  logic [TileBits-1:0] tile_q;
  logic last;

  assign last = tile_q == TileBits'(Tiles - 1);

  always_ff @(posedge clk) begin
    if (rst) tile_q <= '0;
    else if (move) tile_q <= last ? '0 : tile_q + 1'b1;
  end

  // Lane 0 is always inside, and stands in for lanes that are not.
  logic signed [OUT_WIDTH-1:0] value[LANES];

  for (genvar i = 0; i < LANES; i++) begin : gen_lane
    logic signed [OUT_WIDTH-1:0] extended;
    if (SIGNED) begin : gen_signed
      assign extended = OUT_WIDTH'(signed'(data_in[i]));
    end else begin : gen_unsigned
      assign extended = OUT_WIDTH'(data_in[i]);
    end
    if (i < Tail) begin : gen_inside
      assign value[i] = extended;
    end else if (MAXIMUM) begin : gen_tail_maximum
      assign value[i] = last ? value[0] : extended;
    end else begin : gen_tail_sum
      assign value[i] = last ? '0 : extended;
    end
  end

  always_comb begin
    logic signed [OUT_WIDTH-1:0] reduced;
    reduced = value[0];
    for (int i = 1; i < LANES; i++) begin
      if (!MAXIMUM) reduced = reduced + value[i];
      else if (value[i] > reduced) reduced = value[i];
    end
    data_out = reduced;
  end

endmodule
