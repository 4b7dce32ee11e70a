// SPDX-License-Identifier: Apache-2.0
// Sum, or maximum, over the lanes of a beat that lie inside a row of SIZE elements. Exact; the result
// is two's complement of OUT_WIDTH bits. Latency 1 cycle, throughput 1 beat per cycle.
module mase_reduce_lanes
  import mase_pkg::*;
#(
    parameter bit MAXIMUM = 0,
    parameter int unsigned SIZE = 8,
    parameter int unsigned LANES = 4,
    parameter int unsigned IN_WIDTH = 8,
    parameter bit SIGNED = 1,
    parameter int unsigned OUT_WIDTH = 10
) (
    input logic clk,
    input logic rst,

    input  logic [LANES-1:0][IN_WIDTH-1:0] data_in,
    input  logic                           data_in_valid,
    output logic                           data_in_ready,

    output logic [OUT_WIDTH-1:0] data_out,
    output logic                 data_out_valid,
    input  logic                 data_out_ready
);

  localparam int unsigned Tiles = ceil_div(SIZE, LANES);
  localparam int unsigned Tail = SIZE - (Tiles - 1) * LANES;
  localparam int unsigned TileBits = index_width(Tiles);

  logic [TileBits-1:0] tile_q;
  logic last;

  assign last = tile_q == TileBits'(Tiles - 1);

  always_ff @(posedge clk) begin
    if (rst) tile_q <= '0;
    else if (data_in_valid && data_in_ready) tile_q <= last ? '0 : tile_q + 1'b1;
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

  logic signed [OUT_WIDTH-1:0] reduced;

  always_comb begin
    reduced = value[0];
    for (int i = 1; i < LANES; i++) begin
      if (!MAXIMUM) reduced = reduced + value[i];
      else if (value[i] > reduced) reduced = value[i];
    end
  end

  mase_stream_register #(
      .WIDTH(OUT_WIDTH)
  ) u_register (
      .clk,
      .rst,
      .data_in(reduced),
      .data_in_valid,
      .data_in_ready,
      .data_out,
      .data_out_valid,
      .data_out_ready
  );

endmodule
